"""The local arXiv on its own, as `up` and browsers meet it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import feedparser
import httpx2
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = ["-m", "tests.servers.arxiv", "--today", "2026-03-04", "--per-day", "3"]
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        match = re.search(r"ASSAY_ARXIV_RSS_URL=(\S+)", process.stdout.readline())
        assert match is not None
        yield match[1]
    finally:
        process.kill()
        process.wait()


def test_its_feeds_are_valid_and_named_synthetic(url: str) -> None:
    for form, version in (("rss", "rss20"), ("atom", "atom10")):
        feed = feedparser.parse(httpx2.get(f"{url}/{form}/cs.CL").content)
        assert (feed.version, feed.bozo) == (version, False)
        assert all(entry.title.startswith("Synthetic ") for entry in feed.entries)
        assert {"new", "replace"} <= {entry.arxiv_announce_type for entry in feed.entries}
    assert b"Synthetic" in httpx2.get(f"{url}/api/query?search_query=cat:cs.CL").content
    assert httpx2.get(f"{url}/api/query?max_results=2001").status_code == 400
    assert httpx2.get(f"{url}/rss/cs.CL'").status_code == 400
    assert httpx2.get(f"{url}/elsewhere").status_code == 404


def test_it_is_told_how_to_behave(url: str) -> None:
    told = {"scenario": "unavailable", "retry_after": 7, "today": "2026-03-05"}
    assert "04 Mar 2026" in httpx2.get(f"{url}/rss/cs.CL").text
    assert httpx2.post(f"{url}/control", json=told).json()["today"] == "2026-03-05"
    answer = httpx2.get(f"{url}/rss/cs.CL")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert httpx2.post(f"{url}/control", content=json.dumps({"scenario": "x"})).status_code == 400
    httpx2.post(f"{url}/control", json={"scenario": "normal"})
    assert httpx2.get(f"{url}/control").json()["scenario"] == "normal"
    feed = httpx2.get(f"{url}/rss/cs.CL")
    assert feed.status_code == 200
    assert "05 Mar 2026" in feed.text
