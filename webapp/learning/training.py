"""Training of a reader's preferences: a linear model over TF-IDF, from what they saved.

A support vector machine spreads its weight over all words of a few papers. Terms that several of
them share and that others lack, such as "KV cache", say more: the SHARED strongest count extra, by
the square of what they tell apart (the Kullback-Leibler divergence of the papers with the term,
among those saved and among all).

"Not for me" is a negative example with three times the weight of one of the recent papers that
stand for everything else; a paper that was only read counts a third of a saved one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from webapp.learning.linear import Linear, pruned
from webapp.learning.numbered import Vectors, numbered, numbered_vector, paper_vector, terms_of
from webapp.learning.preferences import TERMS as COMPARED
from webapp.learning.preferences import Learned, LearnedPaper, packed_examples
from webapp.learning.svm import Example, fit
from webapp.learning.tfidf import Vector, vocabulary
from webapp.papers.models import Paper

if TYPE_CHECKING:
    from webapp.learning.numbered import Numbered

FORMAT = 5  # part of fingerprints: raise it when models are trained or stored differently
LEAST = 1  # liked papers before anything is learned: a guess until there are `preferences.SURE`
READ = 1 / 3  # weight of a paper that was only read
LEFT = 3.0  # weight of one that is not for the reader
BACKGROUND, RECENT = 400, 4_000  # papers that stand for the rest, drawn from so many recent ones
CALIBRATED = 1_000  # further ones, among which a paper's closeness is a share
NAMED = 300  # examples that may be named as the nearest, the latest
FOLDS = 5  # of cross-validation
CROSS_VALIDATED = 100  # saved papers at most, for their margin
SHARED, EXTRA = 5, 2.0  # terms that saved papers share, and their weight; chosen on May 2025
TERMS = 1_000  # weights stored, the largest: the same order as all, in a tenth of the time
Text = tuple[str, str]  # title and abstract


@dataclass(frozen=True)
class Signals:
    """A reader's feedback: weights of papers, and texts of liked papers that this site lacks."""

    weights: dict[int, float]  # by primary key; negative for a paper that is not for the reader
    texts: tuple[tuple[str, str], ...]  # (title, abstract)
    zotero: tuple[tuple[str, str, float], ...] = ()  # (title, abstract, weight)

    def liking(self, papers: Iterable[Paper], texts: Mapping[str, str]) -> Signals:
        """Return this feedback with further liked papers, and abstracts by title."""
        weights = self.weights | {paper.pk: 1.0 for paper in papers}
        return replace(self, weights=weights, texts=tuple({**dict(self.texts), **texts}.items()))

    @property
    def count(self) -> int:
        """Papers that were kept, not only read."""
        saved = sum(weight > READ for weight in self.weights.values())
        return saved + len(self.texts) + len(self.zotero)

    @property
    def disliked(self) -> int:
        """Papers that are not for the reader."""
        return sum(weight < 0 for weight in self.weights.values())

    @property
    def fingerprint(self) -> str:
        """Equal for equal signals, and so for equal models."""
        whole: tuple[object, ...] = FORMAT, sorted(self.weights.items()), sorted(self.texts)
        whole += (sorted(self.zotero),) if self.zotero else ()
        return sha256(repr(whole).encode()).hexdigest()


def train(feedback: Signals) -> Learned | None:
    """Train a model of feedback, not stored.

    None for too few liked papers, or none to compare with.
    """
    if feedback.count < LEAST:
        return None
    papers = Paper.objects.filter(pk__in=feedback.weights)
    columns = papers.values_list("pk", "arxiv_id", "title", "abstract")
    texts = {key: (name, title, abstract) for key, name, title, abstract in columns}
    # In an order that does not depend on when each was saved: the same feedback, the same model.
    ordered = sorted(feedback.weights.items(), reverse=True)
    # What is known of each liked or refused paper, its text, and its weight.
    rated = [(*texts[key], weight) for key, weight in ordered if key in texts]
    more = [("", *text, 1.0) for text in sorted(feedback.texts)]
    more += [("", *item) for item in sorted(feedback.zotero)]
    examples = [
        Example(numbered_vector(title, abstract), weight > 0, abs(weight))
        for _, title, abstract, weight in [*rated, *more]
    ]
    saved = [name for name, _, _, weight in rated if weight > READ]
    background, reference = _others(set(feedback.weights))
    if not background and all(example.liked for example in examples):
        return None
    others = [Example(numbered_vector(*text), False) for text in background]
    model = _fit(examples, others)
    compared = Vectors.of(reference or background)
    named = [
        LearnedPaper(title, identifier, weight > 0, _strongest(title, abstract))
        for identifier, title, abstract, weight in [*rated, *more][:NAMED]
    ]
    learned = Learned(
        model,
        (),
        _saved_margin(examples, others, compared),
        packed_examples(named, saved),
        len(rated) - feedback.disliked + len(more),
        feedback.fingerprint,
    )
    odds = learned.log_odds(compared).round(4).tolist()
    return replace(learned, reference=tuple(sorted(odds)))


