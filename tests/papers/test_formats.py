from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay_common.text import one_line
from tests.papers.conftest import WEDNESDAY
from tests.processes import ROOT
from tests.servers import arxiv_xml, hostile
from tests.servers.corpus import Announcement, Corpus, Eprint
from webapp.papers.entries import Batch, Entry, paragraph
from webapp.papers.formats import BrokenFeedError, error_title, parse_feed
from webapp.papers.models import AnnounceType
from webapp.ui.markup import without_tex

FEED = Corpus(WEDNESDAY).feed("cs.CL", WEDNESDAY)


def read(text: str | bytes) -> Batch:
    body = text.encode() if isinstance(text, str) else text
    return parse_feed(body, "cs.CL", date(2020, 1, 1))


@pytest.mark.parametrize("write", [arxiv_xml.rss, arxiv_xml.atom])
def test_a_day_is_read_whole(write: Callable[..., str]) -> None:
    batch = read(write("cs.CL", WEDNESDAY, FEED))
    assert batch.date == WEDNESDAY
    assert batch.problems == ()
    assert len(batch.entries) == len(FEED)
    for (kind, paper), entry in zip(FEED, batch.entries, strict=True):
        assert (entry.arxiv_id, entry.version) == (paper.arxiv_id, paper.version)
        assert (entry.type, entry.title) == (kind, paper.title)
        assert entry.abstract == paper.abstract.replace(r"\textbf{half}", "half")
        assert entry.abstract.count("\n") == 2
        assert [(a.name, a.affiliation) for a in entry.authors] == list(paper.authors)
        assert (entry.categories, entry.license) == (paper.categories, paper.license)
        assert (entry.doi, entry.journal_ref) == (paper.doi, paper.journal_ref)


def test_the_sample_is_a_feed() -> None:
    batch = parse_feed((ROOT / "sample/rss_2025-12-18.xml").read_bytes(), "cs.AI", WEDNESDAY)
    assert (batch.date, len(batch.entries), batch.problems) == (date(2025, 12, 18), 36, ())


def test_no_items_is_no_error() -> None:
    assert read(arxiv_xml.rss("cs.CL", WEDNESDAY, [])).entries == ()
    assert read(arxiv_xml.atom("cs.CL", WEDNESDAY, [])).entries == ()


def test_bad_entries_cost_the_others_nothing() -> None:
    batch = read(hostile.hostile_rss("cs.CL", WEDNESDAY, FEED))
    read_ids = {entry.arxiv_id for entry in batch.entries}
    assert {paper.arxiv_id for _, paper in FEED} | hostile.KEPT == read_ids
    reasons = {
        problem.item.removeprefix("oai:arXiv.org:"): problem.reason for problem in batch.problems
    }
    assert len(reasons) == hostile.REFUSED + 1
    assert reasons["2601.00011v1"] == "its announce type is 'resurrected'"
    assert "identifier" in reasons["not-an-identifierv1"]
    assert reasons["2601.00012v1"] == "it has no title"
    assert reasons["2601.00013v1"] == "it has no abstract"
    assert reasons["2601.00014v1"] == "its title has 5000 characters"
    assert "not well-formed" in reasons["2601.00015"]
    assert "not well-formed" in reasons["2601.00017"]
    assert "Windows-1252" in reasons[hostile.LATIN_ID]
    by_id = {entry.arxiv_id: entry for entry in batch.entries}
    assert len(by_id[hostile.MANY_AUTHORS_ID].authors) == 1000
    assert by_id[hostile.LATIN_ID].title == "Déjà vu"
    assert by_id[hostile.AFFILIATIONS_ID].authors[0].affiliation.endswith("(North, 2), Harbour")
    assert by_id[hostile.SCRIPT_ID].title.startswith("<script>alert(1)</script>")
    assert by_id[hostile.OLD_ID].version == 2


