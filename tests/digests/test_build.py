import re
from datetime import UTC, datetime, timedelta
from itertools import permutations
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.digests.days import MONDAY, TUESDAY, WEDNESDAY, announce, listing, paper, profile, shown
from tests.processes import PATIENCE
from webapp.digests import build as building
from webapp.digests.build import build
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.profiles.defaults import KEYWORDS
from webapp.digests.profiles.validation import read_settings, save_settings, site_profile
from webapp.digests.queries import digest_entries, further_matches, load_texts
from webapp.papers.models import Announcement, Listing, Paper

pytestmark = pytest.mark.django_db


def rows() -> list[tuple[object, ...]]:
    """Every entry, without keys and times."""
    return list(
        DigestEntry.objects.order_by("digest__profile", "digest__date", "rank").values_list(
            "digest__profile__slug", "digest__date", "digest__fingerprint", "rank", "score",
            "paper__arxiv_id", "announce_type", "version", "text_hash",
        )
    )  # fmt: skip


def test_a_day_is_scored_ranked_explained_and_marked() -> None:
    mine = profile()
    announce(MONDAY, paper(1, "Kernels"), paper(2), paper(3, "Models & <b>RL</b>", abstract="x"))
    [digest] = build([MONDAY], [mine])
    assert (digest.considered, digest.matched) == (3, 3)
    assert shown(mine, MONDAY) == ["2603.00002", "2603.00003", "2603.00001"]
    first = digest.entries.first()
    assert first is not None
    assert (first.score, first.rank, first.announce_type, first.version) == (4.0, 1, "new", 1)
    assert first.matches == [
        {"keyword": "sparse", "where": ["title"], "points": 1.5},
        {"keyword": "attention", "where": ["title"], "points": 1.5},
        {"keyword": "models", "where": ["abstract"], "points": 1.0},
    ]
    assert first.title_html == (
        'On <mark data-k="0">sparse</mark> <mark data-k="1">attention</mark>'
    )
    assert 'language <mark data-k="2">models</mark>' in first.abstract_html
    second = digest.entries.get(rank=2)
    assert second.title_html == '<mark data-k="0">Models</mark> &amp; &lt;b&gt;RL&lt;/b&gt;'


def test_building_again_changes_nothing() -> None:
    mine = profile()
    announce(MONDAY, paper(1), paper(2))
    [first] = build([MONDAY], [mine])
    keys = set(DigestEntry.objects.values_list("pk", flat=True))
    [again] = build([MONDAY, MONDAY], [mine])
    assert (again.pk, again.changed_at, again.fingerprint) == (
        first.pk,
        first.changed_at,
        first.fingerprint,
    )
    assert set(DigestEntry.objects.values_list("pk", flat=True)) == keys


def test_what_a_reader_sees_changes_the_fingerprint_and_only_the_changed_entry_is_newer() -> None:
    mine = profile()
    one, two = paper(1), paper(2)
    announce(MONDAY, one, two)
    [first] = build([MONDAY], [mine])
    before = dict(DigestEntry.objects.values_list("paper_id", "changed_at"))
    two.title = "On sparse attention, revised"
    two.save()
    [second] = build([MONDAY], [mine])
    assert second.pk == first.pk
    assert second.fingerprint != first.fingerprint
    assert second.changed_at > first.changed_at
    after = dict(DigestEntry.objects.values_list("paper_id", "changed_at"))
    assert after[one.pk] == before[one.pk]
    assert after[two.pk] == second.changed_at


def test_what_no_reader_sees_changes_nothing() -> None:
    mine = profile()
    one = paper(1)
    announce(MONDAY, one)
    [first] = build([MONDAY], [mine])
    one.enriched_at = datetime(2026, 3, 2, tzinfo=UTC)
    one.save()
    Profile.objects.filter(pk=mine.pk).update(language="zh")
    [second] = build([MONDAY], [mine])
    assert (second.fingerprint, second.changed_at) == (first.fingerprint, first.changed_at)


