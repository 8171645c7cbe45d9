"""A search as the profile that keeps what the search finds."""

from __future__ import annotations

from typing import Any

from webapp.digests.models import Profile
from webapp.papers.queries import categories
from webapp.papers.search import parse
from webapp.papers.search.query import Term, category_word


def initial_of_search(q: str, category: str) -> dict[str, Any]:
    """What the form of a new profile holds for a search.

    Each term is a keyword of one point without a title bonus, and the minimum score is their
    number: a paper stands in the digest when it holds them all, as in the search.
    """
    terms = parse(q[:400]).terms
    wanted = [_keyword(term) for term in terms if not term.exclude and term.column != "categories"]
    known = {category_word(name): name for name in categories()}
    asked = [known[term.words[0]] for term in terms if _is_known(term, known)]
    return {
        "name": " ".join(q.split())[:80],
        "categories": " ".join([category] if category else asked or known.values()),
        "keywords": "\n".join(f"{text} ; 1 ; 0" for text in wanted),
        "exclude": "\n".join(_keyword(term) for term in terms if term.exclude),
        "matching": Profile.Matching.TOKEN,
        "min_score": len(wanted),
    }


def _is_known(term: Term, known: dict[str, str]) -> bool:
    return term.column == "categories" and not term.exclude and term.words[0] in known


def _keyword(term: Term) -> str:
    """A term as a profile writes it: `author:jane doe`, `quant*`, `sparse attention`."""
    text = " ".join(term.words)
    if term.column == "authors":
        return f"author:{text}"
    return f"{text}*" if term.prefix else text
