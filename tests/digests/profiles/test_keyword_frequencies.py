from datetime import timedelta

import pytest

from tests.digests.days import MONDAY, paper, profile
from webapp.digests.models import Profile
from webapp.digests.profiles import keyword_frequencies
from webapp.digests.profiles.defaults import KEYWORDS

pytestmark = pytest.mark.django_db


def test_a_site_with_few_papers_knows_the_default_keywords_alone() -> None:
    assert keyword_frequencies.count_frequencies(["knowledge distillation", "zebra"]) == {
        "knowledge distillation": KEYWORDS["knowledge distillation"]
    }


@pytest.fixture
def four_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough of them: three of the last weeks, one of long ago; and one of the sample."""
    monkeypatch.setattr(keyword_frequencies, "LEAST_PAPERS", 3)
    for number, title, day in (
        (1, "Sparse kernels", MONDAY),
        (2, "A sparse kernel", MONDAY - timedelta(weeks=3)),
        (3, "Dense kernels", MONDAY - timedelta(weeks=3)),
        (4, "Zebras", MONDAY - timedelta(weeks=4)),
    ):
        paper(number, title, announced_on=day)
    paper(5, "Zebras", announced_on=MONDAY, is_sample=True)


@pytest.mark.usefixtures("four_papers")
def test_frequencies_are_counted_in_the_papers_of_the_last_four_weeks() -> None:
    words = ["kernel", "sparse", "zebra", "author:Ada Lindqvist"]
    found = keyword_frequencies.count_frequencies(words)
    assert found == {"kernel": 1000.0, "sparse": 666.7, "zebra": 0.0}


@pytest.mark.usefixtures("four_papers")
def test_a_profile_by_rarity_is_counted_again_after_a_week() -> None:
    by_rarity = profile("Rare", words=["sparse"], matching="rarity", counted_on=MONDAY)
    as_written = profile("Plain", words=["sparse"])

    def frequencies() -> list[float | None]:
        rows = Profile.objects.filter(pk__in=[by_rarity.pk, as_written.pk]).order_by("pk")
        return [one.keywords[0].get("frequency") for one in rows]

    keyword_frequencies.recount_stale_frequencies(MONDAY + timedelta(days=6))
    assert frequencies() == [None, None]
    keyword_frequencies.recount_stale_frequencies(MONDAY + timedelta(days=7))
    assert frequencies() == [666.7, None]


def test_where_there_are_too_few_papers_a_known_frequency_stays() -> None:
    words = [{"keyword": "zebra", "frequency": 3.0}]
    kept = profile("Rare", matching="rarity", keywords=words)
    keyword_frequencies.recount_stale_frequencies(MONDAY)
    kept.refresh_from_db()
    assert (kept.keywords, kept.counted_on) == (words, MONDAY)


@pytest.mark.usefixtures("four_papers")
def test_the_papers_are_read_once_for_many_profiles_and_a_readers_change_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rare = [
        profile(f"Rare {at}", slug=f"rare-{at}", words=[word], matching="rarity")
        for at, word in enumerate(("sparse", "kernel", "zebra", "sparse"))
    ]
    reading: list[object] = []
    real = keyword_frequencies._recent_papers

    def recent() -> list[tuple[str, str]]:
        reading.append(None)
        mine = Profile.objects.get(pk=rare[3].pk)
        mine.keywords = [{"keyword": "owl", "weight": 2.0}]
        mine.save()
        return real()

    monkeypatch.setattr(keyword_frequencies, "_recent_papers", recent)
    keyword_frequencies.recount_stale_frequencies(MONDAY)
    assert len(reading) == 1
    stored = [Profile.objects.get(pk=profile.pk).keywords[0] for profile in rare]
    assert [keyword.get("frequency") for keyword in stored] == [666.7, 1000.0, 0.0, None]
    assert stored[3]["keyword"] == "owl"