def test_a_feed_in_latin_1_that_says_so_is_read() -> None:
    text = arxiv_xml.rss("cs.CL", WEDNESDAY, FEED).replace("UTF-8", "ISO-8859-1")
    batch = read(text.encode("iso-8859-1", "xmlcharrefreplace"))
    assert (len(batch.entries), batch.problems) == (len(FEED), ())
    assert batch.entries == read(arxiv_xml.rss("cs.CL", WEDNESDAY, FEED)).entries


def test_a_byte_order_mark_is_believed() -> None:
    text = arxiv_xml.rss("cs.CL", WEDNESDAY, FEED)
    assert read(text.encode("utf-8-sig")).entries == read(text).entries
    assert read(text.replace("UTF-8", "UTF-16").encode("utf-16")).entries == read(text).entries


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not XML"),
        (b"Rate exceeded.", "not XML"),
        (b"<!doctype html><title>Back soon</title><br>", "neither RSS nor Atom"),
        (b"<html><body>Back soon</body></html>", "neither RSS nor Atom"),
        (b"<?xml version='1.0' encoding='klingon'?><rss></rss>", "unknown encoding"),
        (b"\xff\xfe<\x00r", "not valid UTF-16"),
        (
            arxiv_xml.error("Feed error for query: cs.XX", "").encode(),
            "Feed error for query: cs.XX",
        ),
        (
            b'<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><rss><channel>&b;</channel></rss>',
            "entities of its own",
        ),
        (b"<rss><channel><title>a & b</title></channel></rss>", "outside its entries"),
    ],
)
def test_what_is_no_feed_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(BrokenFeedError, match=reason):
        read(body)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_feed_that_is_cut_off_is_broken_wherever_it_ends(share: float) -> None:
    body = arxiv_xml.rss("cs.CL", WEDNESDAY, FEED).encode()
    with pytest.raises(BrokenFeedError):
        read(body[: int(len(body) * share)])


def test_a_feed_of_nothing_but_bad_entries_is_broken() -> None:
    feed = [("resurrected", paper) for _, paper in FEED]
    with pytest.raises(BrokenFeedError, match="none of its entries can be read"):
        read(arxiv_xml.rss("cs.CL", WEDNESDAY, feed))


def test_of_two_announcements_of_a_paper_the_weightier_stands() -> None:
    paper = FEED[0][1]
    twice = [("cross", paper), ("new", paper), ("replace", replace(paper, version=2))]
    entries = read(arxiv_xml.rss("cs.CL", WEDNESDAY, twice)).entries
    assert [(entry.type, entry.version) for entry in entries] == [(AnnounceType.NEW, 1)]


def test_missing_elements_are_found_elsewhere() -> None:
    text = arxiv_xml.rss("cs.CL", WEDNESDAY, FEED[:1])
    kind, paper = FEED[0]
    without = text.replace(f"<arxiv:announce_type>{kind}</arxiv:announce_type>", "")
    assert read(without).entries == read(text).entries
    guid = f'<guid isPermaLink="false">oai:arXiv.org:{paper.arxiv_id}v1</guid>'
    assert guid in text
    assert read(text.replace(guid, "")).entries == read(text).entries
    bare = text.replace(guid, "").replace(f"arXiv:{paper.arxiv_id}v1 ", "")
    assert read(bare).entries == read(text).entries  # by its link, which has no version
    for part in ("dc:creator", "category"):
        start, end = text.index(f"<{part}>"), text.rindex(f"</{part}>") + len(part) + 3
        entry = read(text[:start] + text[end:]).entries[0]
        assert entry.arxiv_id == paper.arxiv_id
    no_dates = text.replace("pubDate", "oldDate").replace("lastBuildDate", "oldBuildDate")
    assert read(no_dates).date == date(2020, 1, 1)


