"""Papers that nobody wrote, announced day by day as arXiv would, the same ones every time.

What a day holds depends on the day alone, so a test may look at any. Titles begin with
"Synthetic": nobody shall take one for a finding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from webapp.papers.days import DAY, last_batch_day, next_batch_day, submission_window

CATEGORIES = ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
_METHODS = (
    *("sparse attention", "speculative decoding", "token pruning", "expert routing"),
    *("quantized inference", "prefill scheduling", "RLHF without reward drift", "FP8 training"),
    *("a scalable kernel for long context", "pipeline-parallel fine-tuning"),
    *("lantern-graph indexing", "moss-driven sampling", "tidal clustering"),
)
_SUBJECTS = (
    *("paper boats", "greenhouse logs", "harbour pilots", "brass clocks", "cartographers"),
    *("weather diaries", "beekeeping manuals", "tram timetables", "tide tables", "kite makers"),
)
_VERBS = ("counts", "orders", "compresses", "predicts", "repairs", "translates", "routes")
_GAINS = ("throughput", "memory", "latency", "accuracy on a held-out harbour", "wall-clock time")
_NAMES = (
    *("Ada", "Bram", "Cleo", "Dov", "Edda", "Finn", "Gerda", "Hana", "Ivo", "Jun", "Kaja", "Lúcia"),
)
_FAMILIES = (
    *("Quill", "Vandermoss", "Ohm-Larsen", "Þorsson", "Ferreira da Lã", "Zhang-Peat", "Nwosu"),
    *("Ångberg", "O'Tarn", "Kowalczyk", "Íris", "van der Brook"),
)

Announcement: TypeAlias = tuple[str, "Eprint"]


@dataclass(frozen=True)
class Eprint:
    """One version of a synthetic paper."""

    arxiv_id: str
    version: int
    title: str
    abstract: str
    authors: tuple[tuple[str, str], ...]  # (name, affiliation)
    categories: tuple[str, ...]
    submitted: datetime  # version 1
    updated: datetime  # this version
    license: str = "http://creativecommons.org/licenses/by/4.0/"
    doi: str = ""
    journal_ref: str = ""
    comment: str = ""


@dataclass
class Corpus:
    """The papers that arXiv has announced until `today`."""

    today: date
    per_day: int = 12  # new papers a category and day, at most 99
    categories: Sequence[str] = CATEGORIES
    days: int = 10  # batch days that the API remembers
    extra: dict[date, list[Announcement]] = field(default_factory=dict)

    def feed(self, category: str, day: date) -> list[Announcement]:
        """The announcements in the feed of `category` on `day`, in arXiv's order of types."""
        if day != last_batch_day(day):
            return []
        announced: list[Announcement] = []
        for paper in self._new(day):
            if category == paper.categories[0]:
                announced.append(("new", paper))
            elif category in paper.categories[:2]:
                announced.append(("cross", paper))
        before = last_batch_day(day - DAY)
        # A third category is an afterthought: cross-listed there on the next batch day.
        announced += [("cross", p) for p in self._new(before) if category in p.categories[2:]]
        for paper in self.replaced(day):
            if category in paper.categories:
                first = category == paper.categories[0]
                announced.append(("replace" if first else "replace-cross", paper))
        return announced + [a for a in self.extra.get(day, ()) if category in a[1].categories]

    def replaced(self, day: date) -> list[Eprint]:
        """The second versions announced on `day`: of every fifth paper, two batch days after."""
        origin = last_batch_day(last_batch_day(day - DAY) - DAY)
        return [second_version(paper, day) for paper in self._new(origin)[::5]]

    def latest(self) -> Iterator[Eprint]:
        """Every paper that the API knows, in its latest version, the oldest first."""
        day, days = last_batch_day(self.today), []
        for _ in range(self.days):
            days.append(day)
            day = last_batch_day(day - DAY)
        for day in reversed(days):
            replaced_on = next_batch_day(next_batch_day(day))
            for index, paper in enumerate(self._new(day)):
                if index % 5 == 0 and replaced_on <= self.today:
                    yield second_version(paper, replaced_on)
                else:
                    yield paper

    def _new(self, day: date) -> tuple[Eprint, ...]:
        return tuple(
            paper
            for index, category in enumerate(self.categories)
            for paper in _papers(day, category, index, self.per_day, tuple(self.categories))
        )


@lru_cache(maxsize=256)
def _papers(
    day: date, category: str, index: int, count: int, categories: tuple[str, ...]
) -> tuple[Eprint, ...]:
    chance = random.Random(f"{day}{category}")
    since, until = submission_window(day)
    step = (until - since) / (count + 1)
    return tuple(
        _paper(
            chance,
            f"{day:%y%m}.{day.day:02d}{index}{number:02d}",
            _listed(chance, category, categories),
            (since + step * (number + 1)).replace(microsecond=0),
        )
        for number in range(count)
    )


def _listed(chance: random.Random, category: str, categories: tuple[str, ...]) -> tuple[str, ...]:
    others = [name for name in categories if name != category]
    chance.shuffle(others)
    return (category, *others[: chance.choice((0, 0, 1, 1, 2))])


def _paper(
    chance: random.Random, arxiv_id: str, categories: tuple[str, ...], submitted: datetime
) -> Eprint:
    method, subject = chance.choice(_METHODS), chance.choice(_SUBJECTS)
    cost = chance.choice(("$O(n \\log n)$", "$n^{2}$ to $n\\sqrt{n}$", "\\textbf{half}", "$x < y$"))
    gain = f"{chance.randint(11, 59) / 10}\\times"
    return Eprint(
        arxiv_id=arxiv_id,
        version=1,
        title=f"Synthetic {arxiv_id}: {method.capitalize()} that {chance.choice(_VERBS)} {subject}",
        abstract=(
            f"We study {method} on {subject}, which is slow & costly at length.\n"
            f"Our invented system cuts the cost to {cost} and gains ${gain}$ in "
            f"{chance.choice(_GAINS)} over a dumb baseline.\n"
            "  None of this was measured: it is made for tests."
        ),
        authors=_authors(chance),
        categories=categories,
        submitted=submitted,
        updated=submitted,
        doi=f"10.99999/synthetic.{arxiv_id}" if chance.random() < 0.1 else "",
        journal_ref="J. Synth. Res. 3 (2020) 14" if chance.random() < 0.1 else "",
        comment=f"{chance.randint(4, 40)} pages, {chance.randint(1, 9)} figures",
    )


def _authors(chance: random.Random) -> tuple[tuple[str, str], ...]:
    names = (
        f"{chance.choice(_NAMES)} {chance.choice(_FAMILIES)}" for _ in range(chance.randint(1, 7))
    )
    affiliations = ("", "", "Institute of Tides, Harbour (East)")
    return tuple((name, chance.choice(affiliations)) for name in dict.fromkeys(names))


def second_version(paper: Eprint, day: date) -> Eprint:
    """The replacement of `paper` announced on `day`."""
    return replace(
        paper,
        version=2,
        title=paper.title.replace("that", "which"),
        abstract=f"{paper.abstract} A second version adds an ablation over lanterns.",
        updated=submission_window(day)[1] - timedelta(hours=2),
    )
