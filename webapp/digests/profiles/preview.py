"""What a change to a profile would have changed on past days, before it is saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date as Date

from webapp.digests.batch import Batch, load_batch, shown_before
from webapp.digests.build import not_shown_before
from webapp.digests.models import Profile
from webapp.digests.scoring.scorer import Kept, Rules, Scorer, in_order
from webapp.papers.models import Paper
from webapp.papers.queries import dates

DAYS = 5  # a week of arXiv's


@dataclass(frozen=True)
class Change:
    """A paper's rank and score under the old rules and the new; None where it has none."""

    paper: Paper
    old_rank: int | None
    new_rank: int | None
    old_score: float | None
    new_score: float | None

    @property
    def place(self) -> str:
        """The rank it gets (`+ 3`), loses (`− 3`) or changes (`3→5`)."""
        if self.old_rank is None:
            return f"+ {self.new_rank}"
        return f"− {self.old_rank}" if self.new_rank is None else f"{self.old_rank}→{self.new_rank}"


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


def preview(
    old: Rules | None, new: Rules, days: Iterable[Batch], shown: set[int]
) -> list[DayChange]:
    """Both rules over past `days`, which must come in order; `shown` are the papers of the first
    day that an earlier digest held already. A new profile has no `old` rules.
    """
    scorer = Scorer([new] if old is None else [new, old])
    shown_new, shown_old = set(shown), set(shown)
    changes = []
    for day in days:
        kept = scorer.kept(day.candidates)
        after = _ranked(day, new, kept[0], shown_new)
        before = {} if old is None else _ranked(day, old, kept[1], shown_old)
        changes.append(_compare(day, before, after))
    return changes


def preview_profile(profile: Profile | None, old: Rules | None, new: Rules) -> list[DayChange]:
    """`preview` over the last days that have papers, the latest first."""
    days = [load_batch(date) for date in sorted(dates(DAYS))]
    shown = shown_before(days[0], [profile])[profile.pk] if profile and days else set()
    return preview(old, new, days, shown)[::-1]


def _ranked(
    day: Batch, rules: Rules, kept: Sequence[Kept], shown: set[int]
) -> dict[str, tuple[int, Kept]]:
    unseen = not_shown_before(day, kept, shown)
    ranked = in_order(rules, unseen, day.candidates)[: rules.size]
    shown.update(day.announced[one.at].paper.pk for one in ranked)
    return {day.candidates[one.at].id: (number, one) for number, one in enumerate(ranked, 1)}


def _compare(
    day: Batch, before: dict[str, tuple[int, Kept]], after: dict[str, tuple[int, Kept]]
) -> DayChange:
    def change(name: str) -> Change:
        old, new = before.get(name), after.get(name)
        at = (new or old or (0, Kept(0, 0.0)))[1].at
        return Change(
            day.announced[at].paper,
            old[0] if old else None,
            new[0] if new else None,
            old[1].score if old else None,
            new[1].score if new else None,
        )

    return DayChange(
        day.date,
        len(before),
        len(after),
        [change(name) for name in after if name not in before],
        [change(name) for name in before if name not in after],
        [change(name) for name in after if name in before and before[name][0] != after[name][0]],
    )
