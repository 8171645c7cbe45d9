"""A day's papers as digests are built from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from functools import cached_property

from webapp.digests.scoring.scorer import Candidate, Rules
from webapp.papers.models import Announcement
from webapp.papers.queries import Announced, announced_on

# In a fingerprint: raise it when what a digest stores of the same papers looks different.
ENTRY_FORMAT = 2


@dataclass(frozen=True)
class Batch:
    """A day's papers as scoring sees them, in the order of identifiers."""

    date: Date
    announced: Sequence[Announced]
    candidates: Sequence[Candidate]

    def considered(self, rules: Rules) -> int:
        """How many of them the rules look at."""
        return sum(rules.admits(one.categories, one.announce_type) for one in self.candidates)

    @cached_property
    def is_sample(self) -> bool:
        """Whether these are the sample's papers."""
        return any(one.paper.is_sample for one in self.announced)


def load_batch(date: Date) -> Batch:
    """The papers announced on `date`, with the categories that announced them."""
    listed: dict[int, list[str]] = defaultdict(list)
    rows = Announcement.objects.filter(listing__date=date).order_by("listing__category")
    for paper, category in rows.values_list("paper_id", "listing__category"):
        listed[paper].append(category)
    announced = announced_on(date)
    return Batch(
        date,
        announced,
        [
            Candidate(
                one.paper.arxiv_id,
                one.paper.title,
                one.paper.abstract,
                tuple(listed[one.paper.pk]),
                one.type.value,
                one.paper.submitted_at,
                tuple(author["name"] for author in one.paper.authors),
            )
            for one in announced
        ],
    )
