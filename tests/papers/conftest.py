from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from pytest_django import Settings

from tests.servers.arxiv import ArxivServer

ROOT = Path(__file__).resolve().parents[2]
WEDNESDAY = date(2026, 3, 4)


def noon(day: date) -> datetime:
    """A moment of an arXiv day after its feeds were built."""
    return datetime(day.year, day.month, day.day, 17, tzinfo=UTC)


@pytest.fixture
def arxiv(settings: Settings) -> Iterator[ArxivServer]:
    with ArxivServer(today=WEDNESDAY) as server:
        settings.ARXIV_RSS_URL = server.rss_url
        settings.ARXIV_API_URL = server.api_url
        settings.ARXIV_SECONDS = 0
        yield server


@dataclass
class Processes:
    """Starts `tests.papers.child` on this test's own database."""

    environment: dict[str, str]

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.papers.child", *command],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def finish(self, *command: str) -> list[Any]:
        """Run to the end; what it said."""
        process = self.start(*command)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture
def processes(transactional_db: None, settings: Settings) -> Processes:
    settings.ARXIV_SECONDS = 0
    where = connection.settings_dict
    if connection.vendor == "postgresql":
        host = quote(where["HOST"], safe="")
        port = f":{where['PORT']}" if where["PORT"] else ""
        url = f"postgresql://{where['USER']}@{host}{port}/{where['NAME']}"
    else:
        url = f"sqlite:///{where['NAME']}"
    return Processes({**os.environ, "DATABASE_URL": url, "ASSAY_ARXIV_SECONDS": "0"})