@pytest.mark.parametrize("kind", ["replace", "replace-cross"])
def test_a_paper_comes_once_and_a_replacement_where_it_is_asked_for(kind: str) -> None:
    mine = profile()
    curious = profile("Curious", announce_types=["new", "cross", kind])
    one = paper(1)
    announce(MONDAY, one)
    announce(TUESDAY, one, kind="cross")
    announce(WEDNESDAY, one, kind=kind, version=2)
    build([MONDAY, TUESDAY, WEDNESDAY], [mine, curious])
    assert [shown(mine, day) for day in (MONDAY, TUESDAY, WEDNESDAY)] == [["2603.00001"], [], []]
    assert shown(curious, TUESDAY) == []
    assert shown(curious, WEDNESDAY) == ["2603.00001"]
    assert Digest.objects.get(profile=curious, date=WEDNESDAY).entries.get().version == 2


def test_a_category_admits_what_was_announced_in_it_that_day() -> None:
    mine = profile()
    one = paper(1, categories=["cs.LG", "cs.CL"])
    announce(MONDAY, one, category="cs.LG")
    build([MONDAY], [mine])
    assert shown(mine, MONDAY) == []
    announce(MONDAY, one, kind="cross")
    build([MONDAY], [mine])
    assert shown(mine, MONDAY) == ["2603.00001"]
    assert DigestEntry.objects.get().announce_type == "new"  # the weightiest of all categories


def test_the_order_in_which_days_come_leaves_no_trace() -> None:
    mine = profile(size=2)
    papers = [paper(number, abstract="models " * (number % 2)) for number in range(1, 7)]
    days = {MONDAY: papers[:3], TUESDAY: papers[2:5], WEDNESDAY: papers[1:]}
    found = []
    for order in permutations(days):
        Announcement.objects.all().delete()
        Digest.objects.all().delete()
        for day in order:
            announce(day, *days[day])
            build([day], [mine])
        found.append(rows())
    assert found[0]
    assert all(one == found[0] for one in found)


def test_a_day_that_loses_its_papers_loses_its_digest_and_gives_them_to_later_days() -> None:
    mine = profile()
    one = paper(1)
    announce(MONDAY, one)
    announce(TUESDAY, one)
    build([MONDAY, TUESDAY], [mine])
    assert shown(mine, TUESDAY) == []
    Announcement.objects.filter(listing__date=MONDAY).delete()
    build([MONDAY], [mine])
    assert not Digest.objects.filter(date=MONDAY).exists()
    assert shown(mine, TUESDAY) == ["2603.00001"]


def test_a_day_without_matches_is_a_digest_without_entries() -> None:
    mine = profile(words=["zebra"])
    announce(MONDAY, paper(1))
    [digest] = build([MONDAY], [mine])
    assert (digest.considered, digest.matched, digest.entries.count()) == (1, 0, 0)
    listing(TUESDAY, state=Listing.State.EMPTY)
    assert not build([TUESDAY], [mine])


def test_the_site_has_one_profile_with_the_default_keywords() -> None:
    site = site_profile()
    assert site_profile().pk == site.pk
    sought = [one["keyword"] for one in site.keywords if one["keyword"][0] not in "+-"]
    assert sought == list(KEYWORDS)
    assert site.categories == ["cs.AI", "cs.CL", "cs.DC", "cs.LG"]
    kept = read_settings(site)
    save_settings(site, kept)
    site.save()
    assert read_settings(Profile.objects.get(pk=site.pk)) == kept


def test_a_profile_that_cannot_be_read_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = profile(), profile("Bad", words=["/(/"])
    announce(MONDAY, paper(1))
    [digest] = build([MONDAY], [bad, good])
    assert digest.profile_id == good.pk
    assert "Profile bad is invalid" in caplog.text


def test_a_profile_deleted_meanwhile_costs_only_itself() -> None:
    gone, mine = profile("Gone"), profile()
    announce(MONDAY, paper(1))
    profiles = list(Profile.objects.order_by("pk"))
    gone.delete()
    assert [digest.profile for digest in build([MONDAY], profiles)] == [mine]
    connection.check_constraints()


def test_a_failure_in_the_middle_leaves_the_digest_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = profile()
    announce(MONDAY, paper(1))
    build([MONDAY], [mine])
    before = rows()
    announce(MONDAY, paper(2))

    def torn(*_: object) -> None:
        DigestEntry.objects.all().delete()
        raise OSError("disk full")

    monkeypatch.setattr("webapp.digests.build._insert", torn)
    with pytest.raises(OSError, match="disk full"):
        build([MONDAY], [mine])
    assert rows() == before


