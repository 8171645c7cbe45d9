"""The one comma-joined dc:creator of arXiv's feeds, taken apart."""

from __future__ import annotations

import re

from webapp.papers.entries import Author, one_line

_SUFFIX = re.compile(r"(?:Jr|Sr|II|III|IV|V)\.?")


def parse_authors(text: str) -> tuple[Author, ...]:
    """The authors in `A. Bee (Sea, Dee), E. Eff`: affiliations hold commas and parentheses.

    Where parentheses do not pair up they are taken for letters: better a stray parenthesis in a
    name than every author after it lost in an affiliation.
    """
    text = one_line(text)
    authors: list[Author] = []
    for part in _split(text) or text.split(","):
        author = _author(part.strip())
        if author is None:
            continue
        if authors and not author.affiliation and _SUFFIX.fullmatch(author.name):
            last = authors.pop()
            author = Author(f"{last.name}, {author.name}", last.affiliation)
        authors.append(author)
    return tuple(authors)


def _split(text: str) -> list[str] | None:
    """`text` at its commas outside parentheses; None where parentheses do not pair up."""
    parts, start, depth = [], 0, 0
    for at, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                return None
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if depth:
        return None
    return [*parts, text[start:]]


def _author(part: str) -> Author | None:
    name, opened, rest = part.partition(" (")
    if opened and rest.endswith(")") and name:
        return Author(name.strip(), rest[:-1].strip())
    if part.startswith("(") and part.endswith(")"):  # "(the Lantern Collaboration)"
        part = part[1:-1].strip()
    return Author(part) if part else None
