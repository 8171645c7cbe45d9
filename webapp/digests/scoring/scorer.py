"""Scores that a reader can check. Pure functions: no database, no Django.

    score = Σ weight · [keyword in title or abstract] + Σ title_bonus · [keyword in title]

By rarity, both are first multiplied by ln(1000 / f), where f of 1,000 recent papers have the
keyword (inverse document frequency, Spärck Jones 1972), and rounded to a tenth. An author is a
keyword too, `author:Jane Doe`, and earns the weight as it is.

By place, the rules ask what a paper is about: a keyword in the title, in the sentence that says
what is proposed, or repeated in the abstract earns all its points, and one that is mentioned once
earns half. A paper is about what is sought if it has a keyword in such a place and reaches the
minimum score, or if the keyword is in its title and no word with a minus sign speaks against it;
others that have a keyword stand apart, as lower matches (`Standing`). Papers of authors that are
followed come first.

A keyword with a sign only moves papers that have another one: `+LLM` adds its weight to them, and
`-patient` takes it from them.

A model learned from the reader (`learned`) ranks and admits, and refuses nothing: papers that are
close to what they saved stand in the list with those that the keywords find, and the nearest of the
rest are folded (`select`). The site's own list has a model of chosen papers, and closeness decides
alone: a keyword adds to it. A paper marked "Not for me" takes points from papers that are like it,
and a paper that was saved is no news.

Profiles share their keywords: each is searched for once in a paper, for all profiles together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from webapp.digests.scoring.matchers import AutomatonMatcher, TokenMatcher, term_matchers
from webapp.digests.scoring.rules import (
    UNIT,
    Candidate,
    Kept,
    Keyword,
    Match,
    PaperField,
    Place,
    Rules,
    Standing,
    author_of,
    rarity_factor,
    rarity_of,
    total,
)
from webapp.digests.scoring.selection import NEAREST
from webapp.digests.scoring.terms import SIGNS, Kind, Term, keyword_name, term
from webapp.digests.scoring.texts import FoldedText
from webapp.learning import preferences as learned
from webapp.learning.numbered import Vectors
from webapp.learning.preferences import Learned
from webapp.papers.names import ComparableName, comparable_name
from webapp.papers.proposal import proposing_sentence

if TYPE_CHECKING:
    from webapp.learning.numbered import Flags, Floats

Sought = int | ComparableName  # the number of a term, or an author
MAX_TEXT = 60  # characters of a match
A_DAY = 2_000  # papers of which it is remembered what is in their texts
MENTION = 0.5  # of a keyword's points: a single mention, by place
MOST_POINTS = 15.0  # of keywords that add to closeness, where that decides


class _Read:
    """Candidates from which learning rules choose."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []  # titles and abstracts
        self.excluded: dict[int, list[int]] = defaultdict(list)  # candidates, by rule
        self._kinds: dict[frozenset[int], int] = {}  # sets of rules that admit a candidate
        self._kind_of: list[int] = []

    def add(self, candidate: Candidate, admitted: frozenset[int]) -> None:
        """Read the next candidate, which these rules admit."""
        self.texts.append((candidate.title, candidate.abstract))
        self._kind_of.append(self._kinds.setdefault(admitted, len(self._kinds)))

    def considered(self, rule: int) -> Flags:
        """Return a flag for each paper: the rule admits and does not exclude it."""
        import numpy as np  # noqa: PLC0415 - 0.3 s

        flags = np.array([rule in admitted for admitted in self._kinds], bool)[self._kind_of]
        flags[self.excluded.get(rule, [])] = False
        return flags


class _ByRule(NamedTuple):
    """Matches of a candidate's text, by rule."""

    points: dict[int, int]
    about: set[int]  # rules with a keyword in a weighty place
    titled: set[int]  # rules with a keyword in the title
    by_author: set[int]  # rules that follow an author of the paper
    excluded: set[int]


