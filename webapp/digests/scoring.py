"""Scores a reader can audit. Pure functions: no database, no Django.

    score = Σ weight · [keyword in title or abstract] + Σ title_bonus · [keyword in title]

Profiles share their keywords: each is sought once in a paper, for all profiles together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from operator import attrgetter
from typing import Literal, NamedTuple

from webapp.digests.finders import finders
from webapp.digests.patterns import Kind, Term, normalise, term

Place = Literal["title", "abstract"]
_by_score = attrgetter("score")
_UNIT = 1_000_000  # points are counted in millionths: sums are exact, in whatever order
_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Keyword:
    """What to look for and what it earns."""

    text: str
    weight: float = 1.0
    title_bonus: float = 0.5


@dataclass(frozen=True, slots=True)
class Rules:
    """What a profile asks for. No categories or no announce types: all of them."""

    keywords: tuple[Keyword, ...]
    exclude: tuple[str, ...] = ()
    categories: frozenset[str] = frozenset()
    announce_types: frozenset[str] = frozenset()
    substring: bool = False
    min_score: float = 0.0
    size: int = 30

    def admits(self, categories: Iterable[str], announce_type: str) -> bool:
        """Whether a paper announced so is looked at at all."""
        return (not self.announce_types or announce_type in self.announce_types) and (
            not self.categories or not self.categories.isdisjoint(categories)
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paper as scoring sees it."""

    id: str
    title: str
    abstract: str
    categories: tuple[str, ...] = ()
    announce_type: str = "new"
    submitted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A keyword that was found: in which fields, and what it earned.

    A keyword of the seed bot's rule may stand across the end of the title; it counts as one in
    the abstract.
    """

    keyword: str
    where: tuple[Place, ...]
    points: float


@dataclass(frozen=True, slots=True)
class Score:
    """What a paper earns by one profile's rules, whether they keep it, and why."""

    score: float = 0.0
    kept: bool = False
    matches: tuple[Match, ...] = ()


class Kept(NamedTuple):
    """A candidate that rules keep: its place in the sequence scored and its score."""

    at: int
    score: float


