"""The sample day goes when arXiv has something for the site's list; readers' marks stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from tests import factories
from tests.servers.arxiv import ArxivServer
from webapp.digests.daily import update
from webapp.digests.models import Digest, Profile
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.days import now
from webapp.papers.enrich import enrich
from webapp.papers.models import Announcement, Listing, Paper, PaperVersion
from webapp.papers.sample import SAMPLE_DAY

pytestmark = pytest.mark.django_db


@pytest.fixture
def arxiv(settings: Settings) -> Iterator[ArxivServer]:
    settings.ARXIV_SECONDS = 0
    settings.ARXIV_CATEGORIES = ["cs.AI"]
    with ArxivServer() as server:
        settings.ARXIV_RSS_URL = server.rss_url
        settings.ARXIV_API_URL = server.api_url
        yield server


def save(reader: User, paper: Paper) -> None:
    Star.objects.create(reader=reader, paper=paper)


def note(reader: User, paper: Paper) -> None:
    LibraryEntry.objects.create(reader=reader, paper=paper, note="mine")


def put_on_list(reader: User, paper: Paper) -> None:
    ReadingList.objects.create(reader=reader, name="Week").papers.add(paper)


@pytest.mark.parametrize("touch", [save, note, put_on_list])
def test_what_a_reader_put_on_a_sample_paper_outlives_the_sample(
    arxiv: ArxivServer, client: Client, touch: Callable[[User, Paper], None]
) -> None:
    reader = factories.make_reader()
    client.force_login(reader)
    arxiv.behave("hang-up")
    update(["cs.AI"])
    kept = Paper.objects.filter(is_sample=True).order_by("arxiv_id")[3]
    touch(reader, kept)
    arxiv.behave("normal")
    update(["cs.AI"])
    assert [one.pk for one in Paper.objects.filter(is_sample=True)] == [kept.pk]
    assert not Digest.objects.filter(is_sample=True).exists()
    assert not Listing.objects.filter(date=SAMPLE_DAY).exists()
    assert not Announcement.objects.filter(paper=kept).exists()
    part = {save: "saved", note: "notes"}.get(touch)
    of_list = ReadingList.objects.values_list("pk", flat=True).first()
    page = client.get(f"/library/?show={part}" if part else f"/library/?list={of_list}")
    assert f'id="p-{kept.arxiv_id}"' in page.content.decode()
    assert client.get(f"/papers/{kept.arxiv_id}/").status_code == 200
    assert client.get(f"/digest/{SAMPLE_DAY}/").status_code == 404


def test_arxivs_text_replaces_the_samples_of_a_kept_paper(arxiv: ArxivServer) -> None:
    arxiv.behave("hang-up")
    update(["cs.AI"])
    kept = Paper.objects.filter(is_sample=True).order_by("arxiv_id")[3]
    before = kept.abstract
    save(factories.make_reader(), kept)
    assert kept.pk not in {one.pk for one in _asked(arxiv)}  # not while the sample is shown
    arxiv.behave("normal")
    update(["cs.AI"])
    twin = Paper.objects.exclude(pk=kept.pk).latest("pk")
    Paper.objects.exclude(pk__in=[kept.pk, twin.pk]).update(enriched_at=now())
    arxiv.spoil = lambda _path, answer: answer.replace(twin.arxiv_id, kept.arxiv_id)
    at = now() + timedelta(hours=1)
    assert enrich(moment=at)[0] == 1
    kept.refresh_from_db()
    assert not kept.is_sample
    assert kept.abstract != before
    assert kept.abstract.split() == twin.abstract.split()
    version = PaperVersion.objects.get(paper=kept, number=kept.version)
    assert version.abstract == kept.abstract
    assert Star.objects.get().paper_id == kept.pk


def test_the_sample_stays_until_a_day_has_something_for_the_sites_list(
    arxiv: ArxivServer, client: Client
) -> None:
    arxiv.behave("hang-up")
    update(["cs.AI"])
    shown = client.get("/").content.decode()
    assert "Sample day" in shown
    assert Digest.objects.get().matched > 0
    profile = Profile.objects.get(is_site=True)
    rare = [profile.keywords[0] | {"keyword": "cardinality"}]
    Profile.objects.filter(is_site=True).update(keywords=rare, ranking=Profile.Ranking.RULES)
    arxiv.behave("normal")
    update(["cs.AI"])
    page = client.get("/").content.decode()
    assert Paper.objects.filter(is_sample=False).exists()
    assert "Sample day" in page
    assert "none matches" in page
    assert "No paper matches" not in page
    profile.save()
    update(["cs.AI"])
    assert not Paper.objects.filter(is_sample=True).exists()
    assert "Sample day" not in client.get("/").content.decode()


def _asked(arxiv: ArxivServer) -> list[Paper]:
    arxiv.behave("normal")
    enrich()
    arxiv.behave("hang-up")
    return list(Paper.objects.filter(is_sample=True, enriched_at__isnull=False))
