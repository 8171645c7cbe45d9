"""kill -9 in the middle of a batch: nothing is summarised twice, nothing is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.servers.openai import OpenAIServer, paper_of

ROOT = Path(__file__).resolve().parents[2]
PAPERS = 6
SEED = f"""
from webapp.papers.models import Paper
from webapp.summaries.models import FullText
for n in range({PAPERS}):
    text = f"Paper number {{n}} has a method. It is {{n}}.5x faster than the dense baseline here."
    paper = Paper.objects.create(
        arxiv_id=f"2512.0000{{n}}", title=f"Paper {{n}}", abstract=text, primary_category="cs.LG"
    )
    FullText.objects.create(
        paper=paper, version=1, source="abstract", sections=[{{"title": "Abstract", "text": text}}],
        sha256="0" * 64, fetched_at="2025-12-18T00:00:00Z",
    )
"""


def manage(data: Path, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(data), **env},
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_a_killed_batch_is_finished_without_doing_anything_twice(tmp_path: Path) -> None:
    database = tmp_path / "assay.sqlite3"
    assert manage(tmp_path, "shell", "-v", "0", "-c", SEED).wait(120) == 0
    ids = [part for n in range(PAPERS) for part in ("--paper", f"2512.0000{n}")]
    with OpenAIServer(delay=0.4) as server:
        env = {"OPENAI_BASE_URL": server.url, "ASSAY_SUMMARY_MODEL": "small"}
        batch = manage(tmp_path, "summarise", *ids, **env)
        deadline = time.monotonic() + 60
        while server.summaries_asked < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        batch.send_signal(signal.SIGKILL)
        batch.wait()
        with sqlite3.connect(database) as rows:
            before = Counter(s for (s,) in rows.execute("select state from summaries_summary"))
            # The lease of the killed worker ends; the next tick's sweep sees that.
            rows.execute(
                "update summaries_summary set leased_until = '2020-01-01' where state = 'running'"
            )
        assert before["done"] == 2
        assert before["running"] == 1
        assert before["waiting"] == PAPERS - 3
        sweep = "from webapp.summaries import queue; assert queue.sweep() == 1"
        assert manage(tmp_path, "shell", "-v", "0", "-c", sweep).wait(60) == 0
        assert manage(tmp_path, "summarise", *ids, **env).wait(60) == 0
        asked = Counter(paper_of(r) for r in server.requests if paper_of(r))
    with sqlite3.connect(database) as rows:
        states = rows.execute("select paper_id, state from summaries_summary").fetchall()
        claims = rows.execute("select summary_id, position from summaries_claim").fetchall()
        calls = rows.execute("select count(*) from summaries_modelcall").fetchone()[0]
    assert [state for _, state in states] == ["done"] * PAPERS
    assert len({paper for paper, _ in states}) == PAPERS
    assert len(claims) == len(set(claims)) == 2 * PAPERS
    # Only the paper that was being read when the worker was killed is read again.
    assert sorted(asked.values()) == [1] * (PAPERS - 1) + [2]
    assert calls == PAPERS + 1
