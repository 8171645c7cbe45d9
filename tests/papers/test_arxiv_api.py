from __future__ import annotations

from datetime import date

import pytest

from tests.papers.conftest import WEDNESDAY
from tests.servers.arxiv import ArxivServer
from webapp.papers import arxiv_api, fetch
from webapp.papers.days import DAY

pytestmark = pytest.mark.django_db

TUESDAY = WEDNESDAY - DAY


def test_days_hold_what_was_submitted_for_them(arxiv: ArxivServer) -> None:
    found = arxiv_api.submitted("cs.CL", date(2026, 2, 27), TUESDAY)
    assert sorted(found) == [date(2026, 2, 27), date(2026, 3, 2), TUESDAY]
    for day, answer in found.items():
        new = {e.arxiv_id for e in answer.entries if e.type == "new"}
        assert new == {p.arxiv_id for kind, p in arxiv.corpus.feed("cs.CL", day) if kind == "new"}
        assert all(entry.announced_version == 1 for entry in answer.entries)
        assert answer.problems == ()
    assert any(e.type == "cross" for e in found[TUESDAY].entries)


def test_pages_are_turned_within_the_limiter(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arxiv_api, "PAGE", 10)
    found = arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)[TUESDAY]
    monkeypatch.setattr(arxiv_api, "PAGE", 2000)
    assert len(arxiv.log) > 1
    assert found == arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)[TUESDAY]


@pytest.mark.parametrize("scenario", ["spurious", "truncated", "unavailable"])
def test_a_bad_first_page_is_asked_for_again(arxiv: ArxivServer, scenario: str) -> None:
    arxiv.retry_after = "0"
    arxiv.then(scenario)
    assert arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)[TUESDAY].entries
    assert len(arxiv.log) == 2


def test_nothing_is_believed_when_it_is_said_twice(arxiv: ArxivServer) -> None:
    assert arxiv_api.submitted("quant-ph", TUESDAY, TUESDAY) == {}
    assert len(arxiv.log) == 2


def test_an_empty_page_of_many_papers_is_never_believed(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arxiv_api, "PAGE", 10)
    arxiv.then("normal", "spurious", "spurious", "spurious")
    with pytest.raises(fetch.BadAnswerError, match="sends an empty page"):
        arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [("feed-error", "HTTP 400: Feed error"), ("not-a-feed", "not a list"), ("huge", "20 MB")],
)
def test_a_wrong_answer_is_said(arxiv: ArxivServer, scenario: str, reason: str) -> None:
    arxiv.behave(scenario)
    with pytest.raises(fetch.BadAnswerError, match=reason):
        arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)


def test_more_than_the_api_lists_is_an_error(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arxiv_api, "MAX_RESULTS", 5)
    with pytest.raises(fetch.BadAnswerError, match="more than it can list"):
        arxiv_api.submitted("cs.CL", TUESDAY, TUESDAY)


def test_lookup_gives_what_feeds_lack(arxiv: ArxivServer) -> None:
    papers = [paper for _, paper in arxiv.corpus.feed("cs.CL", WEDNESDAY)[:3]]
    found = arxiv_api.lookup([*(paper.arxiv_id for paper in papers), "2601.99999"])
    assert {e.arxiv_id: e.comment for e in found} == {p.arxiv_id: p.comment for p in papers}
    entry = next(e for e in found if e.arxiv_id == papers[0].arxiv_id)
    assert (entry.submitted_at, entry.updated_at) == (papers[0].submitted, papers[0].updated)
    assert entry.categories == papers[0].categories  # MSC classes left out
    assert [(a.name, a.affiliation) for a in entry.authors] == list(papers[0].authors)
    assert entry.abstract.startswith("We study")
    assert "\n  None of this" in entry.abstract  # an indented line is a paragraph of its own
