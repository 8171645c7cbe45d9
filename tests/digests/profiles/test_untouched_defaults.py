"""An untouched site gets the new default keywords; one that was changed keeps its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from webapp.digests.models import Profile
from webapp.digests.profiles.defaults import MIN_SCORE, default_keywords
from webapp.digests.profiles.validation import site_profile
from webapp.digests.scoring.scorer import Keyword

pytestmark = pytest.mark.django_db

FORMER = json.loads(Path(__file__).with_name("former_defaults.json").read_text())
renew = import_module("webapp.digests.migrations.0009_untouched_defaults").renew


def of_former(former: dict[str, Any]) -> Profile:
    profile = site_profile()
    # The site has counted how often each occurs in its own papers.
    profile.keywords = [asdict(Keyword(text, frequency=3.0)) for text in former["keywords"]]
    profile.exclude, profile.min_score = former["exclude"], former["min_score"]
    profile.save()
    return profile


@pytest.mark.parametrize("former", FORMER)
def test_each_former_default_becomes_the_present_one(former: dict[str, Any]) -> None:
    profile = of_former(former)
    renew(apps, None)
    profile.refresh_from_db()
    assert [one["keyword"] for one in profile.keywords] == [k.keyword for k in default_keywords()]
    assert profile.min_score == MIN_SCORE


@pytest.mark.parametrize("former", FORMER)
@pytest.mark.parametrize("changed", ["weight", "one less", "one more", "exclude", "min_score"])
def test_what_somebody_changed_stays(former: dict[str, Any], changed: str) -> None:
    profile = of_former(former)
    if changed == "weight":
        profile.keywords[0]["weight"] = 2.0
    elif changed == "one less":
        profile.keywords = profile.keywords[1:]
    elif changed == "one more":
        profile.keywords.append(asdict(Keyword("zebra")))
    elif changed == "exclude":
        profile.exclude = []
    else:
        profile.min_score += 1
    profile.save()
    before = Profile.objects.values().get()
    renew(apps, None)
    assert Profile.objects.values().get() == before


def test_a_readers_profile_with_these_keywords_stays() -> None:
    profile = of_former(FORMER[0])
    profile.is_site = False
    profile.save()
    before = Profile.objects.values().get()
    renew(apps, None)
    assert Profile.objects.values().get() == before
