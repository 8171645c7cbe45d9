from __future__ import annotations

import pytest

from tests.papers.conftest import WEDNESDAY, noon
from tests.servers.arxiv import ArxivServer
from webapp.papers import fetch as http
from webapp.papers.enrich import MOST_TRIES, enrich
from webapp.papers.models import Paper
from webapp.papers.sample import load_sample
from webapp.papers.schedule import fetch

pytestmark = pytest.mark.django_db


def test_papers_are_asked_for_once(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    count = Paper.objects.count()
    assert enrich(10, moment=noon(WEDNESDAY)) == (10, {WEDNESDAY})
    assert Paper.objects.filter(enriched_at=None).count() == count - 10
    enrich(moment=noon(WEDNESDAY))
    assert not Paper.objects.filter(enriched_at=None).exists()
    assert not Paper.objects.filter(submitted_at=None).exists()
    asked = len(arxiv.log)
    assert enrich() == (0, set())
    assert len(arxiv.log) == asked


def test_what_the_api_does_not_know_waits_at_the_end_and_is_given_up(arxiv: ArxivServer) -> None:
    arxiv.behave("hostile")
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    answered, _ = enrich(moment=noon(WEDNESDAY))
    unknown = Paper.objects.filter(enriched_at=None)
    assert Paper.objects.count() - answered == unknown.count() == 5
    assert set(unknown.values_list("enrich_tries", flat=True)) == {1}
    unknown.update(enrich_tries=MOST_TRIES)
    assert enrich() == (0, set())


def test_the_version_before_is_no_answer(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    Paper.objects.update(version=9)
    assert enrich(moment=noon(WEDNESDAY)) == (0, set())
    assert set(Paper.objects.values_list("enrich_tries", flat=True)) == {1}
    assert len(arxiv.log) == 2


def test_a_failure_changes_nothing(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    arxiv.behave("broken")
    with pytest.raises(http.FetchError):
        enrich()
    assert not Paper.objects.exclude(enriched_at=None, enrich_tries=0).exists()


def test_the_sample_is_not_arxivs_business(arxiv: ArxivServer) -> None:
    load_sample()
    assert enrich() == (0, set())
    assert arxiv.log == []
