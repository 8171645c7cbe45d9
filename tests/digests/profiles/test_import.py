"""A configuration of arxiv_rss_bot becomes a feed from the page of feeds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests import factories
from webapp.digests.models import Profile

pytestmark = pytest.mark.django_db
CONFIG: dict[str, Any] = {
    "categories": ["cs.CL"],
    "keywords": ["attention", "attention", "speculative"],
    "exclude_keywords": ["survey"],
    "max_papers": 12,
    "min_score": 1,
}


@pytest.fixture
def reader(client: Client) -> Any:
    made = factories.make_reader("ada")
    client.force_login(made)
    return made


def sent(client: Client, body: bytes) -> Any:
    file = SimpleUploadedFile("config.json", body, "application/json")
    return client.post("/feeds/import/", {"config": file}, follow=True)


def test_a_config_becomes_a_private_feed_that_matches_as_the_bot_does(
    client: Client, reader: Any
) -> None:
    factories.make_day(6)
    page = sent(client, json.dumps(CONFIG).encode())
    assert "Imported 2 keywords" in page.content.decode()
    made = Profile.objects.get(owner=reader)
    assert page.redirect_chain[-1][0] == f"/p/{made.slug}/"
    assert (made.matching, made.size, made.min_score, made.exclude) == (
        *("substring", 12, 1),
        ["survey"],
    )
    assert made.is_private
    assert made.digests.exists()
    # Its form keeps the matching, which no reader chooses.
    form = client.get(f"/feeds/{made.slug}/").content.decode()
    assert '<input type="hidden" name="matching" value="substring"' in form


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "gbk"])
def test_a_config_is_read_as_its_editor_saved_it(client: Client, reader: Any, codec: str) -> None:
    config = json.dumps(CONFIG | {"keywords": ["稀疏注意力"]}, ensure_ascii=False)
    assert "Imported 1 keywords" in sent(client, config.encode(codec)).content.decode()
    assert Profile.objects.get(owner=reader).keywords[0]["keyword"] == "稀疏注意力"


def test_a_config_in_an_unknown_encoding_says_what_to_do(client: Client, reader: Any) -> None:
    config = json.dumps(CONFIG | {"keywords": ["внимание"]}, ensure_ascii=False)
    page = sent(client, config.encode("cp1251")).content.decode()
    assert "The file’s encoding is unknown: save it as UTF-8." in page
    assert not Profile.objects.filter(owner=reader).exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"categories": ["cs.CL"]}', b"\xff\xfe{}"])
def test_what_is_no_config_imports_nothing_and_says_why(
    client: Client, reader: Any, body: bytes
) -> None:
    assert "Nothing was imported" in sent(client, body).content.decode()
    assert not Profile.objects.filter(owner=reader).exists()


def test_without_a_file_or_room_nothing_is_imported(
    client: Client, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client.post("/feeds/import/", follow=True).content.decode()
    assert "choose a config.json first" in page
    monkeypatch.setattr("webapp.digests.profiles.views.MAX_PROFILES", 0)
    assert "the limit is 0" in sent(client, json.dumps(CONFIG).encode()).content.decode()
    assert not Profile.objects.filter(owner=reader).exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/profiles/", "/feeds/"),
        ("/profiles/new/?q=a%20b", "/feeds/new/?q=a%20b"),
        ("/profiles/mine/", "/feeds/mine/"),
        ("/profiles//evil.example/", "/feeds//evil.example/"),
    ],
)
def test_addresses_of_profiles_lead_to_feeds(client: Client, old: str, new: str) -> None:
    response = client.get(old)
    assert (response.status_code, response["Location"]) == (301, new)


def test_nothing_hidden_in_a_config_is_stored(client: Client, reader: Any) -> None:
    """It is taken away where it changes nothing, and refused where a word is not what it seems."""
    for keyword in ("atten\u200btion", "atten\u202etion", "atten\x07tion"):
        sent(client, json.dumps(CONFIG | {"keywords": [keyword]}).encode())
    stored = json.dumps(list(Profile.objects.values("keywords", "exclude", "name")), default=str)
    assert not re.search(r"\\u(?:200b|202e|0007)", stored)
