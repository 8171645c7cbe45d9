"""Broken entries on a page of the API's: the others are kept, and these are asked for by id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest
from pytest_django import Settings

from tests.papers.conftest import WEDNESDAY, noon
from tests.servers.arxiv import ArxivServer
from webapp.papers.days import DAY
from webapp.papers.enrich import enrich
from webapp.papers.models import Listing, Paper
from webapp.papers.schedule import fetch

pytestmark = pytest.mark.django_db

TUESDAY = WEDNESDAY - DAY
BAD_DATES = ("", "yesterday", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", "9" * 5000)
# What of an entry is broken, and what stands in its place.
FATAL = {
    **{
        f"{name}: {date[:26] or 'nothing'}": (f"<{name}>.*?</{name}>", f"<{name}>{date}</{name}>")
        for name in ("published", "updated")
        for date in BAD_DATES
    },
    "published: away": ("<published>.*?</published>", ""),
    "updated: away": ("<updated>.*?</updated>", ""),
    "id: away": ("<id>.*?</id>", ""),
    "id: of nothing": ("<id>.*?</id>", "<id>http://arxiv.org/api/errors#bad</id>"),
    "title: nothing": ("<title>.*?</title>", "<title> </title>"),
    "title: endless": ("<title>.*?</title>", f"<title>{'x' * 5000}</title>"),
    "summary: away": ("<summary>.*?</summary>", ""),
    "summary: endless": ("<summary>.*?</summary>", f"<summary>{'x ' * 20_000}</summary>"),
    "not XML: a bare ampersand": ("<title>", "<title>R&D "),
    "not XML: a bare bracket": ("<title>", "<title>a<b "),
    "not XML: no end": ("</entry>", ""),
    "an entity of nobody's": ("<title>", "<title>&xxe;"),
}
HARMLESS = {
    "published: in 2096": ("<published>.*?</published>", "<published>2096-01-01</published>"),
    "published: in the year 1": (
        "<published>.*?</published>",
        "<published>0001-01-01T03:00:00Z</published>",
    ),
    "updated: in 9999": ("<updated>.*?</updated>", "<updated>9999-12-31T23:59:59Z</updated>"),
    "authors: away": ("<author>.*</author>", ""),
    "authors: without a name": ("<name>.*?</name>", "<name/>"),
    "primary category: no term": ("(<arxiv:primary_category).*?/>", r"\1/>"),
    "categories: without a term": ("<category.*?/>", "<category/>"),
    "links: without an address": ("<link.*?/>", "<link/>"),
    "comment: endless": ("<arxiv:comment>", f"<arxiv:comment>{'x' * 100_000}"),
    "a NUL": ("<title>", "<title>\x00"),
    "a byte that is not UTF-8": ("<title>", "<title>\udce9"),
}


@pytest.fixture
def arxiv(settings: Settings) -> Iterator[ArxivServer]:
    with ArxivServer(today=WEDNESDAY, per_day=len(FATAL) + len(HARMLESS) + 2) as server:
        settings.ARXIV_RSS_URL, settings.ARXIV_API_URL = server.rss_url, server.api_url
        settings.ARXIV_SECONDS = 0
        yield server


def spoiler(faults: Mapping[str, tuple[str, str]], *, also_by_id: bool) -> Callable[..., str]:
    """A function that breaks entries of papers, in listings and in look-ups."""

    def spoil(path: str, answer: str) -> str:
        if "id_list=&" not in path and not also_by_id:
            return answer
        for entry in re.findall("<entry>.*?</entry>", answer, re.DOTALL):
            name = re.search(r"/abs/(.*?)v", entry)
            if name and (fault := faults.get(name[1])):
                answer = answer.replace(entry, re.sub(*fault, entry, flags=re.DOTALL))
        return answer

    return spoil


def papers_of(arxiv: ArxivServer) -> list[str]:
    return [paper.arxiv_id for kind, paper in arxiv.corpus.feed("cs.CL", TUESDAY) if kind == "new"]


def tuesday() -> Listing:
    return Listing.objects.get(category="cs.CL", date=TUESDAY)


def stored() -> set[str]:
    assert tuesday().state == Listing.State.COMPLETE
    return set(tuesday().announcements.filter(type="new").values_list("paper__arxiv_id", flat=True))


@pytest.mark.parametrize("also_by_id", [False, True])
def test_a_page_with_every_fault_at_once(arxiv: ArxivServer, also_by_id: bool) -> None:
    whole = papers_of(arxiv)
    broken = dict(zip(whole[1:], FATAL, strict=False))
    harmless = dict(zip(whole[1 + len(FATAL) :], HARMLESS, strict=False))
    assert len(broken) + len(harmless) < len(whole)
    faults = {paper: (FATAL | HARMLESS)[name] for paper, name in (broken | harmless).items()}
    arxiv.spoil = spoiler(faults, also_by_id=also_by_id)
    fetch(["cs.CL"], since=TUESDAY, moment=noon(WEDNESDAY))
    lost = set(broken) if also_by_id else set()
    assert {
        (broken | harmless).get(paper, paper) for paper in set(whole) - lost - stored()
    } == set()
    assert not stored() & lost
    said = {broken[p]: reason for p in broken for item, reason in problems() if p in item}
    assert said.keys() == FATAL.keys()
    assert {reason.endswith("; taken from the API instead") for reason in said.values()} == {
        not also_by_id
    }
    titles = {p.arxiv_id: p.title for _, p in arxiv.corpus.feed("cs.CL", TUESDAY)}
    for paper in Paper.objects.filter(arxiv_id__in=broken):
        assert paper.title == titles[paper.arxiv_id]


def problems() -> list[tuple[str, str]]:
    return [(problem["item"], problem["reason"]) for problem in tuesday().problems]


def test_what_the_feeds_lack_comes_for_all_but_the_broken_one(arxiv: ArxivServer) -> None:
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    lost = Paper.objects.order_by("-pk")[1]
    arxiv.spoil = spoiler({lost.arxiv_id: FATAL["published: yesterday"]}, also_by_id=True)
    answered, _ = enrich(moment=noon(WEDNESDAY))
    assert answered == Paper.objects.count() - 1
    assert list(Paper.objects.filter(enriched_at=None)) == [lost]
    lost.refresh_from_db()
    assert lost.enrich_tries == 1


def test_a_day_of_broken_entries_alone_is_no_empty_day(arxiv: ArxivServer) -> None:
    arxiv.spoil = lambda path, answer: answer.replace("<published>", "<published>x")
    fetch(["cs.CL"], since=TUESDAY, moment=noon(WEDNESDAY))
    assert tuesday().state == Listing.State.FAILED
    assert "none of its entries can be read" in tuesday().reason
    arxiv.spoil = lambda path, answer: answer
    fetch(["cs.CL"], moment=noon(WEDNESDAY))
    assert stored() == set(papers_of(arxiv))


def test_the_next_page_begins_where_the_broken_one_ended(
    arxiv: ArxivServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.papers.arxiv_api.PAGE", 25)
    whole = papers_of(arxiv)
    arxiv.spoil = spoiler({whole[2]: FATAL["published: away"]}, also_by_id=True)
    fetch(["cs.CL"], since=TUESDAY, moment=noon(WEDNESDAY))
    assert stored() == set(whole) - {whole[2]}
    starts = [re.findall(r"start=(\d+)", path) for path in arxiv.paths() if "id_list=&" in path]
    assert len(starts) > 1
    assert starts == [[str(25 * number)] for number in range(len(starts))]
