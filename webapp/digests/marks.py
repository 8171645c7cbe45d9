"""Matches marked in a paper's HTML, stored apart from it: every entry of the paper shares the HTML.

A mark is (piece, number, keys): the piece of HTML that is marked, which of the places where it
stands in the text, counted from 0, and the matches it is for. So marks say nothing of the tags
around them, and those that a later version of the text no longer has are left out.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from webapp.digests.scoring.terms import normalise, term
from webapp.ui.markup import render

Mark = tuple[str, int, str]

_MARK = re.compile(r'<mark data-k="([\d ]+)">(.*?)</mark>', re.DOTALL)


@lru_cache(4_000)  # the papers of a day are in many digests
def version_of(title: str, abstract: str) -> str:
    """Return a short hash of a paper's text, by which an entry knows that its own is outdated."""
    return sha256(f"{title}\n{abstract}".encode(errors="replace")).hexdigest()[:8]


def marks_in(text: str, matches: Iterable[Mapping[str, Any]], *, substring: bool) -> list[Mark]:
    """The marks of an entry's matches in a title or an abstract; `substring`: by that rule."""
    text = normalise(text)
    spans = [
        (start, end, number)
        for number, match in enumerate(matches)
        if {"title", "abstract"} & {*match["where"]}
        for start, end in term(match["keyword"], substring=substring).spans(text)
    ]
    return marks_of(render(text, spans)) if spans else []


def marks_of(html: str) -> list[Mark]:
    """The marks in what `webapp.ui.markup.render` made."""
    bare = without_marks(html)
    marks, removed = [], 0
    for mark in _MARK.finditer(html):
        keys, piece = mark.groups()
        start = mark.start() - removed
        marks.append((piece, _places(piece, bare).index(start), keys))
        removed += len(mark[0]) - len(piece)
    return marks


def without_marks(html: str) -> str:
    """Remove the marks from HTML."""
    return _MARK.sub(r"\2", html)


def with_marks(html: str, marks: Iterable[Mark]) -> str:
    """Insert marks into a paper's HTML."""
    places = []
    for piece, number, keys in marks:
        for start in _places(piece, html)[number : number + 1]:
            places.append((start, piece, keys))
    parts, end = [], 0
    for start, piece, keys in sorted(places):
        if start >= end:
            parts += [html[end:start], f'<mark data-k="{keys}">{piece}</mark>']
            end = start + len(piece)
    return "".join([*parts, html[end:]])


def _places(piece: str, html: str) -> list[int]:
    """Return the offsets of a piece in HTML, outside tags and character references."""
    pattern = rf"(?={re.escape(piece)})|<[^<>]*>|&\#?\w+;"
    return [place.start() for place in re.finditer(pattern, html) if not place[0]]
