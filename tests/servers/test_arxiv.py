"""The local arXiv on its own, as `up` and browsers meet it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import feedparser
import httpx2
import pytest

from tests.processes import PATIENCE, ROOT

web = httpx2.Client(timeout=PATIENCE)


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
        feed = feedparser.parse(web.get(f"{url}/{form}/cs.CL").content)
        assert (feed.version, feed.bozo) == (version, False)
        assert all(entry.title.startswith("Synthetic ") for entry in feed.entries)
        assert {"new", "replace"} <= {entry.arxiv_announce_type for entry in feed.entries}
    assert b"Synthetic" in web.get(f"{url}/api/query?search_query=cat:cs.CL").content
    assert web.get(f"{url}/api/query?max_results=2001").status_code == 400
    assert web.get(f"{url}/rss/cs.CL'").status_code == 400
    assert web.get(f"{url}/elsewhere").status_code == 404


def test_it_is_told_how_to_behave(url: str) -> None:
    told = {"scenario": "unavailable", "retry_after": 7, "today": "2026-03-05"}
    assert "04 Mar 2026" in web.get(f"{url}/rss/cs.CL").text
    assert web.post(f"{url}/control", json=told).json()["today"] == "2026-03-05"
    answer = web.get(f"{url}/rss/cs.CL")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert web.post(f"{url}/control", content=json.dumps({"scenario": "x"})).status_code == 400
    web.post(f"{url}/control", json={"scenario": "normal"})
    assert web.get(f"{url}/control").json()["scenario"] == "normal"
    feed = web.get(f"{url}/rss/cs.CL")
    assert feed.status_code == 200
    assert "05 Mar 2026" in feed.text