def test_queries_do_not_grow_with_the_papers() -> None:
    mine = profile()

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            build([MONDAY], [mine])
        return len(queries)

    announce(MONDAY, *(paper(number) for number in range(1, 3)))
    few = cost()
    announce(MONDAY, *(paper(number) for number in range(3, 30)))
    assert cost() <= few + 2


def test_ties_keep_their_order_when_arxiv_tells_when_papers_came() -> None:
    mine = profile()
    at = datetime(2026, 3, 1, tzinfo=UTC)
    announce(
        MONDAY,
        *(paper(n, submitted_at=at - timedelta(hours=n) if n < 3 else None) for n in range(1, 5)),
    )
    build([MONDAY], [mine])
    assert [re.sub(r".*0+", "", one) for one in shown(mine, MONDAY)] == ["2", "1", "3", "4"]


def test_every_match_beyond_the_size_is_kept_in_order_with_its_reasons() -> None:
    announce(MONDAY, paper(1, "Sparse attention"), paper(2, "Sparse"), paper(3, "Models of models"))
    mine = profile(size=1)
    [digest] = build([MONDAY], [mine])
    assert shown(mine, MONDAY) == ["2603.00001"]
    rows = digest.further.rows
    numbers = {one.pk: one.arxiv_id for one in Paper.objects.all()}
    assert [numbers[row["paper"]] for row in rows] == ["2603.00002", "2603.00003"]
    assert [row["score"] for row in rows] == [2.5, 1.5]
    assert rows[0]["keywords"][0] == "sparse"
    assert "matches" not in rows[0]
    # Their reasons are made when a page shows them.
    further = further_matches(digest, digest_entries(digest))
    assert further[0].matched_keywords == set(rows[0]["keywords"])
    load_texts(further[:1])
    assert further[0].matches[0] == {"keyword": "sparse", "where": ["title"], "points": 1.5}
    assert sum(match["points"] for match in further[0].matches) == 2.5
    before = digest.fingerprint
    Paper.objects.filter(arxiv_id="2603.00003").update(title="Sparse models")
    [digest] = build([MONDAY], [mine])
    assert digest.fingerprint != before


@pytest.mark.django_db(transaction=True)
def test_two_builders_of_one_profile_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = profile()
    announce(MONDAY, paper(1))
    replace, first_is_writing, go_on = building._insert, Event(), Event()
    built: list[list[Digest]] = []

    def pausing(*args) -> None:
        monkeypatch.setattr(building, "_insert", replace)
        first_is_writing.set()
        assert go_on.wait(PATIENCE)
        replace(*args)

    def build_monday() -> None:
        try:
            built.append(list(build([MONDAY], [mine])))
        finally:
            connection.close()

    monkeypatch.setattr(building, "_insert", pausing)
    builders = [Thread(target=build_monday) for _ in range(2)]
    builders[0].start()
    assert first_is_writing.wait(PATIENCE)
    builders[1].start()
    builders[1].join(0.5)
    assert builders[1].is_alive(), "it waits for the first"
    go_on.set()
    for builder in builders:
        builder.join()
    assert [digest.entries.count() for [digest] in built] == [1, 1]
    assert Digest.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_no_writer_waits_while_a_digest_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long work is done outside transactions: SQLite has one writer at a time."""
    announce(MONDAY, *(paper(number) for number in range(6)))
    held: list[bool] = []
    real = building.Scorer.matches

    def look(*given: Any, **how: Any) -> Any:
        held.append(connection.in_atomic_block)
        return real(*given, **how)

    monkeypatch.setattr(building.Scorer, "matches", look)
    build([MONDAY], [profile(size=3)])
    assert held == [False] * 3


def test_what_an_earlier_day_shows_meanwhile_is_not_shown_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The earlier day is built after this one was ranked, and before it is written."""
    again = paper(1)
    announce(MONDAY, again)
    announce(TUESDAY, again, paper(2))
    mine = profile()
    real = building._write

    def meanwhile(*given: Any) -> object:
        monkeypatch.setattr(building, "_write", real)
        build([MONDAY], [mine])
        return real(*given)

    monkeypatch.setattr(building, "_write", meanwhile)
    build([TUESDAY], [mine])
    assert shown(mine, MONDAY) == ["2603.00001"]
    assert shown(mine, TUESDAY) == ["2603.00002"]
