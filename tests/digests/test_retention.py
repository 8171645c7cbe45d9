"""Digests of days long past go; papers, and what a reader keeps of them, stay."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile, shown
from webapp.digests import retention
from webapp.digests.build import build
from webapp.digests.models import Digest, DigestEntry, FurtherMatches
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
LONG_AGO = MONDAY - timedelta(days=400)


def tidied() -> str:
    out = StringIO()
    call_command("tidy", stdout=out)
    return out.getvalue()


def test_old_digests_go_and_what_a_reader_keeps_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    reader = factories.make_reader()
    old, new = paper(1), paper(2)
    announce(LONG_AGO, old)
    announce(MONDAY, new)
    mine = [profile(f"Mine {at}", slug=f"mine-{at}", owner=reader) for at in range(5)]
    build([LONG_AGO, MONDAY], mine)
    Star.objects.create(reader=reader, paper=old)
    LibraryEntry.objects.create(reader=reader, paper=old, note="Read this", tags=["a"])
    ReadingList.objects.create(reader=reader, name="Later").papers.add(old)
    assert "5 digests deleted" in tidied()
    assert set(Digest.objects.values_list("date", flat=True)) == {MONDAY}
    assert FurtherMatches.objects.count() == 5
    assert not DigestEntry.objects.filter(paper=old).exists()
    assert shown(mine[0], MONDAY) == [new.arxiv_id]
    assert Paper.objects.count() == 2
    assert Star.objects.get().paper == LibraryEntry.objects.get().paper == old
    assert LibraryEntry.objects.get().note == "Read this"
    assert list(ReadingList.objects.get().papers.all()) == [old]
    assert "0 digests deleted" in tidied()


def test_days_are_counted_from_the_latest_digest_and_0_keeps_all(settings: Any) -> None:
    announce(LONG_AGO, paper(1))
    announce(LONG_AGO - timedelta(days=300), paper(2))
    build([LONG_AGO, LONG_AGO - timedelta(days=300)], [profile()])
    assert "0 digests deleted" in tidied(), "a site that stood still loses nothing"
    settings.DIGESTS_KEPT_DAYS = 0
    announce(TUESDAY, paper(3))
    build([TUESDAY])
    assert "0 digests deleted" in tidied()
    settings.DIGESTS_KEPT_DAYS = 365
    assert "2 digests deleted" in tidied()


def test_what_a_year_takes_grows_with_the_profiles() -> None:
    announce(MONDAY, *(paper(number) for number in range(30)))
    figures = []
    for number in (10, 40):
        mine = [profile(f"M {at}", slug=f"m-{number}-{at}") for at in range(number)]
        build([MONDAY], mine)
        said = re.search(r"takes (\S+) GB on disk, (\S+) MB a profile", tidied())
        assert said
        figures.append((float(said[1]), float(said[2])))
    (few, one), (many, same) = figures
    assert 3 * few < many < 6 * few
    assert 0.5 * one < same < 1.5 * one
    assert 1 < one < 10
