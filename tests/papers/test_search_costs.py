"""A search looks at what it finds and at little else, and PostgreSQL gives up what takes long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.papers.conftest import WEDNESDAY, noon
from tests.papers.test_store import entry
from webapp.papers.days import DAY
from webapp.papers.entries import Author, Batch, Entry
from webapp.papers.models import Listing
from webapp.papers.search import index
from webapp.papers.search.query import Query, parse
from webapp.papers.store import store_batch

pytestmark = pytest.mark.django_db


def store(day: date, *entries: Entry) -> None:
    store_batch(Batch("cs.CL", day, entries), Listing.Source.RSS, noon(day), {})


def plans(query: Query, limit: int) -> list[dict]:
    """PostgreSQL's plans for a search, with the rows that each step met."""
    with CaptureQueriesContext(connection) as asked:
        index.matches(query, limit)
    found = []
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for look in (one["sql"] for one in asked if "to_tsquery" in one["sql"]):
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {look}")
            found.append(cursor.fetchone()[0][0]["Plan"])
    return found


def removed(plan: dict) -> int:
    """The rows that a plan threw away in all its steps."""
    own = [count for name, count in plan.items() if name.startswith("Rows Removed")]
    return sum(own) + sum(map(removed, plan.get("Plans", ())))


def given(plan: dict) -> int:
    """The rows that it gave in all its steps."""
    return plan["Actual Rows"] + sum(map(given, plan.get("Plans", ())))


def looked_at(query: Query) -> int:
    """The rows that the database reads for a search; on SQLite its steps."""
    if connection.vendor == "postgresql":
        return sum(given(plan) + removed(plan) for plan in plans(query, 100))
    steps: list[int] = []
    connection.connection.set_progress_handler(lambda: bool(steps.append(1)), 1)
    index.matches(query, 100)
    connection.connection.set_progress_handler(None, 0)
    return len(steps)


@pytest.mark.parametrize(
    "query",
    ["kernels after:2026-03-04", "ti:kernels au:new", "cs.LG kernels -old", "ti:new -abs:old"],
)
def test_what_a_search_does_not_find_it_does_not_look_at(query: str) -> None:
    """Papers of other days, of other fields, of another category."""
    new = {"title": "New kernels", "authors": (Author("New"),), "categories": ("cs.CL", "cs.LG")}
    looked = []
    for first, last in ((10, 20), (20, 320)):
        store(WEDNESDAY, entry(first // 10, **new))
        for title, numbers in ("Old kernels", (first, last)), ("Old", (first + 500, last + 500)):
            old = [entry(n, title=title, abstract="Kernels.") for n in range(*numbers)]
            store(WEDNESDAY - 40 * DAY, *old)
        looked.append(looked_at(parse(query)))
    assert looked[1] < 2 * looked[0] + 50


if connection.vendor == "postgresql":  # SQLite answers in time, and knows no such settings
    TABLE = "papers_paper"

    def settings_of_a_look() -> tuple[str, ...]:
        names = ("statement_timeout", "enable_seqscan", "jit", "max_parallel_workers_per_gather")
        names += ("work_mem",)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}")
            return tuple(cursor.fetchone())

    def test_a_look_has_its_time_and_no_other_query_has(monkeypatch: pytest.MonkeyPatch) -> None:
        before, during, look = settings_of_a_look(), set(), index._keys

        def watched(statement: str, values: Sequence[object]) -> list[int]:
            during.add(settings_of_a_look())
            return look(statement, values)

        monkeypatch.setattr(index, "_keys", watched)
        index.matches(parse("kernels"), 10)
        assert during == {("2s", "off", "off", "0", "64MB")}
        assert settings_of_a_look() == before

    def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
        look = index._keys
        monkeypatch.setattr(index, "SECONDS", 0.02)
        monkeypatch.setattr(index, "_keys", lambda *_: look("SELECT 1 FROM pg_sleep(5)", []))
        assert index.matches(parse("kernels"), 10) == []
        assert settings_of_a_look()[0] != "20ms"

    def test_of_papers_without_a_phrase_few_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
        """All of them hold its words, and none holds them together."""
        monkeypatch.setattr(index, "READ", 5)
        store(WEDNESDAY, *(entry(n, title=f"Kernels, new {n}") for n in range(100)))
        assert sum(map(removed, plans(parse('"new kernels"'), 2))) <= 5

    def test_papers_with_an_excluded_word_are_not_read() -> None:
        """Neither where the other words may be in the title alone."""
        store(WEDNESDAY, *(entry(n, title=f"Kernels, old {n}") for n in range(100)))
        for query in ("kernels -old", "ti:kernels -old"):
            assert sum(map(removed, plans(parse(query), 10))) <= 5

    def looks(query: str, limit: int) -> list[str]:
        with CaptureQueriesContext(connection) as asked:
            index.matches(parse(query), limit)
        return [one["sql"] for one in asked if "to_tsquery" in one["sql"]]

    def test_days_that_cannot_have_enough_matches_are_skipped() -> None:
        """One match in 9 to 16 days: 100 need 900 and some more, so four blocks of 512 come."""
        store(WEDNESDAY, entry(1, title="Kernels"))
        windows = [look.partition("zqdays")[2].partition("n")[0] for look in looks("kernels", 100)]
        assert windows == ["8", "512", ""]

    def test_days_back_to_since_are_the_last_and_not_skipped() -> None:
        store(WEDNESDAY, entry(1, title="Kernels"))
        (first, last) = looks(f"kernels after:{WEDNESDAY - 50 * DAY}", 100)
        assert ("zqdays8n" in first, "zqdays32n" in last) == (True, True)

    def test_a_beginning_is_sought_by_the_index_only_beyond_the_latest_days() -> None:
        store(WEDNESDAY, entry(1, title="Kernels"))
        assert ["ts_match_vq" in look for look in looks("kern*", 100)] == [True, False, False]
        assert not any("ts_match_vq" in look for look in looks("kernels", 100))

    def test_a_common_beginning_is_sought_in_the_papers_of_few_days() -> None:
        """Six of ten in the latest days: the rest may be in the weeks before, but not further."""
        store(WEDNESDAY, *(entry(n, title=f"Kernels {n}") for n in range(6)))
        first, second, *_, last = looks("kern*", 10)
        assert ["ts_match_vq" in look for look in (first, second, last)] == [True, True, False]

    def test_the_words_of_a_paper_stay_in_its_row() -> None:
        """An abstract of 130 words; out of line, a search would look each paper's words up."""
        abstract = " ".join(f"word{n * 7919 % 10_007}" for n in range(130))
        store(WEDNESDAY, *(entry(n, abstract=abstract) for n in range(3)))
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT reltoastrelid::regclass FROM pg_class WHERE relname = %s", [TABLE]
            )
            (aside,) = cursor.fetchone()
            cursor.execute(f"SELECT pg_column_size(search) FROM {TABLE} LIMIT 1")
            assert cursor.fetchone()[0] > 1_800
            cursor.execute(f"SELECT count(*) FROM {aside}")
            assert cursor.fetchone() == (0,)
