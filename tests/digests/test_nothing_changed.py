"""Nothing changed costs nothing: fingerprints before work, gists and chips where they stand."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from webapp.digests import batch, daily
from webapp.digests import build as building
from webapp.digests.build import build
from webapp.digests.daily import ask_for, build_asked
from webapp.digests.entries import store_chips
from webapp.digests.models import DayToBuild, Digest, DigestEntry, LearnedModel, Profile
from webapp.digests.scoring.rules import Rules
from webapp.learning.preferences import LearnedPaper, packed_examples
from webapp.papers.models import Paper
from webapp.summaries.models import Summary

pytestmark = pytest.mark.django_db


@pytest.fixture
def no_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where anything is scored from here on."""

    class Refusing:
        def __init__(self, *args: object) -> None:
            raise AssertionError("scored, though nothing changed")

    monkeypatch.setattr(building, "Scorer", Refusing)


def many(number: int) -> list[Profile]:
    return [profile(f"Mine {at}", slug=f"mine-{at}") for at in range(number)]


def test_nothing_changed_scores_and_renders_nothing(request: pytest.FixtureRequest) -> None:
    announce(MONDAY, paper(1), paper(2))
    mine = many(3)
    first = list(build([MONDAY], mine))
    request.getfixturevalue("no_scoring")
    again = build([MONDAY], mine)
    assert [(one.pk, one.changed_at) for one in again] == [
        (one.pk, one.changed_at) for one in first
    ]


def test_queries_do_not_grow_with_the_profiles_where_nothing_changed() -> None:
    announce(MONDAY, paper(1), paper(2))
    build([MONDAY], many(12))
    asked = []
    for number in (2, 12):
        with CaptureQueriesContext(connection) as queries:
            build([MONDAY], Profile.objects.order_by("pk")[:number])
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 8


def test_an_unchanged_poll_asks_the_same_of_five_profiles_and_fifty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No query, row of an entry, rule or model for each profile; and nothing is written. Fifty are
    more than a batch, and more than a query names.
    """
    monkeypatch.setattr(building, "ROOM", 20 * batch.PROFILE_BYTES)
    monkeypatch.setattr(batch, "FEW", 20)
    shown_again = paper(1)
    announce(MONDAY, shown_again, *(paper(number) for number in range(2, 30)))
    announce(TUESDAY, shown_again, *(paper(number) for number in range(30, 60)))
    asked = []
    for number in (5, 50):
        for at in range(Profile.objects.count(), number):
            profile(f"Mine {at}", slug=f"mine-{at}", size=5)
        build([MONDAY, TUESDAY])
        with CaptureQueriesContext(connection) as queries:
            build([MONDAY, TUESDAY])
        asked.append(len(queries))
        verbs = {query["sql"].split()[0] for query in queries}
        assert verbs <= {"SELECT", "DELETE", "SAVEPOINT", "RELEASE"}, verbs
    assert asked[0] == asked[1] <= 16


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has another limit")
def test_no_query_names_a_key_for_each_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite takes some 32,000 values in a query: here 180, and more digests than that."""
    monkeypatch.setattr(batch, "FEW", 80)
    monkeypatch.setattr(building, "ROWS", 16)  # of eleven values each
    for day, number in ((MONDAY, 1), (TUESDAY, 2)):
        announce(day, paper(number))
    profiles = many(92)
    connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 180)
    try:
        assert len(build([MONDAY, TUESDAY], profiles)) == 184
        assert len(build([MONDAY, TUESDAY])) >= 184
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)


def test_rules_and_models_are_in_memory_for_a_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(MONDAY, paper(1))
    many(25)
    at_once: list[int] = []

    class Counting(building.Scorer):
        def __init__(self, rules: Sequence[Rules]) -> None:
            at_once.append(len(rules))
            super().__init__(rules)

    monkeypatch.setattr(building, "Scorer", Counting)
    monkeypatch.setattr(building, "ROOM", 11 * batch.PROFILE_BYTES)
    assert len(build([MONDAY])) == 26  # with the site's
    assert sum(at_once) == 26
    assert at_once[0] < max(at_once) == 10  # the site's has a model


OF_ALL = {
    "paper": {"title": "Sparse models"},
    "comment": {"comment": "Accepted."},
    "sample": {"is_sample": True},
}


