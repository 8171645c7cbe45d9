import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import brotli
import feedparser
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.http import parse_http_date

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, WEDNESDAY, announce, listing, paper, profile
from webapp.digests import models
from webapp.digests.build import build
from webapp.digests.models import DigestEntry, Profile
from webapp.digests.profiles.validation import site_profile
from webapp.papers import proposal
from webapp.papers.models import Announcement, Listing, Paper
from webapp.ui import pages
from webapp.ui.feeds import FORMATS

HOSTILE = '<script>alert(1)</script> & "x" ]]> \x0b\ufffe $\\frac{1$ attention'
ADDRESSES = ["/digest", "/digest/2026-03-02", "/p/mine", "/p/mine/2026-03-02", "/category/cs.CL"]
TYPES = {
    "rss": "application/rss+xml; charset=utf-8",
    "atom": "application/atom+xml; charset=utf-8",
    "json": "application/feed+json; charset=utf-8",
}


@pytest.fixture
def days(db: None) -> None:
    site = site_profile()
    site.keywords = [*site.keywords, {"keyword": "attention"}]
    site.save()
    profile()
    announce(MONDAY, paper(1), paper(2, HOSTILE, abstract=HOSTILE, authors=[
        {"name": "Đorđe <Petrović>", "affiliation": "A, B"}, {"name": "Ada\x08", "affiliation": ""},
    ]))  # fmt: skip
    announce(
        TUESDAY,
        paper(3, arxiv_id="hep-th/9901001"),
        paper(4, "Speculative decoding", categories=["cs.CL", "cs.LG"]),
    )
    build([MONDAY, TUESDAY])


