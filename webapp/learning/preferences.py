"""Closeness of a paper to what a reader saved, and the nearest saved paper.

Pure functions: no database. A linear model gives each paper a margin; its sign says nothing, since
few examples leave nearly every unseen paper on the far side. Two readings of the margin are used.

Closeness says whether a paper is on topic. Let m be the margin above that of an average recent
paper, and M the same of saved papers that the model was not trained on (cross-validation). Alone, m
depends on how many papers were saved, and m / M on how alike they are; closeness is their geometric
mean, m / √M. Papers from CLOSE on are listed, and the others are folded.

Points order papers beside keywords: -ln of the share of recent papers that are at least as close.
One paper in a hundred earns ln 100 = 4.6, as a keyword does that is that rare.

A site has thousands of models, and a day 1,500 papers: numpy multiplies all of them by a model.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from webapp.learning.linear import Linear
from webapp.learning.numbered import (
    Vectors,
    numbered,
    numbered_vector,
    term_numbers,
    vocabulary_hash,
)
from webapp.learning.tfidf import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from webapp.learning.numbered import Floats

LEARNED = "learned:"  # begins what stands as a keyword in stored matches
SAVED = f"{LEARNED}close to what was saved"
CHOSEN = f"{LEARNED}close to what was chosen"
UNLIKE = f"{LEARNED}close to what is not for the reader"
SURE = 5  # saved papers from which an order is more than a guess
VERY_CLOSE, CLOSE = 1.0, 0.58  # closeness; chosen on May 2025 (`benchmarks.reader_days`)
LEAST_MARGIN = 0.1  # of saved papers: fewer or unlike ones give no scale
MAX_POINTS = 10.0  # of closeness: one paper in 22,000
PUSH = 10.0  # points that a paper loses if it equals one that is not for the reader
NEAR = 0.1  # cosine below which two papers share only common words
NEAR_REFUSED = 0.2  # the same for a paper that is not for the reader: what it costs must be plain
TERMS = 40  # of an example, the strongest, by which it is compared
_UNIT = 10_000  # parts of 1 in which the values of examples are stored
UNKNOWN = 0xFFFF  # a term that the vocabulary lacks


class LearnedPaper(NamedTuple):
    """A paper that a reader saved or refused. `terms` has length 1; no `arxiv_id`: not stored."""

    title: str
    arxiv_id: str
    liked: bool
    terms: Vector


def packed_examples(papers: Sequence[LearnedPaper], saved: Sequence[str] = ()) -> dict[str, Any]:
    """Pack examples to be stored: a site reads thousands of models for each day.

    `saved` are the identifiers of the papers that the reader saved, which are no news to them.

    Terms are numbered as they first come, since vocabularies change; their numbers in the present
    one stand beside them. Numbers, and values in ten-thousandths, are 16 bits each, in base64.
    """
    vocabulary: dict[str, int] = {}
    terms = [vocabulary.setdefault(t, len(vocabulary)) for paper in papers for t in paper.terms]
    values = [round(_UNIT * value) for paper in papers for value in paper.terms.values()]
    return {
        "papers": [[paper.title, paper.arxiv_id, paper.liked] for paper in papers],
        "counts": [len(paper.terms) for paper in papers],
        "saved": list(saved),
        "vocabulary": "\n".join(vocabulary),
        "numbers": _packed([term_numbers().get(term, UNKNOWN) for term in vocabulary]),
        "numbered_by": vocabulary_hash(),
        "terms": _packed(terms),
        "values": _packed(values),
    }


def _packed(numbers: Sequence[int]) -> str:
    import numpy as np  # noqa: PLC0415

    return b64encode(np.array(numbers, "<u2").tobytes()).decode()


def _unpacked(text: str) -> NDArray[np.uint16]:
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(b64decode(text), "<u2")


class Examples:
    """The papers that a reader saved, or those that they refused."""

    def __init__(self, packed: Mapping[str, Any], *, liked: bool) -> None:
        import numpy as np  # noqa: PLC0415

        numbers = _unpacked(packed["numbers"])
        if packed["numbered_by"] != vocabulary_hash():
            words = packed["vocabulary"].split("\n")
            numbers = np.array([term_numbers().get(word, UNKNOWN) for word in words], np.uint16)
        terms = numbers[_unpacked(packed["terms"])]
        counts = np.array(packed["counts"], int)
        mine = np.array([paper[2] is liked for paper in packed["papers"]], bool)
        # Of this side, by their terms.
        chosen = np.repeat(mine, counts).nonzero()[0]
        chosen = chosen[terms[chosen].argsort(kind="stable")]
        self._papers = [paper[:2] for paper in packed["papers"] if paper[2] is liked]
        self._terms = terms[chosen]
        self._values = _unpacked(packed["values"])[chosen] / _UNIT
        self._rows = np.repeat(np.cumsum(mine) - 1, counts)[chosen]
        self._known: dict[tuple[str, str], tuple[float, tuple[str, str]]] = {}

    def nearest(self, title: str, abstract: str) -> tuple[float, tuple[str, str]]:
        """The largest cosine with a paper, and the title and identifier of whose it is.

        The first of several; 0 if none shares a term. A reader's profiles ask for the same.
        """
        if (title, abstract) not in self._known:
            self._known[title, abstract] = self._nearest(title, abstract)
        return self._known[title, abstract]

    def _nearest(self, title: str, abstract: str) -> tuple[float, tuple[str, str]]:
        import numpy as np  # noqa: PLC0415

        if not self._papers:
            return 0.0, ("", "")
        numbers, values = numbered_vector(title, abstract)
        # The start and the number of the entries with each of its terms.
        begin = self._terms.searchsorted(numbers)
        count = self._terms.searchsorted(numbers, "right") - begin
        before = count.cumsum() - count
        entries = np.arange(count.sum()) + np.repeat(begin - before, count)
        parts = self._values[entries] * np.repeat(values, count)
        cosines = np.bincount(self._rows[entries], parts, len(self._papers))
        number = int(cosines.argmax())
        name, identifier = self._papers[number]
        return float(cosines[number]), (name, identifier)


@dataclass(frozen=True, repr=False)
class Learned:
    """A trained model, calibrated on recent papers."""

    model: Linear
    reference: tuple[float, ...]  # log-odds of recent papers, ascending
    margin: float  # of saved papers above the average of the reference, by cross-validation
    examples: Mapping[str, Any]  # packed
    liked: int  # papers it was learned from
    fingerprint: str
    # Of a list that closeness alone decides: what a point of a keyword adds to it. The papers that
    # such a model was learned from were chosen, not saved.
    keyword_closeness: float = 0.0

    def __repr__(self) -> str:
        """Return the fingerprint alone: writing out the weights takes longer than scoring a day."""
        return f"Learned({self.fingerprint})"

    @cached_property
    def _average(self) -> float:
        return sum(self.reference) / len(self.reference) if self.reference else 0.0

    def closeness(self, log_odds: float) -> float:
        """Return 0 for an average recent paper, and about 1 for one like the saved papers."""
        return (log_odds - self._average) / math.sqrt(max(self.margin, LEAST_MARGIN))

    @cached_property
    def saved_papers(self) -> frozenset[str]:
        """Identifiers of papers that the reader saved."""
        return frozenset(self.examples.get("saved", ()))

    def share(self, log_odds: float) -> float:
        """The share of recent papers that are less close, above 0 and below 1.

        It grows with the log-odds everywhere: linearly between two papers of the reference, and
        exponentially beyond its ends.
        """
        index, count = bisect_left(self.reference, log_odds), len(self.reference)
        if not count:
            return 1 / (1 + math.exp(-max(-500.0, min(log_odds, 500.0))))
        if index == count:
            return 1 - math.exp((self.reference[-1] - log_odds) / self._tail) / (count + 1)
        if index == 0:
            return math.exp((log_odds - self.reference[0]) / self._tail) / (count + 1)
        low, high = self.reference[index - 1], self.reference[index]
        return (index + (log_odds - low) / (high - low)) / (count + 1)

    @cached_property
    def _tail(self) -> float:
        """The mean by which the closest tenth exceeds the rest, for an exponential tail."""
        least = self.reference[int(0.9 * len(self.reference))]
        above = [value - least for value in self.reference if value > least]
        return max(sum(above) / len(above) if above else 0.0, 1e-3)

    @cached_property
    def saved(self) -> Examples:
        """The papers that it was learned from."""
        return Examples(self.examples, liked=True)

    @cached_property
    def refused(self) -> Examples:
        """The papers that are not for the reader."""
        return Examples(self.examples, liked=False)

    @cached_property
    def refuses(self) -> bool:
        """True if the examples include a paper that the reader rejected."""
        return not all(liked for _, _, liked in self.examples["papers"])

    def log_odds(self, papers: Vectors) -> Floats:
        """Logarithm of the odds that each paper is closer than others."""
        return papers.products(*numbered(self.model.weights)) + self.model.intercept

    def refusal(self, title: str, abstract: str) -> tuple[float, tuple[str, str]]:
        """Return the cosine with a refused paper, and its title and identifier.

        0 unless it is nearer than any saved paper. Closeness is less by as much.
        """
        if self.refuses:
            cosine, refused = self.refused.nearest(title, abstract)
            if cosine >= NEAR_REFUSED and cosine >= self.saved.nearest(title, abstract)[0]:
                return cosine, refused
        return 0.0, ("", "")


def points(share: float) -> float:
    """Points for being closer than a share of recent papers, rounded to tenths."""
    return min(MAX_POINTS, round(-math.log1p(-share), 1)) if share < 1 else MAX_POINTS


def closeness_in_words(closeness: float) -> str:
    """Return "very close", "close" or "further"."""
    if closeness >= VERY_CLOSE:
        return "very close"
    return "close" if closeness >= CLOSE else "further"