@pytest.mark.parametrize("change", [*OF_ALL, "version", "rules", "earlier day", "announcement"])
def test_every_input_counts(change: str) -> None:
    mine, other = many(2)
    one, two = paper(1), paper(2)
    announce(TUESDAY, one, two)
    build([TUESDAY], [mine, other])
    inputs = dict(Digest.objects.values_list("profile_id", "inputs"))
    if change in OF_ALL:
        Paper.objects.filter(pk=one.pk).update(**OF_ALL[change])
    elif change == "version":
        one.announcements.update(version=2)
    elif change == "rules":
        mine.keywords = mine.keywords[:1]
        mine.save()
    elif change == "announcement":
        announce(TUESDAY, paper(3))
    else:
        announce(MONDAY, one)
        build([MONDAY], [mine])
    build([TUESDAY], [mine, other])
    after = dict(Digest.objects.filter(date=TUESDAY).values_list("profile_id", "inputs"))
    assert after[mine.pk] != inputs[mine.pk]
    of_all = change in {*OF_ALL, "version", "announcement"}
    assert (after[other.pk] != inputs[other.pk]) is of_all


def test_what_other_days_show_of_other_papers_is_no_input() -> None:
    [mine] = many(1)
    announce(TUESDAY, paper(1))
    build([TUESDAY], [mine])
    before = Digest.objects.get(date=TUESDAY)
    announce(MONDAY, paper(2))
    build([MONDAY, TUESDAY], [mine])
    after = Digest.objects.get(date=TUESDAY)
    assert (after.inputs, after.changed_at) == (before.inputs, before.changed_at)


def test_a_gist_changes_no_digest_and_shows_in_every_one_at_once(client: Client) -> None:
    one, two = paper(1), paper(2)
    announce(MONDAY, one, two)
    build([MONDAY], many(3))
    Profile.objects.update(owner=None)
    stored = list(DigestEntry.objects.order_by("pk").values())
    address = f"/p/{Profile.objects.order_by('pk')[1].slug}/"
    for where in (address, address[:-1] + ".rss"):
        assert "It is " not in client.get(where).content.decode()
    factories.summarise(one)
    assert list(DigestEntry.objects.order_by("pk").values()) == stored
    for where in (address, address[:-1] + ".rss"):
        assert "It is " in client.get(where).content.decode(), where
    Summary.objects.update(withheld="It says nothing.")
    for where in (address, address[:-1] + ".rss"):
        assert "It is " not in client.get(where).content.decode()


def test_chips_are_shown_in_a_digest_that_is_not_built_anew(client: Client) -> None:
    one = paper(1)
    announce(MONDAY, one)
    [mine] = many(1)
    build([MONDAY], [mine])
    stored = list(DigestEntry.objects.order_by("pk").values())
    addresses = (f"/p/{mine.slug}/", f"/p/{mine.slug}.rss")
    for address in addresses:
        assert "SEPS: 2×" not in text_of(client, address)
    assert store_chips({one.pk: [{"method": "seps", "name": "SEPS", "figure": "2×"}]}) == 1
    for address in addresses:
        assert "SEPS: 2×" in text_of(client, address)
    assert store_chips({one.pk: [{"method": "seps", "name": "SEPS", "figure": "2×"}]}) == 0
    assert store_chips({}) == 1
    for address in addresses:
        assert "SEPS: 2×" not in text_of(client, address)
    assert list(DigestEntry.objects.order_by("pk").values()) == stored


def text_of(client: Client, address: str) -> str:
    """Return what an address answers, without tags; figures of a page as those of a feed."""
    text = re.sub(r"<[^>]*>", "", unescape(client.get(address).content.decode()))
    return " ".join(text.split()).replace("SEPS · ", "SEPS: ")


def test_a_profile_that_changes_its_language_shows_gists_in_it(client: Client) -> None:
    one = paper(1)
    announce(MONDAY, one)
    [mine] = many(1)
    build([MONDAY], [mine])
    Profile.objects.filter(pk=mine.pk).update(owner=None)
    factories.summarise(one, "zh", gist="稀疏。", gist_html="稀疏。")
    assert "稀疏。" not in client.get(f"/p/{mine.slug}/").content.decode()
    Profile.objects.filter(pk=mine.pk).update(language="zh")
    assert "稀疏。" in client.get(f"/p/{mine.slug}/").content.decode()


