"""Digests of days long past go; papers, and what a reader keeps of them, stay."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile, shown
from webapp.digests import retention
from webapp.digests.build import build
from webapp.digests.entries import store_chips
from webapp.digests.models import Digest, DigestEntry, FurtherMatches
from webapp.digests.profiles.validation import site_profile
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
    LibraryEntry.objects.create(reader=reader, paper=old, note="Read this")
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


def test_digests_of_weeks_past_are_packed_and_read_the_same_everywhere(client: Client) -> None:
    """One row each; pages, the API, Markdown, the feed and the command have what they had."""
    papers = [paper(n, f"Sparse attention {n}", abstract="Models $n^2$ of R&D.") for n in range(9)]
    announce(MONDAY, *papers)
    mine = profile("Mine", owner=factories.make_reader(), is_published=True, size=4)
    factories.summarise(papers[0])
    build([MONDAY], [mine, site_profile()])
    store_chips({papers[1].pk: [{"method": "seps", "name": "SEPS", "figure": "2×"}]})
    before = everywhere(client)
    assert before[0].count('id="p-') == 4
    assert "SEPS" in before[0]
    assert "It is " in before[0]
    later = MONDAY + timedelta(days=retention.WHOLE_DAYS)
    announce(later, paper(20))
    build([later], [mine])
    assert "0 packed" in tidied()
    announce(later + timedelta(days=1), paper(21))
    build([later + timedelta(days=1)], [mine])
    assert "1 packed" in tidied()
    assert "0 packed" in tidied()
    old = Digest.objects.get(profile=mine, date=MONDAY)
    assert not old.entries.exists()
    assert Digest.objects.get(profile__is_site=True, date=MONDAY).entries.exists()
    assert len(old.further.rows) == 4
    after = everywhere(client)
    assert after[1:] == before[1:]
    shown = '<article class="card|id="p-|<mark|data-k|SEPS|It is '
    assert re.findall(shown, after[0]) == re.findall(shown, before[0])
    assert re.findall(r'id="p-([\d.]+)"', after[0]) == re.findall(r'id="p-([\d.]+)"', before[0])


def everywhere(client: Client) -> list[str]:
    """Monday's digest of the profile, wherever it is read, without what later days change."""
    feed = client.get(f"/p/mine/{MONDAY}.json").json()
    items = [{**item, "date_modified": ""} for item in feed["items"]]
    out = StringIO()
    call_command("digest", profile="mine", date=MONDAY, stdout=out)
    addresses = (f"/p/mine/{MONDAY}/", f"/api/v1/digests/mine?date={MONDAY}")
    answers = [client.get(address) for address in addresses]
    assert [answer.status_code for answer in answers] == [200, 200]
    return [*(answer.content.decode() for answer in answers), str(items), out.getvalue()]


def test_a_packed_day_that_is_built_anew_is_whole_again() -> None:
    old = [paper(1), paper(2)]
    announce(MONDAY, *old)
    announce(MONDAY + timedelta(days=60), paper(3))
    mine = profile("Mine", owner=factories.make_reader())
    build([MONDAY, MONDAY + timedelta(days=60)], [mine])
    assert "1 packed" in tidied()
    announce(MONDAY, paper(4, "Sparse attention models"))
    build([MONDAY], [mine])
    assert len(shown(mine, MONDAY)) == 3
    assert Digest.objects.get(date=MONDAY).further.rows == []


def test_a_digest_that_two_tidy_up_at_once_keeps_its_entries() -> None:
    announce(MONDAY, paper(1), paper(2))
    mine = profile("Mine", owner=factories.make_reader())
    build([MONDAY], [mine])
    digest = Digest.objects.get(profile=mine)
    retention.pack([digest.pk])
    retention.pack([digest.pk])  # by the second, who has looked for what to pack before
    assert len(FurtherMatches.objects.get(digest=digest).rows) == 2


def test_a_hundred_digests_are_packed_by_few_queries() -> None:
    announce(MONDAY, *(paper(n) for n in range(3)))
    announce(MONDAY + timedelta(days=60), paper(90))
    reader = factories.make_reader()
    mine = [profile(f"Mine {n}", slug=f"mine-{n}", owner=reader) for n in range(100)]
    build([MONDAY], mine)
    build([MONDAY + timedelta(days=60)], mine[:1])
    with CaptureQueriesContext(connection) as queries:
        assert retention.pack_old() == 100
    assert len(queries) <= 20
    assert {len(further.rows) for further in FurtherMatches.objects.all()} == {3, 0}


def test_a_packed_entry_takes_a_fraction_of_its_room() -> None:
    texts = [f"Sparse models of attention and {word}" for word in "abcdefghijklmnopqrstuvwxyz"]
    announce(MONDAY, *(paper(n, text, abstract=text * 4) for n, text in enumerate(texts)))
    announce(MONDAY + timedelta(days=60), paper(90))
    mine = profile("Mine", owner=factories.make_reader())
    build([MONDAY, MONDAY + timedelta(days=60)], [mine])
    rows = list(Digest.objects.get(date=MONDAY).entries.values(*retention.PACKED))
    tidied()
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(length(rows)) FROM digests_furthermatches")
        [stored] = cursor.fetchone()
    assert 10 * stored < len(json.dumps(rows))


def test_what_a_year_takes_grows_with_the_profiles() -> None:
    announce(MONDAY, *(paper(number) for number in range(30)))
    figures = []
    for number in (10, 40):
        mine = [profile(f"M {at}", slug=f"m-{number}-{at}") for at in range(number)]
        build([MONDAY], mine)
        said = re.search(r"takes (\S+) GB on disk, (\S+) MB a profile", tidied())
        assert said
        figures.append((float(said[1]), float(said[2])))
    (few, one), (many, same) = figures  # PostgreSQL's indexes have pages before they have rows
    assert 2 * few < many < 6 * few
    assert 0.4 * one < same < 1.5 * one
    assert 1 < same < 10
