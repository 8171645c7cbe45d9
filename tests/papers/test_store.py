from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from pytest_django import Settings

from tests.papers.child import fetch
from tests.papers.conftest import WEDNESDAY, Child, noon
from tests.papers.rows import rows
from tests.servers import arxiv_xml
from tests.servers.arxiv import ArxivServer
from tests.servers.corpus import Corpus
from webapp.papers.days import DAY, last_batch_day
from webapp.papers.entries import Author, Batch, Entry
from webapp.papers.formats import parse_feed
from webapp.papers.models import Announcement, AnnounceType, Listing, Paper, PaperVersion
from webapp.papers.store import prepare, remove_sample, store_batch, store_papers

TUESDAY, MONDAY = WEDNESDAY - DAY, last_batch_day(WEDNESDAY - 2 * DAY)


def take(batch: Batch, at: datetime | None = None) -> Listing:
    return store_batch(batch, Listing.Source.RSS, at or noon(batch.date), prepare(batch.entries))


def batch(category: str, day: date, per_day: int = 3) -> Batch:
    feed = arxiv_xml.rss(category, day, Corpus(day, per_day).feed(category, day))
    return parse_feed(feed.encode(), category, day)


def entry(number: int = 1, **facts: object) -> Entry:
    plain = Entry(
        arxiv_id=f"2603.{number:05d}",
        version=1,
        type=AnnounceType.NEW,
        title=f"Synthetic {number}",
        abstract="We count paper boats.",
        authors=(Author("Ada Quill"),),
        categories=("cs.CL", "cs.AI"),
    )
    return replace(plain, **facts)  # type: ignore[arg-type]


class OutOfOrder(TestCase):
    """Three days of two categories, with cross-lists and replacements between them."""

    BATCHES = [
        batch(name, day) for day in (MONDAY, TUESDAY, WEDNESDAY) for name in ("cs.AI", "cs.CL")
    ]

    @settings(max_examples=12)
    @given(st.permutations([*BATCHES, *BATCHES[::2]]))
    def test_batches_in_any_order_and_twice_give_the_same_rows(
        self, batches: Sequence[Batch]
    ) -> None:
        for one in self.BATCHES:
            take(one)
        expected = rows()
        Paper.objects.all().delete()
        Listing.objects.all().delete()
        for one in batches:
            take(one)
        assert rows() == expected
        assert any(len(paper.versions.all()) == 2 for paper in Paper.objects.all())


@pytest.mark.django_db
def test_the_same_feed_twice_writes_nothing_but_the_audits_poll() -> None:
    listing = take(batch("cs.CL", WEDNESDAY))
    before = rows()
    with CaptureQueriesContext(connection) as queries:
        again = take(batch("cs.CL", WEDNESDAY), noon(WEDNESDAY) + timedelta(hours=1))
    writes = [
        query["sql"].split()[1 if query["sql"].startswith("UPDATE") else 2]
        for query in queries
        if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))
    ]
    assert writes == ['"papers_listing"']
    assert rows() == before
    assert (again.polls, listing.polls) == (2, 1)
    assert again.changed_at == listing.changed_at == noon(WEDNESDAY)
    assert again.polled_at == noon(WEDNESDAY) + timedelta(hours=1)


@pytest.mark.django_db
def test_a_replacement_before_its_first_version_changes_nothing_in_the_end() -> None:
    second = entry(version=2, type=AnnounceType.REPLACE, title="Better", categories=("cs.CL",))
    take(Batch("cs.CL", WEDNESDAY, (second,)))
    take(Batch("cs.AI", MONDAY, (entry(),)))
    paper = Paper.objects.get()
    assert (paper.version, paper.title, paper.announced_on) == (2, "Better", MONDAY)
    assert paper.categories == ["cs.CL", "cs.AI"]
    assert list(paper.versions.values_list("number", "title", "announced_on")) == [
        (1, "Synthetic 1", MONDAY),
        (2, "Better", WEDNESDAY),
    ]


@pytest.mark.django_db
def test_of_two_announcements_of_a_day_the_weightier_stands() -> None:
    for kind in (AnnounceType.CROSS, AnnounceType.NEW, AnnounceType.REPLACE):
        take(Batch("cs.CL", MONDAY, (entry(type=kind),)))
    assert Announcement.objects.get().type == "new"
    assert Listing.objects.get().counts == {"new": 1}


@pytest.mark.django_db
def test_facts_come_from_the_latest_version_and_blanks_are_filled() -> None:
    take(Batch("cs.CL", MONDAY, (entry(doi="10.1/one", license="by"),)))
    take(Batch("cs.AI", MONDAY, (entry(journal_ref="J. 1", doi="10.1/two"),)))
    paper = Paper.objects.get()
    assert (paper.doi, paper.journal_ref, paper.license) == ("10.1/one", "J. 1", "by")
    take(Batch("cs.CL", TUESDAY, (entry(version=2, doi="10.1/three"),)))
    paper.refresh_from_db()
    assert (paper.doi, paper.journal_ref) == ("10.1/three", "J. 1")