def test_a_new_day_takes_no_queries_of_a_profiles_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles are read, and their digests written, so many at a time."""
    monkeypatch.setattr(building, "WRITTEN", 10)
    again = paper(1)
    announce(MONDAY, again, paper(2))
    announce(TUESDAY, again, *(paper(number) for number in range(3, 9)))
    asked = []
    for number in (10, 40):
        many_of(number)
        Digest.objects.all().delete()
        build([MONDAY])
        with CaptureQueriesContext(connection) as queries:
            build([TUESDAY])
        assert Digest.objects.filter(date=TUESDAY).count() == Profile.objects.count()
        asked.append(len(queries))
    assert asked[1] - asked[0] <= 3 * 14


def many_of(number: int) -> None:
    for at in range(Profile.objects.count(), number):
        profile(f"Mine {at}", slug=f"mine-{at}", size=3)


POLLED: dict[str, Callable[[], object]] = {
    "a paper": lambda: Paper.objects.filter(pk=paper_key()).update(title="Sparse models"),
    "an announcement": lambda: announce(MONDAY, paper(3)),
    "a profile": lambda: Profile.objects.update(size=1),
    "a model": lambda: LearnedModel.objects.update(fingerprint="another"),
    "a digest that is gone": lambda: Digest.objects.latest("pk").delete(),
}


def paper_key() -> int:
    return Paper.objects.earliest("pk").pk


@pytest.fixture
def polled() -> int:
    """Poll until nothing is left to do; return the number of digests."""
    announce(MONDAY, paper(1), paper(2))
    factories.make_profile()
    for at in range(5):
        reader = factories.make_reader(f"reader-{at}")
        profile(f"Mine {at}", slug=f"mine-{at}", owner=reader, ranking="both")
        LearnedModel.objects.create(
            reader=reader,
            intercept=0.0,
            weights={"sparse": 1.0},
            examples=packed_examples([LearnedPaper("A", "", True, {"sparse": 1.0})]),
            liked=5,
            disliked=0,
            fingerprint="a model",
            trained_at=timezone.now(),
        )
    poll()
    poll()  # sees what the first has made
    return Digest.objects.count()


def poll() -> None:
    ask_for([MONDAY])
    assert build_asked() == [MONDAY]
    assert not DayToBuild.objects.exists()


@pytest.mark.usefixtures("polled")
def test_an_unchanged_poll_reads_no_profile_and_no_paper() -> None:
    with CaptureQueriesContext(connection) as queries:
        poll()
    read = [sql for query in queries if "FROM" in (sql := query["sql"]) and "SELECT" in sql]
    assert not [sql for sql in read if "papers_paper" in sql or '"digests_digest"' in sql]
    assert len(queries) <= 10, [query["sql"] for query in queries]


@pytest.mark.parametrize("write", POLLED)
def test_a_poll_sees_every_change(polled: int, write: str) -> None:
    before = dict(Digest.objects.values_list("profile_id", "inputs"))
    POLLED[write]()
    poll()
    after = dict(Digest.objects.values_list("profile_id", "inputs"))
    assert len(after) == polled
    changed = sum(before[key] != after[key] for key in before)
    assert changed >= (0 if write == "a digest that is gone" else 5)
    assert Digest.objects.exclude(inputs="").count() == polled


CHANGES: dict[str, Callable[[Profile], object]] = {
    "its rules": lambda mine: Profile.objects.filter(pk=mine.pk).update(size=1),
    "its model": lambda mine: mine.owner.learned_models.update(fingerprint="another"),  # type: ignore[union-attr]
    "its digest": lambda mine: mine.digests.all().delete(),
}


@pytest.mark.usefixtures("polled")
@pytest.mark.parametrize("change", CHANGES)
def test_a_poll_after_one_change_reads_that_profile_alone(change: str) -> None:
    mine = Profile.objects.get(slug="mine-2")
    before = dict(Digest.objects.values_list("profile_id", "inputs"))
    CHANGES[change](mine)
    with CaptureQueriesContext(connection) as queries:
        poll()
    read = [
        sql
        for query in queries
        if (sql := query["sql"]).startswith("SELECT")
        and re.search(r'FROM "digests_(?:profile|digest|digestentry|learnedmodel)"', sql)
        and "counted_on" not in sql  # profiles whose keywords are to be counted: none
    ]
    assert read
    for sql in read:
        assert re.search(
            rf'"(?:id|profile_id)" (?:IN \(|= ){mine.pk}\b'
            rf'|"reader_id" IN \({mine.owner_id}\)|"digest_id" IN \(\d+\)',
            sql,
        ), sql
    after = dict(Digest.objects.values_list("profile_id", "inputs"))
    assert {key for key in after if after[key] != before[key]} <= {mine.pk}
    assert (after[mine.pk] != before[mine.pk]) is (change != "its digest")
    assert after.keys() == before.keys()
    with CaptureQueriesContext(connection) as queries:
        poll()
    assert len(queries) <= 10, "what was done is not done again"


@pytest.mark.usefixtures("polled")
def test_a_poll_after_more_changes_than_a_query_names_reads_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daily, "FEW", 2)
    before = dict(Digest.objects.values_list("profile_id", "inputs"))
    Profile.objects.filter(owner__isnull=False).update(size=1)
    poll()
    after = dict(Digest.objects.values_list("profile_id", "inputs"))
    assert sum(before[key] != after[key] for key in before) == 5