def test_each_of_several_creators_is_an_author() -> None:
    text = arxiv_xml.rss("cs.CL", WEDNESDAY, FEED)
    creator = text[text.index("<dc:creator>") : text.index("</dc:creator>") + len("</dc:creator>")]
    two = "<dc:creator>Ada Cole (Sea)</dc:creator><dc:creator>Ben Dale</dc:creator>"
    entry = read(text.replace(creator, two, 1)).entries[0]
    assert [(author.name, author.affiliation) for author in entry.authors] == [
        ("Ada Cole", "Sea"),
        ("Ben Dale", ""),
    ]


def test_what_an_error_says() -> None:
    assert error_title(arxiv_xml.error("Feed error for query: x", "").encode()) == (
        "Feed error for query: x"
    )
    assert error_title(b"<title>Fine</title>") == ""


# Letters of every plane, markup and TeX. XML itself has no control characters, and what looks
# like UTF-8 read as Latin-1 ("Ã©") is put right by feedparser: its first letters are left out.
_MOJIBAKE = "".join(map(chr, range(0xC2, 0xF5)))
_TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cc", "Cs", "Cn"), exclude_characters=_MOJIBAKE),
        st.sampled_from(list("<>&;$\\{}()'\"\n ")),
    ),
    min_size=1,
    max_size=60,
)


@st.composite
def eprints(draw: st.DrawFn) -> Eprint:
    return Eprint(
        arxiv_id=draw(st.from_regex(r"\A(1[5-9]|[2-4][0-9])(0[1-9]|1[0-2])\.[0-9]{5}\Z")),
        version=draw(st.integers(1, 99)),
        title=draw(_TEXT),
        abstract=draw(_TEXT),
        authors=(("Ada Quill", ""),),
        categories=("cs.CL",),
        submitted=datetime(2026, 1, 1),  # noqa: DTZ001 a feed does not say
        updated=datetime(2026, 1, 1),  # noqa: DTZ001
        doi=draw(st.one_of(st.just(""), _TEXT)),
    )


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(AnnounceType.values), eprints()), max_size=4),
    st.sampled_from([arxiv_xml.rss, arxiv_xml.atom]),
)
def test_any_words_survive_the_way(feed: list[Announcement], write: Callable[..., str]) -> None:
    expected = {}
    for kind, paper in feed:
        if one_line(paper.title) and paragraph(paper.abstract):
            known = expected.get(paper.arxiv_id)
            weight = (AnnounceType(kind).precedence, -paper.version)
            if known is None or weight < known[0]:
                expected[paper.arxiv_id] = (weight, paper)
    try:
        batch = read(write("cs.CL", WEDNESDAY, feed))
    except BrokenFeedError:
        assert not expected
        return
    assert {entry.arxiv_id: entry.title for entry in batch.entries} == {
        name: without_tex(one_line(paper.title)) for name, (_, paper) in expected.items()
    }
    assert {entry.arxiv_id: entry.abstract for entry in batch.entries} == {
        name: without_tex(paragraph(paper.abstract)) for name, (_, paper) in expected.items()
    }
    assert {e.arxiv_id: e.doi for e in batch.entries} == {
        name: one_line(paper.doi)[:255] for name, (_, paper) in expected.items()
    }


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.sampled_from([arxiv_xml.rss, arxiv_xml.atom]))
def test_damaged_bytes_are_read_or_refused(
    chance: random.Random, write: Callable[..., str]
) -> None:
    body = bytearray(write("cs.CL", WEDNESDAY, FEED[:3]).encode())
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(body))
        damage = chance.choice((b"", b"<", b"&", b"]]>", b"\x00", b"\xff", b"</item>", b"<item>"))
        body[at : at + chance.choice((0, 1, 40))] = damage
    try:
        batch = read(bytes(body))
    except BrokenFeedError:
        return
    assert all(isinstance(entry, Entry) for entry in batch.entries)


@given(st.binary(max_size=400))
def test_noise_is_refused(body: bytes) -> None:
    with pytest.raises(BrokenFeedError):
        read(body)
