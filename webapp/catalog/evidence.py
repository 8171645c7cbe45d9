"""Relation of a paper to a method, by identifiers, phrases and a linear model, with evidence.

No database: `manage.py link_papers --input` and the site ask the same function.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from methods import registry
from methods.spec import Method
from webapp.catalog import phrases
from webapp.claims.grounding import GroundTruth
from webapp.learning import linear, tfidf

USES = 0.12  # below it, a paper that names the method only mentions it
NAMED = 1.5  # weight of the phrases from which a paper names the method
SHOWN = 4  # pieces of evidence that are kept, and terms that are looked at
ANSWERED = 4.0  # what a model's answer with a grounded quote adds to the log-odds: it overturns


@dataclass(frozen=True)
class Link:
    """A paper's relation to a method: source, about, uses or mentions."""

    method: str
    relation: str
    score: float  # probability that the paper is about it
    evidence: list[dict[str, Any]] = field(default_factory=list)  # words, place, weight


@dataclass(frozen=True)
class RelationAnswer:
    """A relation that a summary model answered, with its quote."""

    method: str
    relation: str
    quote: str

    def log_odds(self, truth: GroundTruth) -> float:
        """Return the answer's contribution to the log-odds; 0 if its quote is not in the text."""
        if not truth.holds_quote(self.quote):
            return 0.0
        return ANSWERED if self.relation == "about" else -ANSWERED


def links(
    arxiv_id: str,
    title: str,
    abstract: str,
    answers: tuple[RelationAnswer, ...] = (),
    text: str = "",
) -> list[Link]:
    """Return the methods a paper is related to, in the registry's order.

    `text` is the rest of the paper, which the answers may quote.
    """
    truth = GroundTruth(f"{title}\n{abstract}\n{text}") if answers else None
    grounded = {answer: added for answer in answers if truth and (added := answer.log_odds(truth))}
    vector = tfidf.vector(title, abstract)
    paper = arxiv_id, title, abstract
    linked = (_link(method, paper, vector, grounded) for method in registry.all_methods())
    return [link for link in linked if link]


def _link(
    method: Method,
    paper: tuple[str, str, str],
    vector: tfidf.Vector,
    answers: Mapping[RelationAnswer, float],
) -> Link | None:
    arxiv_id, title, abstract = paper
    roles = {paper.arxiv_id: paper.role for paper in method.papers}
    if roles.get(arxiv_id) == "source":
        return Link(method.slug, "source", 1.0, [_evidence(arxiv_id, "identifier", 0.0)])
    named = phrases.find(method.family, title, abstract)
    weights = phrases.summary(named)
    evidence = [_evidence(phrase.words, phrase.place, phrase.weight) for phrase in named]
    model = linear.models().get(method.slug)
    for_it, against = sum(weights[:3]), weights[3]
    if model:
        odds = model.with_phrases(vector, weights)
        terms = [part for part in model.parts(vector) if part[1] > 0][:SHOWN]
        evidence += [_evidence(term, "terms", model.combination[1] * part) for term, part in terms]
    else:
        odds = for_it - against - 4.0
    for answer, added in answers.items():
        if answer.method == method.slug:
            odds += added
            evidence.append(_evidence(answer.quote, "answer", added))
    if (identifier := _named(method, arxiv_id, f"{title} {abstract}")) is not None:
        evidence.insert(0, identifier)
    score = linear.probability(odds)
    # The terms that its definition requires must be there, whatever the other words.
    required = method.family.required
    has_required = not required or phrases.pattern(required).search(f"{title}\n{abstract}")
    agreed = any(reply.method == method.slug and added > 0 for reply, added in answers.items())
    is_sure = bool(has_required) and (agreed or not method.family.needs_answer)
    is_about = is_sure and score >= method.family.threshold
    relation = _relation(score, is_about, for_it, identifier is not None)
    if method.proposed_by(arxiv_id):  # a mechanism that is carried here: no words need to tell
        relation = "about"
    if relation is None:
        return None
    evidence.sort(key=lambda piece: (piece["place"] != "answer", -abs(piece["weight"])))
    return Link(method.slug, relation, round(score, 3), evidence[:SHOWN])


def _relation(score: float, is_about: bool, phrases_for: float, is_named: bool) -> str | None:
    if is_about:
        return "about"
    if is_named or (phrases_for >= NAMED and score >= USES):
        return "uses"
    return "mentions" if phrases_for >= NAMED else None


def _named(method: Method, arxiv_id: str, text: str) -> dict[str, Any] | None:
    """The identifier by which a paper is one that the method names, or cites one."""
    if arxiv_id in {paper.arxiv_id for paper in method.papers}:
        return _evidence(arxiv_id, "identifier", NAMED)
    cited = _cited(tuple(paper.arxiv_id for paper in method.papers)).search(text)
    return _evidence(cited[0], "identifier", NAMED) if cited else None


@cache
def _cited(ids: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![\d.])(?:{'|'.join(map(re.escape, ids)) or '(?!)'})(?!\d)")


def _evidence(phrase: str, place: str, weight: float) -> dict[str, Any]:
    return {"words": phrase[:200], "place": place, "weight": round(weight, 2)}