def get(client: Client, address: str, **headers: str) -> Any:
    return client.get(
        address, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("suffix", ["rss", "atom"])
def test_every_list_is_a_feed_without_fault(client: Client, address: str, suffix: str) -> None:
    response = get(client, f"{address}.{suffix}")
    assert (response.status_code, response["Content-Type"]) == (200, TYPES[suffix])
    parsed = feedparser.parse(response.content)
    assert not parsed.bozo, parsed.get("bozo_exception")
    assert parsed.version == {"rss": "rss20", "atom": "atom10"}[suffix]
    assert parsed.feed.title
    links = {link.rel: link.href for link in parsed.feed.links}
    assert links["self"] == f"http://testserver{address}.{suffix}"
    assert links["alternate"].startswith("http://testserver/")
    assert client.get(links["alternate"].removeprefix("http://testserver")).status_code == 200
    assert len(parsed.entries) == (
        2 if "2026" in address else 4 if address != "/digest" else len(parsed.entries)
    )
    assert len({entry.id for entry in parsed.entries}) == len(parsed.entries) > 0
    for entry in parsed.entries:
        assert entry.id.startswith("tag:testserver,2025:")
        assert entry.content[0].value
        assert "<script" not in entry.content[0].value
        assert entry.author
        assert entry.published_parsed
        assert client.get(entry.link.removeprefix("http://testserver")).status_code == 200


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize("address", ADDRESSES)
def test_the_json_feed_has_its_fields(client: Client, address: str) -> None:
    response = get(client, f"{address}.json")
    assert (response.status_code, response["Content-Type"]) == (200, TYPES["json"])
    feed = json.loads(response.content)
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert feed["feed_url"] == f"http://testserver{address}.json"
    assert feed["home_page_url"].startswith("http://testserver/")
    assert isinstance(feed["title"], str)
    assert feed["items"]
    for item in feed["items"]:
        assert isinstance(item["id"], str)
        if "/folded" not in item["id"]:
            assert item["url"].startswith("http://testserver/papers/")
            assert item["external_url"].startswith("https://arxiv.org/abs/")
        assert isinstance(item["content_html"], str)
        for moment in (item["date_published"], item["date_modified"]):
            assert datetime.fromisoformat(moment).tzinfo is UTC
        assert all(isinstance(author["name"], str) for author in item["authors"])
        assert all(isinstance(tag, str) for tag in item["tags"])
    assert len({item["id"] for item in feed["items"]}) == len(feed["items"])


@pytest.mark.usefixtures("days")
def test_a_feed_made_anew_reads_and_marks_no_text_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def count(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return function(*given, **named)

        monkeypatch.setattr(module, name, count)

    counted(proposal, "_rank")
    counted(models, "render")
    proposal.informative_sentence.cache_clear()
    models._marked.cache_clear()
    first = get(client, "/p/mine.rss").content
    before = dict(calls)
    assert before.keys() == {"_rank", "render"}
    pages.cache.clear()
    assert get(client, "/p/mine.rss").content == first
    assert calls == before


@pytest.mark.usefixtures("days")
def test_rss_says_what_readers_need(client: Client) -> None:
    channel = ElementTree.fromstring(get(client, "/p/mine.rss").content).find("channel")
    assert channel is not None
    first = channel.find("item")
    assert first is not None
    guid = first.find("guid")
    assert guid is not None
    assert guid.get("isPermaLink") == "false"
    assert guid.text == "tag:testserver,2025:hep-th/9901001v1"
    assert first.findtext("description") == (
        "We study language models. (sparse, attention, models)"
    )
    assert first.findtext("pubDate") == "Tue, 03 Mar 2026 05:00:00 +0000"
    assert "<mark" in (first.findtext("{http://purl.org/rss/1.0/modules/content/}encoded") or "")
    creators = [one.text or "" for one in channel.iter("{http://purl.org/dc/elements/1.1/}creator")]
    assert any("Đorđe <Petrović>" in names.split(", ") for names in creators)
    # In one element: readers of feeds show the last of several.
    assert len(creators) == len(list(channel.iter("item")))


@pytest.mark.usefixtures("days")
def test_atom_is_updated_when_what_an_entry_says_changes(client: Client) -> None:
    def updated() -> dict[str, str]:
        parsed = feedparser.parse(get(client, "/p/mine.atom").content)
        return {entry.id.rsplit(":")[-1]: entry.updated for entry in parsed.entries}

    past = datetime(2026, 3, 2, 12, tzinfo=UTC)
    DigestEntry.objects.update(changed_at=past)
    before = updated()
    Paper.objects.filter(arxiv_id="2603.00001").update(abstract="Sparse models, revised.")
    build([MONDAY])
    after = updated()
    assert {name for name in after if after[name] != before[name]} == {"2603.00001v1"}


@pytest.mark.usefixtures("days")
def test_an_identity_never_changes(client: Client) -> None:
    def ids() -> set[str]:
        return {item["id"] for item in get(client, "/p/mine.json").json()["items"]}

    before = ids()
    Paper.objects.filter(arxiv_id="2603.00001").update(title="Models", abstract="x", version=2)
    build([MONDAY, TUESDAY])
    assert ids() == before
    moved = Client(SERVER_NAME="testserver", SERVER_PORT="8001")
    again = {item["id"] for item in moved.get("/p/mine.json").json()["items"]}
    assert again == before


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("address", [*ADDRESSES, "/feeds/opml"])
def test_the_same_list_is_the_same_bytes(client: Client, address: str, suffix: str) -> None:
    address = address if address == "/feeds/opml" else f"{address}.{suffix}"
    first, second = (get(client, address, accept_encoding="gzip") for _ in range(2))
    assert first.content == second.content
    assert first["ETag"] == second["ETag"]
    plain = get(client, address)
    assert gzip.decompress(first.content) == plain.content
    assert first["ETag"] != plain["ETag"]
    assert first["Content-Encoding"] == "gzip"
    assert not first["ETag"].startswith("W/")
    assert first["Vary"] == "Accept, Accept-Encoding"
    assert "max-age" in first["Cache-Control"]
    assert int(first["Content-Length"]) == len(first.content)


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize(("suffix", "shown"), [("rss", True), ("atom", True), ("json", False)])
def test_a_browser_gets_xml_that_it_shows_with_its_style(
    client: Client, suffix: str, shown: bool
) -> None:
    address = f"/digest.{suffix}"
    of_browser = client.get(address, headers={"Accept": "text/html,application/xml;q=0.9,*/*"})
    of_reader = client.get(address, headers={"Accept": "*/*"})
    assert of_browser["Content-Type"].startswith("application/xml") is shown
    assert of_reader["Content-Type"] == TYPES[suffix]
    assert of_browser.content == of_reader.content
    assert (b"text/css" in of_browser.content) is shown


@pytest.mark.usefixtures("days")
class TestConditional:
    def test_what_a_client_has_is_not_sent_again(self, client: Client) -> None:
        for address in (
            f"{ADDRESSES[0]}.rss",
            "/p/mine.atom",
            "/category/cs.CL.json",
            "/feeds/opml",
        ):
            first = get(client, address)
            for condition in (
                {"if_none_match": first["ETag"]},
                {"if_none_match": f'"other", W/{first["ETag"]}'},
                {"if_none_match": "*"},
                {"if_modified_since": first["Last-Modified"]},
                {
                    "if_none_match": first["ETag"],
                    "if_modified_since": "Thu, 01 Jan 1970 00:00:00 GMT",
                },
            ):
                response = get(client, address, **condition)
                assert (response.status_code, response.content) == (304, b""), condition
                assert response["ETag"] == first["ETag"]
                assert response["Last-Modified"] == first["Last-Modified"]
                assert response["Cache-Control"] == first["Cache-Control"]

    def test_what_it_has_not_is_sent(self, client: Client) -> None:
        first = get(client, "/p/mine.rss")
        for condition in (
            {"if_none_match": '"other"'},
            {"if_none_match": "garbage"},
            {"if_none_match": '"other"', "if_modified_since": first["Last-Modified"]},
            {"if_modified_since": "Thu, 01 Jan 1970 00:00:00 GMT"},
            {"if_modified_since": "yesterday"},
        ):
            assert get(client, "/p/mine.rss", **condition).status_code == 200, condition

    def test_each_encoding_has_its_tag(self, client: Client) -> None:
        zipped = get(client, "/p/mine.rss", accept_encoding="gzip, deflate")
        known = {"if_none_match": zipped["ETag"]}
        again = get(client, "/p/mine.rss", accept_encoding="gzip", **known)
        assert again.status_code == 304
        assert get(client, "/p/mine.rss", **known).status_code == 200

    def test_a_client_of_brotli_alone_is_sent_it(self, client: Client) -> None:
        plain, packed = get(client, "/p/mine.rss"), get(client, "/p/mine.rss", accept_encoding="br")
        assert (packed["Content-Encoding"], packed["Vary"]) == ("br", "Accept, Accept-Encoding")
        assert brotli.decompress(packed.content) == plain.content
        known = {"accept_encoding": "br", "if_none_match": packed["ETag"]}
        assert get(client, "/p/mine.rss", **known).status_code == 304

    def test_head_is_get_without_a_body(self, client: Client) -> None:
        whole, head = client.get("/p/mine.rss"), client.head("/p/mine.rss")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == whole.headers
        assert client.post("/p/mine.rss").status_code == 405

    def test_every_change_of_a_list_changes_its_tag(self, client: Client) -> None:
        def tags() -> dict[str, str]:
            return {one: get(client, one)["ETag"] for one in ("/p/mine.rss", "/category/cs.CL.rss")}

        seen = [tags()]

        def changed() -> set[str]:
            seen.append(tags())
            return {one for one in seen[-1] if seen[-1][one] != seen[-2][one]}

        announce(TUESDAY, paper(9, "Sparse models"))
        build([TUESDAY])
        assert changed() == {"/p/mine.rss", "/category/cs.CL.rss"}
        Profile.objects.filter(slug="mine").update(name="Renamed")
        assert changed() == {"/p/mine.rss"}
        Paper.objects.filter(arxiv_id="2603.00001").update(
            authors=[], enriched_at=datetime(2026, 3, 9, tzinfo=UTC)
        )
        assert changed() == {"/p/mine.rss", "/category/cs.CL.rss"}
        Announcement.objects.filter(paper__arxiv_id="2603.00009").delete()
        assert changed() == {"/category/cs.CL.rss"}
        build([TUESDAY])
        assert changed() == {"/p/mine.rss"}
        assert changed() == set()

    def test_last_modified_is_when_it_changed(self, client: Client) -> None:
        mine = Profile.objects.get(slug="mine")
        newest = max(digest.changed_at for digest in mine.digests.all())
        header = get(client, "/p/mine.rss")["Last-Modified"]
        assert parse_http_date(header) == int(newest.timestamp())

    @pytest.mark.parametrize("address", ["/digest.rss", "/p/mine.json", "/category/cs.CL.atom"])
    def test_an_unchanged_feed_costs_one_query(self, client: Client, address: str) -> None:
        tag = get(client, address)["ETag"]
        with CaptureQueriesContext(connection) as queries:
            assert get(client, address, if_none_match=tag).status_code == 304
        assert len(queries) == 1
        with CaptureQueriesContext(connection) as queries:
            assert get(client, address).status_code == 200
        assert len(queries) == 1


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize(
    "address",
    ["/p/nobody.rss", "/digest/2026-03-09.rss", "/category/cs.XX.rss", "/p/mine/2026-03-09.json",
     "/p/mine.xml", "/digest/2026-02-31.rss", "/category/cs.CL.rss?date=today"],
)  # fmt: skip
def test_what_is_no_list_is_not_found(client: Client, address: str) -> None:
    assert client.get(address).status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize(
    "address", ["/digest.rss", "/p/mine.atom", "/category/cs.LG.rss", "/feeds/opml"]
)
def test_a_list_without_papers_yet_is_an_empty_feed(client: Client, address: str) -> None:
    profile()
    listing(MONDAY, "cs.LG", state=Listing.State.EMPTY)
    response = client.get(address)
    assert response.status_code == 200
    if address != "/feeds/opml":
        parsed = feedparser.parse(response.content)
        assert not parsed.bozo
        assert parsed.entries == []
    assert get(client, address, if_none_match=response["ETag"]).status_code == 304


@pytest.mark.usefixtures("days")
def test_a_gist_stands_before_the_abstract(client: Client) -> None:
    before = get(client, "/p/mine.json").content
    paper = Paper.objects.get(arxiv_id="2603.00001")
    factories.summarise(paper, gist="In short.", gist_html="<b>In short.</b>")
    assert get(client, "/p/mine.json").content != before
    items = {item["id"]: item for item in get(client, "/p/mine.json").json()["items"]}
    assert "<p><b>In short.</b></p>" in items["tag:testserver,2025:2603.00001v1"]["content_html"]


@pytest.mark.usefixtures("days")
def test_a_category_lists_all_that_was_announced_even_twice(client: Client) -> None:
    again = Paper.objects.get(arxiv_id="2603.00001")
    announce(WEDNESDAY, again, kind="replace", version=2)
    announce(WEDNESDAY, Paper.objects.get(arxiv_id="2603.00004"))  # a stale batch says it again
    items = get(client, "/category/cs.CL.json").json()["items"]
    assert [item["id"].split(":")[-1] for item in items] == [
        "2603.00001v2", "2603.00004v1", "hep-th/9901001v1",
    ]  # fmt: skip
    assert items[0]["summary"] == "We study language models. (Announced as replacement in cs.CL)"
    one_day = get(client, f"/category/cs.CL.json?date={MONDAY}").json()["items"]
    assert len(one_day) == 2


@pytest.mark.usefixtures("days")
def test_the_base_address_of_the_settings_counts(client: Client, settings: Any) -> None:
    settings.BASE_URL = "https://papers.example"
    feed = get(client, "/p/mine.json").json()
    assert feed["feed_url"] == "https://papers.example/p/mine.json"
    assert feed["items"][0]["id"].startswith("tag:papers.example,2025:")


@pytest.mark.usefixtures("days")
def test_opml_names_every_feed(client: Client) -> None:
    listing(MONDAY, "hep-th")
    response = client.get("/feeds/opml")
    assert response["Content-Type"] == "text/x-opml; charset=utf-8"
    root = ElementTree.fromstring(response.content)
    assert (root.tag, root.get("version")) == ("opml", "2.0")
    outlines = [one for one in root.iter("outline") if one.get("type") == "rss"]
    addresses = [str(one.get("xmlUrl")).removeprefix("http://testserver") for one in outlines]
    assert addresses[:2] == ["/digest.rss", "/p/mine.rss"]
    assert {"/category/cs.CL.rss", "/category/hep-th.rss"} <= set(addresses)
    for one in outlines:
        for name in ("xmlUrl", "htmlUrl"):
            assert (
                client.get(str(one.get(name)).removeprefix("http://testserver")).status_code == 200
            )