def _fit(examples: list[Example], others: list[Example]) -> Linear:
    """Return a model of a reader's papers, apart from others."""
    model = pruned(fit([*examples, *others]), TERMS)
    saved = [example.vector for example in examples if example.liked]
    extra = _shared_terms(saved)
    weights = {
        term: round(model.weights.get(term, 0.0) + extra.get(term, 0.0), 4)
        for term in {**model.weights, **extra}
    }
    return Linear(model.intercept, weights)


def _shared_terms(papers: list[Numbered]) -> Vector:
    """Return the extra weight of the terms that tell most of several papers."""
    counts = Counter(term for numbers, _ in papers for term in terms_of(numbers))
    divergence = {}
    for term, count in counts.items():
        if count > 1:
            everywhere = math.exp(1 - vocabulary()[term])  # the share of all papers
            here = (count + everywhere) / (len(papers) + 1)
            divergence[term] = here * math.log(here / everywhere) + (1 - here) * math.log(
                (1 - here) / (1 - everywhere)
            )
    strongest = sorted(divergence, key=lambda term: (-divergence[term], term))[:SHARED]
    return {term: EXTRA * divergence[term] ** 2 / vocabulary()[term] for term in strongest}


def _saved_margin(examples: list[Example], others: list[Example], compared: Vectors) -> float:
    """Return the mean log-odds of saved papers left out of training, above those of `compared`."""
    liked = [example for example in examples if example.liked][:CROSS_VALIDATED]
    refused = [example for example in examples if not example.liked]
    margins: list[float] = []
    for fold in range(min(FOLDS, len(liked))):
        rest = [example for number, example in enumerate(liked) if number % FOLDS != fold]
        if not rest or not (others or refused):
            continue
        weights = numbered(_fit([*rest, *refused], others).weights)
        average = float(compared.products(*weights).mean())
        left_out = Vectors.of_numbered([example.vector for example in liked[fold::FOLDS]])
        margins += (left_out.products(*weights) - average).tolist()
    return round(sum(margins) / len(margins), 4) if margins else 0.0


@lru_cache(2_000)  # a star adds one to what a reader had
def _strongest(title: str, abstract: str) -> Vector:
    """The strongest terms of a paper, as a vector of length 1."""
    vector = paper_vector(title, abstract)
    terms = sorted(vector.items(), key=lambda item: (-item[1], item[0]))[:COMPARED]
    length = math.hypot(*(value for _, value in terms)) or 1.0
    return {term: round(value / length, 4) for term, value in terms}


def _others(excluded: set[int]) -> tuple[list[Text], list[Text]]:
    """Recent papers without feedback: those to learn from, and those to calibrate by.

    They differ, since a model is surest of what it has seen. A paper is drawn by a hash of its
    identifier: nearly the same for every reader, on every site and after every star, so that a
    worker has their vectors.
    """
    recent = Paper.objects.order_by("-pk").values_list("pk", "arxiv_id")[:RECENT]
    mixed = sorted(recent, key=lambda keys: sha256(keys[1].encode()).digest())
    drawn = [key for key, _ in mixed if key not in excluded][: BACKGROUND + CALIBRATED]
    rows = Paper.objects.filter(pk__in=drawn).values_list("pk", "title", "abstract")
    by_key = {key: (title, abstract) for key, title, abstract in rows}
    texts = [by_key[key] for key in drawn if key in by_key]
    half = min(BACKGROUND, (len(texts) + 1) // 2)
    return texts[:half], texts[half:]
