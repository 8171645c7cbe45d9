from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from multiprocessing import Pipe
from typing import Any

import pytest
from pytest_django import Settings

from tests.processes import PATIENCE, forked
from tests.servers.arxiv import ArxivServer

WEDNESDAY = date(2026, 3, 4)


def noon(day: date) -> datetime:
    """A moment of an arXiv day after its feeds were built."""
    return datetime(day.year, day.month, day.day, 17, tzinfo=UTC)


@pytest.fixture
def arxiv(settings: Settings) -> Iterator[ArxivServer]:
    with ArxivServer(today=WEDNESDAY, per_day=6) as server:
        settings.ARXIV_RSS_URL = server.rss_url
        settings.ARXIV_API_URL = server.api_url
        settings.ARXIV_SECONDS = 0
        yield server


class Child:
    """A fork of this process that does one thing of `tests.papers.child`, and may be killed."""

    def __init__(self, act: Callable[..., None], *arguments: int) -> None:
        self._ear, mouth = Pipe(duplex=False)
        self.process = forked(lambda: act(mouth.send, *arguments))
        mouth.close()

    def said(self) -> Any:
        """The next thing it says."""
        assert self._ear.poll(PATIENCE)
        return self._ear.recv()

    def kill(self) -> None:
        """End it where it stands."""
        self.process.kill()
        self.process.join()


@pytest.fixture
def processes(transactional_db: None, settings: Settings) -> type[Child]:
    """Start other processes on this test's database, with its settings."""
    settings.ARXIV_SECONDS = 0
    return Child