@pytest.mark.django_db
def test_the_api_knows_better_than_a_feed_of_the_same_version() -> None:
    take(Batch("cs.CL", MONDAY, (entry(doi="10.1/feed"),)))
    known = entry(doi="10.1/api", comment="9 pages", categories=("cs.LG", "cs.CL"))
    store_papers([known], None, {}, known_at=noon(TUESDAY))
    paper = Paper.objects.get()
    assert (paper.doi, paper.comment, paper.enriched_at) == ("10.1/api", "9 pages", noon(TUESDAY))
    assert paper.categories == ["cs.LG", "cs.AI", "cs.CL"]
    assert paper.announced_on == MONDAY
    take(Batch("cs.CL", MONDAY, (entry(doi="10.1/feed"),)))
    paper.refresh_from_db()
    assert (paper.doi, paper.primary_category) == ("10.1/api", "cs.LG")
    take(Batch("cs.CL", WEDNESDAY, (entry(version=2),)))
    paper.refresh_from_db()
    assert paper.enriched_at is None  # the new version has facts of its own


@pytest.mark.django_db
def test_a_paper_that_comes_back_is_not_withdrawn_any_more() -> None:
    for version, comment in ((2, "This paper has been withdrawn."), (3, "")):
        said = entry(version=version, comment=comment)
        store_papers([said], None, {}, known_at=noon(TUESDAY))
        assert Paper.objects.get().withdrawn is bool(comment)


@pytest.mark.django_db
def test_nothing_unsanitised_is_stored_as_html() -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> on $x<y$"
    take(Batch("cs.CL", MONDAY, (entry(title=hostile, abstract=hostile),)))
    paper = Paper.objects.get()
    assert paper.title == hostile
    for html in (paper.title_html, paper.abstract_html):
        assert "<script" not in html
        assert "<img" not in html
        assert "<math" in html


@pytest.mark.django_db
def test_real_papers_stand_beside_the_sample_until_it_is_removed() -> None:
    sample = Batch("cs.CL", date(2025, 12, 18), (entry(1), entry(2)))
    store_batch(sample, Listing.Source.SAMPLE, noon(MONDAY), {})
    assert Paper.objects.filter(is_sample=True).count() == 2
    take(Batch("cs.CL", TUESDAY, (entry(2),)))
    assert Paper.objects.filter(is_sample=True).count() == 1
    remove_sample()
    assert list(Paper.objects.values_list("arxiv_id", "is_sample")) == [("2603.00002", False)]
    assert not Listing.objects.filter(source=Listing.Source.SAMPLE).exists()


@pytest.mark.django_db
def test_a_day_of_1500_papers_is_stored_in_seconds() -> None:
    abstract = "We study $n^2$ lanterns in the harbour, which glow at night and not by day. " * 18
    day = Batch("cs.LG", MONDAY, tuple(entry(n, abstract=abstract) for n in range(1500)))
    html = prepare(day.entries)
    began = time.process_time()
    store_batch(day, Listing.Source.RSS, noon(MONDAY), html)
    first = time.process_time() - began
    began = time.process_time()
    store_batch(day, Listing.Source.RSS, noon(MONDAY), {})
    again = time.process_time() - began
    began = time.process_time()
    crossed = tuple(replace(one, categories=("cs.CL", "stat.ML")) for one in day.entries)
    store_batch(Batch("stat.ML", TUESDAY, crossed), Listing.Source.RSS, noon(TUESDAY), {})
    changed = time.process_time() - began
    print(f"1,500 papers: {first:.2f} s, again {again:.2f} s, each changed {changed:.2f} s")
    assert Announcement.objects.count() == 3000
    assert PaperVersion.objects.count() == 1500
    assert max(first, again, changed) < 6  # of processor time: 1 to 2 s, more where all are busy


def test_a_fetch_killed_anywhere_leaves_what_a_second_one_completes(
    processes: type[Child], settings: Settings
) -> None:
    with ArxivServer(today=WEDNESDAY, per_day=5) as arxiv:
        settings.ARXIV_RSS_URL, settings.ARXIV_API_URL = arxiv.rss_url, arxiv.api_url
        statements = processes(fetch).said()
        undisturbed = rows()
        assert len(undisturbed["papers"]) > 5
        assert statements >= 8
        # At the first write, amid papers, versions and announcements, and just before the commit.
        places = (2, statements // 2, statements - 2, statements)
        # PostgreSQL sees no places, only that a client went away.
        for statement in places if connection.vendor == "sqlite" else places[-1:]:
            Paper.objects.all().delete()
            Listing.objects.all().delete()
            child = processes(fetch, statement)
            assert child.said() == "stopped"
            child.kill()
            assert not any(rows().values())
        processes(fetch).said()
        assert rows() == undisturbed