class Scorer:
    """Several profiles' rules, ready to score papers. Raises PatternError for a bad keyword."""

    def __init__(self, rules: Sequence[Rules]) -> None:
        self.rules = tuple(rules)
        self._terms: list[Term] = []
        self._numbers: dict[tuple[Kind, str], int] = {}
        self._uses: list[_Uses] = []  # by term
        self._keywords: list[list[int]] = []  # by rule and place: the term
        for index, one in enumerate(self.rules):
            numbers = [self._number(keyword.text, one) for keyword in one.keywords]
            self._keywords.append(numbers)
            for number, keyword in zip(numbers, one.keywords, strict=True):
                anywhere, in_title = _points(keyword)
                self._uses[number].anywhere.append((index, anywhere))
                self._uses[number].in_title.append((index, in_title))
            for text in one.exclude:
                self._uses[self._number(text, one)].excludes.append(index)
        self._finders = finders(self._terms, single=len(self.rules) == 1)
        # No keyword, no place in the digest, whatever the least score.
        self._least = [max(1, ceil(one.min_score * _UNIT)) for one in self.rules]
        self._admitted: dict[tuple[tuple[str, ...], str], frozenset[int]] = {}

    def score(self, candidate: Candidate) -> list[Score]:
        """The scores of one paper, one for each set of rules, whether they keep it or not."""
        totals, excluded = self._totals(candidate)
        admitted = self._admitting(candidate)
        return [
            Score(
                totals.get(index, 0) / _UNIT,
                index in admitted
                and index not in excluded
                and totals.get(index, 0) >= self._least[index],
                self.matches(index, candidate) if index in totals else (),
            )
            for index in range(len(self.rules))
        ]

    def kept(self, candidates: Iterable[Candidate]) -> list[list[Kept]]:
        """Which of `candidates` each set of rules keeps, in their order."""
        keeping: list[list[Kept]] = [[] for _ in self.rules]
        for index, candidate in enumerate(candidates):
            admitted = self._admitting(candidate)
            if not admitted:
                continue
            totals, excluded = self._totals(candidate)
            for rule, total in totals.items():
                if total >= self._least[rule] and rule in admitted and rule not in excluded:
                    keeping[rule].append(Kept(index, total / _UNIT))
        return keeping

    def matches(self, rule: int, candidate: Candidate) -> tuple[Match, ...]:
        """Why a rule gives a candidate its score, in the order of the rule's keywords."""
        title, abstract = normalise(candidate.title), normalise(candidate.abstract)
        text = f"{title} {abstract}"
        found = []
        for keyword, number in zip(self.rules[rule].keywords, self._keywords[rule], strict=True):
            sought = self._terms[number]
            anywhere, with_bonus = _points(keyword)
            in_title, in_abstract = sought.stands_in(title), sought.stands_in(abstract)
            if not in_abstract and not in_title and sought.kind is Kind.SUBSTRING:
                in_abstract = sought.stands_in(text)
            points = with_bonus if in_title else anywhere if in_abstract else 0
            if points:
                where: tuple[Place, ...] = ("title",) if in_title else ()
                where += ("abstract",) if in_abstract else ()
                found.append(Match(keyword.text, where, points / _UNIT))
        return tuple(found)

    def spans(self, rule: int, text: str) -> list[tuple[int, int, int]]:
        """Where the rule's keywords stand in `text` (normalised): (start, end, keyword's place)."""
        return [
            (start, end, place)
            for place, number in enumerate(self._keywords[rule])
            for start, end in self._terms[number].spans(text)
        ]

    def _number(self, keyword: str, rules: Rules) -> int:
        """The number of the term that `keyword` means, shared by all rules that seek it."""
        made = term(keyword, substring=rules.substring)
        number = self._numbers.setdefault((made.kind, made.source), len(self._terms))
        if number == len(self._terms):
            self._terms.append(made)
            self._uses.append(_Uses([], [], []))
        return number

    def _admitting(self, candidate: Candidate) -> frozenset[int]:
        """The rules that look at a paper announced like this one."""
        key = (candidate.categories, candidate.announce_type)
        known = self._admitted.get(key)
        if known is None:
            if len(self._admitted) > 10_000:
                self._admitted.clear()
            known = self._admitted[key] = frozenset(
                index for index, rules in enumerate(self.rules) if rules.admits(*key)
            )
        return known

    def _totals(self, candidate: Candidate) -> tuple[dict[int, int], set[int]]:
        """By rule, the points it gives; and the rules whose excluded terms the paper holds."""
        title, abstract = candidate.title, candidate.abstract
        if not (title.isascii() and abstract.isascii()):
            title, abstract = normalise(title), normalise(abstract)
        totals: dict[int, int] = {}
        excluded: set[int] = set()
        for finder in self._finders:
            in_title, anywhere = finder.find(title, abstract)
            for number in anywhere:
                uses = self._uses[number]
                for rule, points in uses.in_title if number in in_title else uses.anywhere:
                    totals[rule] = totals.get(rule, 0) + points
                if uses.excludes:
                    excluded.update(uses.excludes)
        return totals, excluded


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a term does: points it gives to rules, and rules it excludes a paper from."""

    anywhere: list[tuple[int, int]]
    in_title: list[tuple[int, int]]
    excludes: list[int]


def _points(keyword: Keyword) -> tuple[int, int]:
    """What a keyword earns outside the title, and in it."""
    weight = round(keyword.weight * _UNIT)
    return weight, weight + round(keyword.title_bonus * _UNIT)


def rank(rules: Rules, kept: Iterable[Kept], candidates: Sequence[Candidate]) -> list[Kept]:
    """What stands in the digest, in reading order: by score, then submission, then id.

    By the seed bot's rule papers of one score keep the order they were announced in.
    """

    def place(one: Kept) -> tuple[float, datetime, str]:
        candidate = candidates[one.at]
        return -one.score, candidate.submitted_at or _LAST, candidate.id

    # Few of a day stand in a digest: only they need the whole comparison.
    first = sorted(kept, key=_by_score, reverse=True)
    if rules.substring or not first:
        return first[: rules.size]
    least = first[: rules.size][-1].score
    return sorted((one for one in first if one.score >= least), key=place)[: rules.size]