class Scorer:
    """Several profiles' rules, ready to score papers. Raises PatternError for a bad keyword."""

    def __init__(self, rules: Sequence[Rules]) -> None:
        self.rules = tuple(rules)
        self._terms: list[Term] = []
        self._numbers: dict[tuple[Kind, str], int] = {}
        # Rules and the points that they give; rules in which it has a sign; those that exclude.
        self._points: dict[Sought, list[tuple[int, _Points]]] = defaultdict(list)
        self._signed: dict[Sought, list[tuple[int, _Points]]] = defaultdict(list)
        self._excluded: dict[Sought, list[int]] = defaultdict(list)
        self._weighted: list[list[_WeightedTerm]] = []  # by rule and position
        for index, ruleset in enumerate(self.rules):
            self._weighted.append(
                [self._weighted_term(keyword, ruleset) for keyword in ruleset.keywords]
            )
            for weighted in self._weighted[index]:
                given = self._signed if weighted.has_sign else self._points
                given[weighted.sought].append((index, weighted.points))
            for text in ruleset.exclude:
                self._excluded[self._sought(text, ruleset)].append(index)
        everything = [*self._points, *self._signed, *self._excluded]
        self._authors: dict[str, set[ComparableName]] = defaultdict(set)  # by each key
        for name in everything:
            if isinstance(name, ComparableName):
                for key in name.keys:
                    self._authors[key].add(name)
        self._matchers = term_matchers(self._terms, single=len(self.rules) == 1)
        # A paper without a match is never kept, even with a minimum score of 0.
        self._minima = [max(1, ceil(ruleset.min_score * UNIT)) for ruleset in self.rules]
        self._least = [
            1 if ruleset.by_place else least
            for ruleset, least in zip(self.rules, self._minima, strict=True)
        ]
        self._learned = {rule: r.learned for rule, r in enumerate(self.rules) if r.learned}
        everyone = all(ruleset.admits_all for ruleset in self.rules)
        self._everyone = frozenset(range(len(self.rules)) if everyone else ())
        # Not bound to this object: a model would stay in memory until cycles are collected.
        self._admitting = lru_cache(10_000)(partial(_rules_admitting, self.rules))
        self._find = lru_cache(A_DAY)(partial(_find_terms, self._matchers, self._authors))

    def kept(self, candidates: Iterable[Candidate], spare: int | None = None) -> list[list[Kept]]:
        """Return the candidates that each set of rules keeps, in their order.

        Learning rules keep nearly every paper except those that the reader saved. With `spare`,
        they keep only the closest of the papers without a match: enough for the same result of
        `select`, whichever `spare` papers are removed before it.
        """
        keeping: list[list[Kept]] = [[] for _ in self.rules]
        read = _Read()
        for index, candidate in enumerate(candidates):
            admitted = self._everyone or self._admitting(
                candidate.categories, candidate.announce_type
            )
            if self._learned:
                read.add(candidate, admitted)
            if not admitted:
                continue
            matched = self._points_by_rule(candidate)
            for rule, model in self._learned.items():
                if candidate.id in model.saved_papers:
                    matched.excluded.add(rule)
            for rule, points in matched.points.items():
                if (
                    points >= self._least[rule]
                    and rule in admitted
                    and rule not in matched.excluded
                ):
                    standing, by_author = self._standing(rule, matched), rule in matched.by_author
                    selected = Kept(index, points / UNIT, by_author=by_author, standing=standing)
                    keeping[rule].append(selected)
            for rule in matched.excluded & self._learned.keys():
                read.excluded[rule].append(index)
        odds: dict[int, Floats] = {}  # by model: a reader's profiles share theirs
        vectors = Vectors.of(read.texts) if self._learned else None
        for rule, model in self._learned.items():
            if id(model) not in odds and vectors:
                odds[id(model)] = model.log_odds(vectors)
            keeping[rule] = self._close(rule, read, odds[id(model)], keeping[rule], spare)
        return keeping

    def excluding(self, candidate: Candidate) -> set[int]:
        """Return the rules that exclude a candidate."""
        return self._points_by_rule(candidate).excluded

    def _standing(self, rule: int, matched: _ByRule) -> Standing:
        if not self.rules[rule].by_place:
            return Standing.ABOUT
        if rule not in matched.about:
            return Standing.MENTIONS
        if rule in matched.titled or rule in matched.by_author:
            return Standing.ABOUT
        return Standing.ABOUT if matched.points[rule] >= self._minima[rule] else Standing.BELOW

    def _close(
        self, rule: int, read: _Read, odds: Floats, matching: list[Kept], spare: int | None
    ) -> list[Kept]:
        """Return the papers that a learning rule keeps: its matches and the closest others."""
        model, size = self._learned[rule], self.rules[rule].size
        matches_by_place = {paper.at: paper for paper in matching}
        considered = read.considered(rule)
        if spare is not None:
            # Of a digest by its rules, then of papers beside them, then of those that are folded.
            most = 2 * size + NEAREST + spare
            open_odds = odds[considered]
            if len(open_odds) > most:
                open_odds.partition(-most)
                considered &= odds >= open_odds[-most]
                considered[list(matches_by_place)] = True
        closest = []
        for index in considered.nonzero()[0].tolist():
            log_odds, matched = float(odds[index]), matches_by_place.get(index)
            refusal = model.refusal(*read.texts[index])[0]
            points = self._closeness_points(rule, log_odds, refusal)
            by_rules = (matched.score if matched else 0.0) + points.refusal
            score = round(by_rules + points.closeness, 6)
            closeness = model.closeness(log_odds) - refusal
            standing = matched.standing if matched else Standing.NEAREST
            if matched and model.keyword_closeness:
                closeness += model.keyword_closeness * min(matched.score, MOST_POINTS)
                standing = Standing.ABOUT if closeness >= learned.CLOSE else Standing.BELOW
            by_author = bool(matched and matched.by_author)
            closest.append(
                Kept(
                    index, score, bool(matched), by_rules, log_odds, closeness, by_author, standing
                )
            )
        return closest

    def _closeness_points(self, rule: int, log_odds: float, refusal: float) -> _ClosenessPoints:
        """Points for closeness, and lost by a refusal: in hundredths where nothing else counts."""
        model = self._learned[rule]
        if self.rules[rule].keywords:
            points, lost = learned.points(model.share(log_odds)), learned.PUSH * refusal
        else:
            points, lost = max(0.0, 100 * model.closeness(log_odds)), 100 * refusal
        return _ClosenessPoints(round(points, 1), -round(lost, 1))

    def keywords(self, rule: int, candidate: Candidate) -> list[str]:
        """Return the keywords that `matches` has, in a tenth of its time."""
        in_title, anywhere = self._find(candidate)
        return [
            weighted.keyword
            for weighted in self._weighted[rule]
            if weighted.sought in anywhere
            and weighted.points.at("title" if weighted.sought in in_title else "repeated")
        ]

    def matches(
        self, rule: int, candidate: Candidate, log_odds: float | None = None
    ) -> list[Match]:
        """Return the matches that make up a candidate's score, in the order of the keywords.

        `log_odds` are those of its closeness, if they are known.
        """
        rules, paper = self.rules[rule], _paper(candidate)
        in_title, anywhere = self._find(candidate)
        matches: list[Match] = []
        has_own = False  # a keyword without a sign
        for weighted in self._weighted[rule]:
            sought = weighted.sought
            if sought not in anywhere:
                continue
            where: list[PaperField] = ["authors"]
            if isinstance(sought, int):
                where = ["title"] if sought in in_title else []
                # The seed bot finds what extends from the title into the abstract, too.
                if not where or self._terms[sought] in paper.abstract:
                    where.append("abstract")
            place: Place = "title" if "title" in where else "repeated"
            if by_place := weighted.points.by_place and isinstance(sought, int):
                place = place if place == "title" else paper.place(self._terms[sought])
            if points := weighted.points.at(place):
                has_own |= not weighted.has_sign
                match = _match(weighted.keyword, where, points / UNIT, weighted.rarity)
                phrase = _first_text(self._terms[sought], paper) if isinstance(sought, int) else ""
                if phrase.casefold() not in {"", keyword_name(weighted.keyword).casefold()}:
                    match["text"] = phrase
                if by_place:
                    match["place"] = place
                matches.append(match)
        if not has_own:
            matches = []
        if rules.learned is not None:
            if matches and round(total(matches) * UNIT) < self._least[rule]:
                matches = []  # too little for the profile's minimum, so nothing of it counts
            if log_odds is None:
                text = candidate.title, candidate.abstract
                log_odds = float(rules.learned.log_odds(Vectors.of([text]))[0])
            matches += self._learned_matches(rule, rules.learned, candidate, log_odds)
        return matches

    def _learned_matches(
        self, rule: int, model: Learned, candidate: Candidate, log_odds: float
    ) -> Iterator[Match]:
        """Yield how close a candidate is, and to what; then what speaks against it."""
        text = candidate.title, candidate.abstract
        refusal, refused = model.refusal(*text)
        closeness = model.closeness(log_odds) - refusal
        points = self._closeness_points(rule, log_odds, refusal)
        what = learned.CHOSEN if model.keyword_closeness else learned.SAVED
        close = _match(what, [], points.closeness, "learned")
        close["closeness"] = learned.closeness_in_words(closeness)
        if closeness >= learned.CLOSE:
            cosine, (title, identifier) = model.saved.nearest(*text)
            if cosine >= learned.NEAR:
                close |= {"near": title, "near_id": identifier}
        yield close
        if refusal:
            unlike = _match(learned.UNLIKE, [], points.refusal, "learned")
            yield unlike | {"near": refused[0], "near_id": refused[1]}

    def _weighted_term(self, keyword: Keyword, rules: Rules) -> _WeightedTerm:
        """Return the search term of a keyword with the points it earns under these rules."""
        has_sign = _has_sign(keyword, rules)
        rarity = rarity_of(keyword.frequency) if rules.by_rarity and not has_sign else ""
        sought = self._sought(keyword.keyword, rules)
        return _WeightedTerm(
            keyword.keyword, sought, _keyword_points(keyword, rules), has_sign, rarity
        )

    def _sought(self, keyword: str, rules: Rules) -> Sought:
        """Return the author in `keyword`, or its term's number, which all rules share."""
        if author := author_of(keyword):
            return author
        parsed = term(keyword, substring=rules.substring)
        number = self._numbers.setdefault((parsed.kind, parsed.source), len(self._terms))
        if number == len(self._terms):
            self._terms.append(parsed)
        return number

    def _points_by_rule(self, candidate: Candidate) -> _ByRule:
        """Add up the points of the keywords in a candidate, by rule."""
        paper = _paper(candidate)
        points: dict[int, int] = {}
        moved: dict[int, int] = {}  # by keywords with a sign
        about: set[int] = set()
        titled: set[int] = set()
        by_author: set[int] = set()
        excluded: set[int] = set()
        in_title, anywhere = self._find(candidate)
        for sought in anywhere:
            place: Place | None = "title" if sought in in_title else None
            for rule, given in self._points.get(sought, ()):
                if place is None and given.by_place and isinstance(sought, int):
                    place = paper.place(self._terms[sought])
                points[rule] = points.get(rule, 0) + given.at(place or "repeated")
                if not isinstance(sought, int):
                    by_author.add(rule)
                elif place == "title":
                    titled.add(rule)
                if place != "mention":
                    about.add(rule)
            for rule, given in self._signed.get(sought, ()):
                moved[rule] = moved.get(rule, 0) + given.at(place or "repeated")
            if sought in self._excluded:
                excluded.update(self._excluded[sought])
        for rule in points.keys() & moved.keys():
            points[rule] += moved[rule]
            if moved[rule] < 0:
                titled.discard(rule)  # a word with a minus sign speaks against it
        return _ByRule(points, about, titled, by_author, excluded)


