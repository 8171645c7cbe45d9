"""The order of search results: the title above the abstract, whole phrases above words.

Computed from the papers' own texts, so that it is the same on every database. All candidates hold
every term, so how rare a term is does not tell them apart; where and how densely it stands does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from webapp.papers.models import Paper
from webapp.papers.search.query import Term, words_of

IN_TITLE, IN_AUTHORS, IN_ABSTRACT = 3.0, 2.0, 1.0
TITLE_SHARE = 3.0  # of a title that is nothing but the query
TITLE_PHRASE, ABSTRACT_PHRASE = 3.0, 1.0
SATURATION = 1.5  # mentions in the abstract after which more count little (BM25's k1)
RECENT, HALF_LIFE = 0.5, 365.0  # points for a paper of today; days after which half are left
# They stand in every paper and say nothing of it.
STOP_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "by", "for", "from", "in", "is", "of", "on"}
    | {"or", "the", "to", "towards", "via", "with"}
)
_ENDINGS = re.compile(r"(?:ization|isation|ations?|ings?|ized?|ised?|ers?|ed|es|ly|s|e|y)$")


def by_relevance(papers: Iterable[Paper], terms: Sequence[Term], today: date) -> list[Paper]:
    """The papers, the most relevant first; equals by day announced, then by identifier."""
    wanted = [term for term in terms if not term.exclude and term.column != "categories"]
    scorer = _Scorer(wanted)
    ranked = [
        (-scorer.score(paper) - _recency(paper, today), -_ordinal(paper), paper.arxiv_id, paper)
        for paper in papers
    ]
    return [paper for *_, paper in sorted(ranked, key=lambda row: row[:3])]


class _Scorer:
    """Points of a paper for a query's terms."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = [
            (term, [pattern(words, prefix=term.prefix) for words in term.spellings()])
            for term in terms
        ]
        self._weights = [weight(term) for term in terms]
        self._phrase = _phrase(terms)

    def score(self, paper: Paper) -> float:
        """Points for where the terms stand."""
        title, abstract = (" ".join(words_of(text)) for text in (paper.title, paper.abstract))
        authors = " ".join(words_of(" ".join(author["name"] for author in paper.authors)))
        points = covered = 0.0
        for (term, patterns), weight in zip(self._terms, self._weights, strict=True):
            mentions = {
                "title": sum(len(pattern.findall(title)) for pattern in patterns),
                "abstract": sum(len(pattern.findall(abstract)) for pattern in patterns),
                "authors": sum(len(pattern.findall(authors)) for pattern in patterns),
            }
            if term.column:
                mentions = {name: n * (name == term.column) for name, n in mentions.items()}
            points += weight * IN_TITLE * (mentions["title"] > 0)
            points += weight * IN_AUTHORS * (mentions["authors"] > 0)
            frequency = mentions["abstract"]
            points += weight * IN_ABSTRACT * frequency / (frequency + SATURATION)
            covered += len(term.words) * (mentions["title"] > 0)
        points += TITLE_SHARE * min(covered / max(len(title.split()), 1), 1.0)
        if self._phrase:
            points += TITLE_PHRASE * (self._phrase.search(title) is not None)
            points += ABSTRACT_PHRASE * (self._phrase.search(abstract) is not None)
        return points


def pattern(words: Sequence[str], *, prefix: bool) -> re.Pattern[str]:
    """Finds the words one after the other in a folded text, with their inflections."""
    *first, last = words
    stems = [rf"{re.escape(_stem(word))}\w{{0,6}}" for word in first]
    ending = r"\w*" if prefix else r"\w{0,6}"
    stems.append(re.escape(last if prefix else _stem(last)) + ending)
    return re.compile(r"\b" + " ".join(stems) + r"\b")


def _phrase(terms: Sequence[Term]) -> re.Pattern[str] | None:
    """Finds all words of the query one after the other; None for a single word."""
    words = [word for term in terms if term.column in {"", "title"} for word in term.words]
    return pattern(words, prefix=bool(terms) and terms[-1].prefix) if len(words) > 1 else None


def _stem(word: str) -> str:
    """The word without its ending, at least three letters of it."""
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= 3 else word


def weight(term: Term) -> float:
    """What a term counts: little where it is nothing but small words."""
    return 0.1 if all(word in STOP_WORDS for word in term.words) else 1.0


def _recency(paper: Paper, today: date) -> float:
    if paper.announced_on is None:
        return 0.0
    age = max((today - paper.announced_on).days, 0)
    return RECENT * float(0.5 ** (age / HALF_LIFE))


def _ordinal(paper: Paper) -> int:
    return paper.announced_on.toordinal() if paper.announced_on else 0
