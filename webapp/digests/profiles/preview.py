"""What a change to a profile would have changed on past days, before it is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from typing import NamedTuple

from webapp.digests.batch import Batch, load_batch, shown_before
from webapp.digests.build import not_shown_before
from webapp.digests.models import Profile
from webapp.digests.scoring.scorer import Kept, Rules, Scorer, in_order
from webapp.papers.models import Paper
from webapp.papers.queries import dates

DAYS = 5  # a week of arXiv's


class Ranked(NamedTuple):
    """A paper's rank and score by some rules."""

    paper: Paper
    rank: int
    score: float


class Change(NamedTuple):
    """A paper that comes, goes or moves: `place` is `+ 3`, `− 3` or `3→5`."""

    place: str
    paper: Paper
    score: float  # by the new rules; of one that goes by the old


@dataclass(frozen=True)
class DayChange:
    """One past day under both rules; lists in the order a reader meets them."""

    date: Date
    before: int  # papers in the digest by the old rules
    after: int
    added: Sequence[Change]
    dropped: Sequence[Change]
    moved: Sequence[Change]

    @property
    def is_same(self) -> bool:
        """Whether a reader would have seen the same papers in the same order."""
        return not (self.added or self.dropped or self.moved)


def preview_profile(profile: Profile | None, old: Rules | None, new: Rules) -> list[DayChange]:
    """Both rules over the last days that have papers, the latest first.

    A new profile has no `old` rules.
    """
    days = [load_batch(date) for date in sorted(dates(DAYS))]
    # Papers of the first day that an earlier digest held already.
    shown = shown_before(days[0], [profile])[profile.pk] if profile and days else set()
    shown_new, shown_old = set(shown), set(shown)
    scorer = Scorer([new] if old is None else [new, old])
    changes = []
    for day in days:
        kept = scorer.kept(day.candidates)
        after = _ranked(day, new, kept[0], shown_new)
        before = {} if old is None else _ranked(day, old, kept[1], shown_old)
        changes.append(_compare(day.date, before, after))
    return changes[::-1]


def _ranked(day: Batch, rules: Rules, kept: Sequence[Kept], shown: set[int]) -> dict[str, Ranked]:
    unseen = not_shown_before(day, kept, shown)
    ranked = in_order(rules, unseen, day.candidates)[: rules.size]
    papers = [day.announced[one.at].paper for one in ranked]
    shown.update(paper.pk for paper in papers)
    return {
        paper.arxiv_id: Ranked(paper, rank, one.score)
        for rank, (paper, one) in enumerate(zip(papers, ranked, strict=True), 1)
    }


def _compare(date: Date, before: dict[str, Ranked], after: dict[str, Ranked]) -> DayChange:
    return DayChange(
        date,
        len(before),
        len(after),
        [
            Change(f"+ {new.rank}", new.paper, new.score)
            for name, new in after.items()
            if name not in before
        ],
        [
            Change(f"− {old.rank}", old.paper, old.score)
            for name, old in before.items()
            if name not in after
        ],
        [
            Change(f"{before[name].rank}→{new.rank}", new.paper, new.score)
            for name, new in after.items()
            if name in before and before[name].rank != new.rank
        ],
    )