def _rules_admitting(
    rules: Sequence[Rules], categories: tuple[str, ...], announce_type: str
) -> frozenset[int]:
    """Return the rules that admit these categories and this announce type."""
    return frozenset(rule for rule, r in enumerate(rules) if r.admits(categories, announce_type))


def _find_terms(
    matchers: Iterable[AutomatonMatcher | TokenMatcher],
    authors: Mapping[str, set[ComparableName]],
    candidate: Candidate,
) -> tuple[Collection[Sought], Collection[Sought]]:
    """Return the terms and authors found in the title, and those found in any field."""
    in_title: set[Sought] = set()
    anywhere: set[Sought] = set()
    paper = _paper(candidate)
    for matcher in matchers:
        of_title, of_both = matcher.match(paper.title, paper.abstract)
        in_title.update(of_title)
        anywhere.update(of_both)
    for author in map(comparable_name, candidate.authors if authors else ()):
        sharing = (name for key in author.keys for name in authors.get(key, ()))
        anywhere.update(name for name in sharing if name.matches(author))
    return in_title, anywhere


class _ClosenessPoints(NamedTuple):
    """Points of a paper for its closeness to a learned model."""

    closeness: float
    refusal: float  # 0 or less


class _Points(NamedTuple):
    """Points of a keyword outside the title, in it, and for a single mention, in millionths."""

    outside: int
    title: int
    mention: int
    by_place: bool  # a single mention earns a part

    def at(self, place: Place) -> int:
        """Return the points in a place."""
        if place == "title":
            return self.title
        return self.mention if place == "mention" else self.outside


