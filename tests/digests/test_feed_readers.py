"""Our feeds as readers of feeds take them: authors, titles, links and ids, over HTTP.

lemon24/reader reads them itself. The rules of two others, which are not written in Python, are
stated here as their source has them:

- FreshRSS (`app/Models/Feed.php`, `app/Models/Entry.php::_authors`, 1.25) joins the author elements
  of an entry by "; ", and takes a text apart at semicolons where it has one, else at commas.
- Miniflux (`internal/reader/rss/adapter.go::findEntryAuthor`, 2.2) takes `dc:creator` of RSS as one
  text, of which Go's decoder keeps the last where there are several; of Atom it joins the names,
  sorted (`internal/reader/atom`), by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2
import pytest
from reader import make_reader

from tests.digests.days import MONDAY, announce, paper, profile
from tests.processes import PATIENCE
from webapp.digests.build import build
from webapp.papers.models import Paper

DC, ATOM = "{http://purl.org/dc/elements/1.1/}", "{http://www.w3.org/2005/Atom}"
NAMES = ["Łukasz Żak", "María de los Ángeles Gómez", "中文 作者", "Ada Cole"]
# A comma or bracket of a name would be taken for the end of it.
ODD = ["Ada B. Cole, Jr.", "Deep & Co. (Team A, B)", "Eve Roe; PhD"]
SHOWN = ["Ada B. Cole Jr.", "Deep & Co. Team A B", "Eve Roe PhD"]


@pytest.fixture
def papers(transactional_db: None) -> list[Paper]:
    """Two papers of a profile that everybody may read, with authors whom feeds get wrong."""
    profile()
    made = [
        paper(1, "Sparse attention: $O(n)$ & <fast>", authors=[{"name": one} for one in NAMES]),
        paper(2, "Attention again", authors=[{"name": one} for one in ODD]),
    ]
    announce(MONDAY, *made)
    build([MONDAY])
    return made


@pytest.mark.parametrize("suffix", ["rss", "atom"])
def test_reader_has_authors_titles_links_and_ids(
    papers: list[Paper], live_server: Any, tmp_path: Path, suffix: str
) -> None:
    address = f"{live_server.url}/p/mine.{suffix}"
    with make_reader(str(tmp_path / "reader.sqlite")) as reader:
        reader.add_feed(address)
        reader.update_feed(address)
        assert reader.get_feed(address).title == "Mine"
        entries = {entry.link: entry for entry in reader.get_entries()}
        assert entries.keys() == {f"{live_server.url}/papers/{one.arxiv_id}/" for one in papers}
        first, odd = (entries[f"{live_server.url}/papers/{one.arxiv_id}/"] for one in papers)
        assert first.title == "Sparse attention: $O(n)$ & <fast>"
        assert re.fullmatch(r"tag:[^:]+,2025:2603\.00001v1", first.id)
        names = [[author.name for author in entry.authors] for entry in (first, odd)]
        # Of Atom it keeps one author of an entry, as feedparser names one in `author_detail`.
        assert names == ([NAMES, SHOWN] if suffix == "rss" else [NAMES[-1:], SHOWN[-1:]])
        reader.update_feed(address)
        assert reader.get_entry_counts().total == 2  # an id stays


def freshrss(authors: list[str]) -> list[str]:
    text = "; ".join(authors)
    return [one for one in re.split(r"\s*;\s*" if ";" in text else r"\s*,\s*", text) if one]


def miniflux_rss(creators: list[str]) -> list[str]:
    return creators[-1].split(", ")


def miniflux_atom(authors: list[str]) -> list[str]:
    return ", ".join(sorted(set(authors))).split(", ")


Rule = Callable[[list[str]], list[str]]
RULES: dict[str, tuple[str, Rule, Rule]] = {  # the feed, what a reader makes, in which order
    "FreshRSS of RSS": ("rss", freshrss, list),
    "FreshRSS of Atom": ("atom", freshrss, list),
    "Miniflux of RSS": ("rss", miniflux_rss, list),
    "Miniflux of Atom": ("atom", miniflux_atom, sorted),
}
PLACES = {"rss": ("item", f"{DC}creator"), "atom": (f"{ATOM}entry", f"{ATOM}author/{ATOM}name")}


@pytest.mark.usefixtures("papers")
@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_other_readers_find_every_author(live_server: Any, rule: str) -> None:
    suffix, read, order = RULES[rule]
    entry, author = PLACES[suffix]
    answer = httpx2.get(f"{live_server.url}/p/mine.{suffix}", timeout=PATIENCE)
    written = ElementTree.fromstring(answer.content)
    found = [
        read([one.text or "" for one in entry.findall(author)]) for entry in written.iter(entry)
    ]
    assert sorted(found) == sorted([order(NAMES), order(SHOWN)])
