"""The site's own list: a model of chosen papers decides, and keywords add to it."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.test import Client

from tests.digests.days import MONDAY, announce, paper
from webapp.digests.batch import read_day
from webapp.digests.build import build
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.profiles.validation import load_rules, site_profile
from webapp.digests.scoring.scorer import Scorer
from webapp.learning.preferences import CHOSEN
from webapp.papers.sample import load_sample

pytestmark = pytest.mark.django_db

# Of the first ten of the source's own list of the sample day, those that are on the subject; the
# others are on radio networks, on Alzheimer's disease, and on flows between modalities.
WANTED = {"2512.14925", "2512.15176", "2512.15306", "2512.15705", "2512.15335", "2512.15550"}
WANTED |= {"2512.15358"}
ELSEWHERE = {"2512.13715", "2512.14491", "2512.15420"}


@pytest.fixture
def sample() -> Digest:
    build(load_sample("arXiv cannot be reached").dates, [site_profile()])
    return Digest.objects.get()


def identifiers(digest: Digest, **which: object) -> set[str]:
    return set(digest.entries.filter(**which).values_list("paper__arxiv_id", flat=True))


def test_the_sources_first_papers_of_the_sample_day_are_listed(sample: Digest) -> None:
    listed = identifiers(sample, also_mentioned=False)
    assert listed >= WANTED
    assert not ELSEWHERE & listed
    assert len(listed) <= 14


def test_reasons_add_up_and_speak_of_no_saved_papers(sample: Digest, client: Client) -> None:
    for entry in sample.entries.all():
        assert sum(match["points"] for match in entry.matches) == pytest.approx(entry.score)
        assert entry.matches[-1]["keyword"] == CHOSEN
        assert not entry.is_nearest  # a lower match has a keyword
    page = client.get("/").content.decode()
    assert "saved" not in re.sub(r"<(\w+)[^>]*>", "", page.partition('id="cards"')[2])
    for entry in sample.entries.all()[:5]:
        reasons = client.get(f"/papers/{entry.paper.arxiv_id}/").content.decode()
        assert "saved papers" not in reasons


def test_a_title_of_another_field_is_a_lower_match() -> None:
    """A keyword in the title lists a paper only if it is close to the field."""
    near = paper(
        1, "Quantization of language models for faster inference",
        abstract="We quantize the KV cache of LLMs to four bits, and decoding takes half the time.",
    )  # fmt: skip
    far = paper(
        2, "Quantization noise in microphone arrays",
        abstract="Beam patterns of differential microphones depend on the wordlength of signals.",
    )  # fmt: skip
    announce(MONDAY, near, far)
    build([MONDAY], [site_profile()])
    entries = DigestEntry.objects.order_by("rank")
    assert [(entry.paper_id, entry.also_mentioned) for entry in entries] == [
        (near.pk, False), (far.pk, True)
    ]  # fmt: skip


def test_rules_alone_still_rank_a_site_that_asks_for_them() -> None:
    site = site_profile()
    site.ranking = "rules"
    site.save()
    announce(MONDAY, paper(1, "Quantization noise in microphone arrays", abstract="Arrays."))
    build([MONDAY], [site])
    assert DigestEntry.objects.get().matches[0]["keyword"].startswith("quantization")


def test_the_model_names_the_papers_that_it_was_learned_from() -> None:
    from webapp.digests.profiles.defaults import CHOSEN as IDENTIFIERS
    from webapp.digests.profiles.defaults import MODEL, default_model

    assert len(default_model().examples["papers"]) == len(set(IDENTIFIERS)) == 40
    assert Path(MODEL).stat().st_size < 100_000


def test_an_untouched_list_of_an_older_site_gets_the_model() -> None:
    migration = import_module("webapp.digests.migrations.0017_default_model")
    fresh = [keyword["keyword"] for keyword in site_profile().keywords]
    older = {new: old for old, (new, _) in migration.RENAMED.items()}
    of_older = [
        {"keyword": older.get(text, text), "weight": 1.0, "title_bonus": 0.5, "frequency": 1.0}
        for text in fresh
        if text not in migration.NEW
    ]
    for keywords, ranking in ((of_older, "both"), (of_older[1:], "rules")):
        Profile.objects.update(keywords=keywords, ranking="rules")
        migration.rank_by_model(apps, None)
        site = Profile.objects.get()
        assert site.ranking == ranking
        names = {keyword["keyword"] for keyword in site.keywords}
        assert names == (set(fresh) if ranking == "both" else {k["keyword"] for k in keywords})


def test_keywords_are_those_of_the_reasons(sample: Digest) -> None:
    """Further papers have their keywords counted before their reasons are made."""
    site = replace(load_rules(site_profile()), learned=None)
    scorer = Scorer([site, replace(site, by_place=False, by_rarity=False, min_score=0.0)])
    day = read_day(sample.date)
    for rule, kept in enumerate(scorer.kept(day.candidates)):
        assert len(kept) > 10
        for scored in kept:
            candidate = day.candidates[scored.at]
            matches = scorer.matches(rule, candidate)
            assert scorer.keywords(rule, candidate) == [match["keyword"] for match in matches]