class _WeightedTerm(NamedTuple):
    """A keyword's search term, with its points under some rules."""

    keyword: str
    sought: Sought
    points: _Points
    has_sign: bool
    rarity: str


class _Paper:
    """Title and abstract of a candidate, searched for the places of keywords."""

    def __init__(self, candidate: Candidate) -> None:
        self.title, self.abstract = FoldedText(candidate.title), FoldedText(candidate.abstract)
        self._places: dict[tuple[Kind, str], Place] = {}  # by term

    @cached_property
    def _proposal(self) -> FoldedText:
        return FoldedText(proposing_sentence(self.abstract.plain))

    def place(self, sought: Term) -> Place:
        """Return the weightiest place of a term that is not in the title."""
        if (place := self._places.get((sought.kind, sought.source))) is None:
            repeated: Place = "repeated" if self.abstract.repeats(sought) else "mention"
            place = "proposal" if sought in self._proposal else repeated
            self._places[sought.kind, sought.source] = place
        return place


_paper = lru_cache(A_DAY)(_Paper)  # the same for every profile of a day


def _first_text(sought: Term, paper: _Paper) -> str:
    """Return the words of the title, else of the abstract, that a term matches."""
    for text in (paper.title.plain, paper.abstract.plain):
        for start, end in sought.spans(text):
            return text[start:end][:MAX_TEXT]
    return ""


def _match(keyword: str, where: list[PaperField], points: float, rarity: str = "") -> Match:
    match = Match(keyword=keyword, where=where, points=points)
    if rarity:
        match["rarity"] = rarity
    return match


def _has_sign(keyword: Keyword, rules: Rules) -> bool:
    """True if a keyword has a sign, and so only shifts papers that another keyword matches."""
    return keyword.keyword.lstrip().startswith(SIGNS) and not rules.substring


def _keyword_points(keyword: Keyword, rules: Rules) -> _Points:
    """Return a keyword's points outside the title, in it, and for a single mention."""
    weight, bonus = keyword.weight, keyword.title_bonus
    has_sign = _has_sign(keyword, rules)
    as_written = bool(author_of(keyword.keyword)) or has_sign
    if rules.by_rarity and not as_written:
        factor = rarity_factor(keyword.frequency)
        weight, bonus = round(weight * factor, 1), round(bonus * factor, 1)
    if has_sign and keyword.keyword.lstrip().startswith("-"):
        weight, bonus = -weight, -bonus
    first, by_place = round(weight * UNIT), rules.by_place and not as_written
    mention = round(MENTION * first) if by_place else first
    return _Points(first, first + round(bonus * UNIT), mention, by_place)
