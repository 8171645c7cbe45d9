"""Papers that only mention a keyword: folded on the page, and told apart wherever it is read."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from tests.mail.conftest import Inbox, inbox  # noqa: F401 - a fixture
from webapp.digests.build import build
from webapp.digests.models import Digest, Profile
from webapp.mail import deliver
from webapp.mail.models import Delivery
from webapp.papers.models import Listing

pytestmark = pytest.mark.django_db
ABOUT, MENTION = "2603.00001", "2603.00002"


@pytest.fixture
def site() -> Profile:
    """A day with a paper about a keyword and one that mentions it, announced before the other."""
    announce(
        MONDAY,
        paper(2, "Cats in pictures", abstract="Sparse <i>things</i> exist. We draw cats."),
        paper(1, "On sparse attention"),
        paper(3, "Dogs"),
    )
    made = profile("Mine", words=["sparse"], matching="rarity", size=5)
    build([MONDAY], [made])
    return made


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_the_page_folds_them_behind_the_list_with_their_number(
    client: Client, site: Profile
) -> None:
    page = text(client.get(f"/p/{site.slug}/"))
    listed, _, folded = page.partition("<details")
    assert f'id="p-{ABOUT}"' in listed
    assert f'id="p-{MENTION}"' not in listed
    assert re.search(
        r'id="lower-matches"> <summary>Lower matches <span class="num">1</span>', folded
    )
    assert f'id="p-{MENTION}"' in folded
    assert "2603.00003" not in page


def test_a_day_of_mentions_alone_says_so_and_opens_them(client: Client, site: Profile) -> None:
    announce(TUESDAY, paper(7, "Birds", abstract="Sparse feathers."))
    build([TUESDAY], [site])
    page = text(client.get(f"/p/{site.slug}/"))
    assert "No close match on this day" in page
    assert 'id="lower-matches" open' in page


def test_a_filter_narrows_both(client: Client, site: Profile) -> None:
    page = text(client.get(f"/p/{site.slug}/?keyword=sparse&order=new"))
    assert page.index(f'id="p-{ABOUT}"') < page.index(f'id="p-{MENTION}"')
    assert '<span class="num">2</span> of <span class="num">2</span>' in page
    assert MENTION not in text(client.get(f"/p/{site.slug}/?category=cs.DC"))


def test_feeds_and_the_api_mark_them(client: Client, site: Profile) -> None:
    items = client.get(f"/p/{site.slug}.json").json()["items"]
    assert [item["summary"] for item in items] == [
        "We study language models. (sparse)",
        "Lower matches: 1",
    ]
    assert f"/papers/{MENTION}/" in items[1]["content_html"]
    for suffix in ("rss", "atom"):
        assert "Lower matches: 1" in text(client.get(f"/p/{site.slug}.{suffix}"))
    entries = client.get(f"/api/v1/digests/{site.slug}").json()["entries"]
    marks = {entry["paper"]["id"]: entry["also_mentioned"] for entry in entries}
    assert marks == {ABOUT: False, MENTION: True}
    assert [entry["matches"][0]["place"] for entry in entries] == ["title", "mention"]


@pytest.mark.usefixtures("site")
def test_texts_name_them_at_their_end() -> None:
    out = StringIO()
    call_command("digest", profile="mine", stdout=out)
    assert "1 of 3 announced papers." in out.getvalue()
    assert out.getvalue().index("Lower matches (1):") < out.getvalue().index("Cats in pictures")
    out = StringIO()
    call_command("digest", profile="mine", format="json", stdout=out)
    assert [one["also_mentioned"] for one in json.loads(out.getvalue())["entries"]] == [False, True]


def test_a_mail_names_them_below_and_is_not_sent_for_them_alone(
    inbox: Inbox,  # noqa: F811
    site: Profile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader: User = factories.make_reader()
    reader.email = "reader@home.example"
    reader.save()
    yesterday = {"sent_until": "2026-03-01", "looked_on": "2026-03-01"}
    Delivery.objects.create(reader=reader, profile=site, frequency="daily", **yesterday)
    settled = factories.moment(MONDAY, 12)
    monkeypatch.setattr(deliver, "now", lambda: settled)
    Listing.objects.update(changed_at=factories.moment(MONDAY, 5))
    assert deliver.deliver_due() == 1
    (mail,) = inbox.mails
    assert mail["Subject"] == "Mine: 1 paper, 2 March"
    for kind in ("plain", "html"):
        body = " ".join(mail.get_body([kind]).get_content().split())
        assert body.index("On sparse attention") < body.index("Lower matches")
        assert body.index("Lower matches") < body.index("Cats in pictures")
    Delivery.objects.update(**yesterday)
    Digest.objects.get().entries.filter(also_mentioned=False).delete()
    assert deliver.deliver_due() == 0


def test_a_preview_counts_what_the_list_shows(client: Client, site: Profile) -> None:
    reader = factories.make_reader()
    client.force_login(reader)
    Profile.objects.update(owner=reader)
    asked = {
        "name": "Mine", "categories": "cs.CL", "keywords": "sparse", "announce_types": "new",
        "matching": "rarity", "min_score": "0", "size": "5", "language": "en",
    }  # fmt: skip
    preview = text(client.post(f"/feeds/{site.slug}/", asked))
    assert '<span class="num">1 →</span> 1 paper (1 lower match)' in preview
