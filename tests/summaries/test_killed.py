"""kill -9 in the middle of a batch: nothing is summarised twice, nothing is lost."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from django.core.management import call_command

from tests.processes import forked, wait_for
from tests.servers.openai import OpenAIServer, paper_of
from webapp.papers.models import Paper
from webapp.summaries import queue
from webapp.summaries.models import Claim, FullText, ModelCall, Summary

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
IDS = [f"2512.0000{number}" for number in range(6)]


@pytest.fixture
def papers(transactional_db: None) -> None:
    for number, arxiv_id in enumerate(IDS):
        text = (
            f"Paper number {number} has a method. "
            f"It is {number}.5x faster than the dense baseline here."
        )
        paper = Paper.objects.create(
            arxiv_id=arxiv_id, title="A paper", abstract=text, primary_category="cs.LG"
        )
        FullText.objects.create(
            paper=paper,
            version=1,
            source="abstract",
            sections=[{"title": "Abstract", "text": text}],
            sha256="0" * 64,
            fetched_at=LONG_AGO,
        )


def summarise() -> None:
    call_command("summarise", *(word for one in IDS for word in ("--paper", one)))


def test_a_killed_batch_is_finished_without_doing_anything_twice(
    papers: None, model: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "LEASE", 4.0)
    model.by_title = {"Paper number 2": "stall"}
    batch = forked(summarise)
    wait_for(lambda: model.summaries_asked == 3, "the third paper")
    first = Summary.objects.get(state="running").leased_until
    wait_for(Summary.objects.filter(leased_until__gt=first).exists, "a renewal of the lease")
    assert queue.sweep() == 0
    batch.kill()
    batch.join()
    model.by_title = {}
    before = Counter(Summary.objects.values_list("state", flat=True))
    assert before == {"done": 2, "running": 1, "waiting": len(IDS) - 3}
    # The lease of the killed worker ends; the next tick's sweep sees that.
    wait_for(lambda: queue.sweep() == 1, "the end of the lease")
    summarise()
    states = Summary.objects.values_list("paper", "state")
    assert [state for _, state in states] == ["done"] * len(IDS)
    assert len({paper for paper, _ in states}) == len(IDS)
    claims = Claim.objects.values_list("summary", "position")
    assert len(claims) == len(set(claims)) == 2 * len(IDS)
    # Only the paper that was being read when the worker was killed is read again.
    asked = Counter(text for request in model.requests if (text := paper_of(request)))
    assert sorted(asked.values()) == [1] * (len(IDS) - 1) + [2]
    # One call for each paper, one more for that which was killed, and the probe of the server.
    assert ModelCall.objects.count() == len(IDS) + 1 + 1
