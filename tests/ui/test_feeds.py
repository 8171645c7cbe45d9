"""Feed formats: the same bytes everywhere, and no text breaks them."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from xml.etree import ElementTree

import feedparser
from hypothesis import given
from hypothesis import strategies as st

from webapp.ui.feeds import FORMATS, Feed, Item, opml

FEED_OF_ANOTHER_PROCESS = """
from datetime import UTC, datetime
from pathlib import Path
import django
from django.conf import settings
settings.configure(TEMPLATES=[{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [Path("templates")],
}])
django.setup()
from webapp.ui.feeds import *
at = datetime(2026, 3, 2, tzinfo=UTC)
item = Item("tag:a,2025:1", "l", "s", "t", "s", "<p>h</p>", ["A", "B"], ["cs.CL"], at, at)
import sys
for one in FORMATS.values():
    sys.stdout.buffer.write(one.write(Feed("tag:a,2025:f", "T", "D", "h", "a", at, [item])))
"""


def test_another_process_writes_the_same_bytes() -> None:
    written = {
        subprocess.run(
            [sys.executable, "-c", FEED_OF_ANOTHER_PROCESS],
            env={"PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(written) == 1


words = st.text(max_size=80)
moments = st.datetimes(datetime(1991, 8, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(words, words, st.lists(words, max_size=3), st.lists(words, max_size=3), moments)
def test_hostile_texts_make_no_broken_feed(
    title: str, html: str, authors: list[str], categories: list[str], at: datetime
) -> None:
    item = Item(
        "tag:a,2025:1v1",
        "https://a/1",
        "https://b/1",
        title,
        title,
        html,
        authors,
        categories,
        at,
        at,
    )
    feed = Feed("tag:a,2025:f", title, html, "https://a/", "https://a/f", at, [item, item])
    for one in FORMATS.values():
        raw = one.write(feed)
        assert raw == one.write(feed)
        raw.decode()
        if one.suffix == "json":
            assert len(json.loads(raw)["items"]) == 2
        elif one.suffix != "md":
            parsed = feedparser.parse(raw)
            assert not parsed.bozo, parsed.get("bozo_exception")
            assert len(parsed.entries) == 2
    ElementTree.fromstring(opml(title, at, {html: [(title, "https://a", html)]}))


def test_a_description_is_words_to_a_reader_that_takes_it_for_html() -> None:
    hostile = "<script>alert(1)</script> & more"
    at = datetime(2026, 3, 2, tzinfo=UTC)
    item = Item("tag:a,2025:1", "l", "s", "t", hostile, "<p>h</p>", [], [], at, at)
    feed = Feed("tag:a,2025:f", "T", hostile, "h", "a", at, [item])
    (rss,) = (one for one in FORMATS.values() if one.suffix == "rss")
    told = [one.text for one in ElementTree.fromstring(rss.write(feed)).iter("description")]
    assert told == ["&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"] * 2
