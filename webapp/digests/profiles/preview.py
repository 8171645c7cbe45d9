"""A preview of how changed settings of a profile would have changed its past days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from typing import NamedTuple

from webapp.digests.batch import Day, shown_before
from webapp.digests.build import rank_unseen
from webapp.digests.models import DigestEntry, Profile
from webapp.digests.scoring.rules import Kept, Rules, Standing
from webapp.digests.scoring.scorer import Scorer
from webapp.papers.queries import announced_on, dates

DAYS = 5  # a week of arXiv's


class Change(NamedTuple):
    """A paper that is added, dropped or moved: `place` is `+ 3`, `− 3` or `3→5`."""

    place: str
    entry: DigestEntry  # by the new rules; for a dropped paper by the old


@dataclass(frozen=True)
class DayChange:
    """One past day under both rules; lists are in the order of the digest."""

    date: Date
    before: int  # papers in the digest by the old rules
    after: int
    mentioned: int  # papers that stand folded behind the list, by the new rules
    added: Sequence[Change]
    dropped: Sequence[Change]
    moved: Sequence[Change]

    @property
    def is_same(self) -> bool:
        """True if both have the same papers in the same order."""
        return not (self.added or self.dropped or self.moved)


def preview_profile(profile: Profile | None, old: Rules | None, new: Rules) -> list[DayChange]:
    """Compare both rules over the last days with papers, the latest first.

    A new profile has no `old` rules.
    """
    days = [Day(date, announced_on(date)) for date in sorted(dates(DAYS))]
    # Papers of the first day that were in an earlier digest.
    shown = (
        shown_before(days[0], [profile.pk]).get(profile.pk, set()) if profile and days else set()
    )
    shown_new, shown_old = set(shown), set(shown)
    scorer = Scorer([new] if old is None else [new, old])
    changes = []
    for day in days:
        candidates = scorer.kept(day.candidates)
        after, mentioned = _ranked(day, new, candidates[0], shown_new)
        before = {} if old is None else _ranked(day, old, candidates[1], shown_old)[0]
        changes.append(_compare(day.date, before, after, mentioned))
    return changes[::-1]


def _ranked(
    day: Day, rules: Rules, candidates: Sequence[Kept], shown: set[int]
) -> tuple[dict[int, DigestEntry], int]:
    """Return the papers of the list by primary key, and the number of further ones."""
    ranked, _further = rank_unseen(day, rules, candidates, shown)
    shown.update(day.announced[paper.at].paper.pk for paper in ranked)
    entries = [
        DigestEntry(paper=day.announced[paper.at].paper, rank=rank, score=paper.score)
        for rank, paper in enumerate(ranked, 1)
        if paper.standing is Standing.ABOUT
    ]
    return {entry.paper_id: entry for entry in entries}, len(ranked) - len(entries)


def _compare(
    date: Date, before: dict[int, DigestEntry], after: dict[int, DigestEntry], mentioned: int
) -> DayChange:
    coming = [after[paper] for paper in after if paper not in before]
    going = [before[paper] for paper in before if paper not in after]
    staying = [(before[paper].rank, after[paper]) for paper in after if paper in before]
    return DayChange(
        date,
        len(before),
        len(after),
        mentioned,
        [Change(f"+ {entry.rank}", entry) for entry in coming],
        [Change(f"− {entry.rank}", entry) for entry in going],
        [Change(f"{old}→{entry.rank}", entry) for old, entry in staying if old != entry.rank],
    )
