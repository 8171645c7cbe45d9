"""Nothing changed costs nothing: fingerprints before work, gists and chips where they stand."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from webapp.digests import build as building
from webapp.digests.build import build
from webapp.digests.entries import store_chips, store_gist
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.papers.models import Paper

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
    first = build([MONDAY], mine)
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
    assert asked[0] == asked[1] <= 6


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


def test_a_gist_touches_only_the_entries_that_hold_its_paper(
    request: pytest.FixtureRequest,
) -> None:
    one, two = paper(1), paper(2)
    announce(MONDAY, one, two)
    announce(TUESDAY, paper(3))
    build([MONDAY, TUESDAY], many(8))
    keys = set(DigestEntry.objects.values_list("pk", flat=True))
    before = dict(DigestEntry.objects.values_list("pk", "changed_at"))
    stamps = Digest.objects.values_list("changed_at", flat=True)
    monday, tuesday = (set(stamps.filter(date=day)) for day in (MONDAY, TUESDAY))
    request.getfixturevalue("no_scoring")
    with CaptureQueriesContext(connection) as queries:
        store_gist(one.pk, "en", "It is sparse.", "It is <i>sparse</i>.", "")
    assert len(queries) <= 14
    assert set(DigestEntry.objects.values_list("pk", flat=True)) == keys
    for entry in DigestEntry.objects.all():
        assert (entry.gist == "It is sparse.") is (entry.paper_id == one.pk)
        assert (entry.changed_at > before[entry.pk]) is (entry.paper_id == one.pk)
    assert monday.isdisjoint(stamps.filter(date=MONDAY))
    assert set(stamps.filter(date=TUESDAY)) == tuesday


def test_gists_and_chips_stay_when_a_day_is_built_anew() -> None:
    one = paper(1)
    announce(MONDAY, one)
    [mine] = many(1)
    build([MONDAY], [mine])
    store_gist(one.pk, "en", "Short.", "Short.", "")
    chips = [{"method": "seps", "name": "SEPS", "figure": "2×"}]
    assert store_chips({one.pk: chips}) == 1
    stamp = Digest.objects.get().changed_at
    announce(MONDAY, paper(2))
    build([MONDAY], [mine])
    entry = DigestEntry.objects.get(paper=one)
    assert (entry.gist, entry.chips) == ("Short.", chips)
    assert Digest.objects.get().changed_at > stamp
    assert store_chips({}) == 1
    assert DigestEntry.objects.get(paper=one).chips == []


def test_a_profile_that_changes_its_language_gets_gists_in_it() -> None:
    one = paper(1)
    announce(MONDAY, one)
    [mine] = many(1)
    build([MONDAY], [mine])
    store_gist(one.pk, "zh", "稀疏。", "稀疏。", "")
    assert DigestEntry.objects.get().gist == ""
    mine.language = "zh"
    mine.save()
    build([MONDAY], [mine])
    assert DigestEntry.objects.get().gist == "稀疏。"
