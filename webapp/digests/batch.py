"""A day's papers, and fingerprints of all inputs of a digest: an unchanged one is not rebuilt.

Gists and method chips are not inputs: they are written straight into the entries (`entries.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date as Date
from functools import cached_property
from hashlib import sha256

from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.scoring.scorer import Candidate, Rules
from webapp.papers.queries import Announced

# Part of fingerprints: raise it when digests store the same papers differently.
ENTRY_FORMAT = 4


@dataclass(frozen=True)
class Batch:
    """A day's papers, in the order of identifiers."""

    date: Date
    announced: Sequence[Announced]

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """As scoring reads them."""
        return [
            Candidate(
                one.paper.arxiv_id,
                one.paper.title,
                one.paper.abstract,
                one.categories,
                one.announce_type.value,
                one.paper.submitted_at,
                tuple(one.paper.author_names),
            )
            for one in self.announced
        ]

    def considered(self, rules: Rules) -> int:
        """How many of them the rules look at."""
        if rules.admits_all:
            return len(self.announced)
        return sum(rules.admits(one.categories, one.announce_type) for one in self.candidates)

    @cached_property
    def is_sample(self) -> bool:
        """Whether these are the sample's papers."""
        return any(one.paper.is_sample for one in self.announced)


def fingerprints(day: Batch, rules: Mapping[Profile, Rules]) -> dict[int, str]:
    """A hash of all inputs of each profile's digest of `day`, by profile; one query for all."""
    papers = _of_papers(day)
    before = shown_before(day, rules)
    return {
        profile.pk: sha256(
            repr((papers, str(profile.language), own, sorted(before[profile.pk]))).encode()
        ).hexdigest()
        for profile, own in rules.items()
    }


def unchanged(date: Date, inputs: Mapping[int, str]) -> list[Digest]:
    """The digests of `date` that were built from these inputs; one query."""
    digests = Digest.objects.filter(date=date, profile__in=inputs).order_by("profile_id")
    return [digest for digest in digests if digest.inputs == inputs[digest.profile_id]]


def _of_papers(day: Batch) -> str:
    """A hash of all that a digest shows or scores of the day's papers."""
    seen = sha256(repr((ENTRY_FORMAT, day.is_sample)).encode())
    for one, candidate in zip(day.announced, day.candidates, strict=True):
        paper = one.paper
        shown = (one.version, paper.categories, paper.comment, paper.doi, paper.journal_ref)
        seen.update(repr((candidate, shown)).encode())
    return seen.hexdigest()


def shown_before(day: Batch, profiles: Iterable[Profile]) -> Mapping[int, set[int]]:
    """Which of the day's papers are in an earlier digest, by profile."""
    earlier = DigestEntry.objects.filter(
        digest__profile__in=[profile.pk for profile in profiles],
        digest__date__lt=day.date,
        paper__in=[one.paper.pk for one in day.announced],
    )
    found: dict[int, set[int]] = defaultdict(set)
    for profile, paper in earlier.values_list("digest__profile_id", "paper_id"):
        found[profile].add(paper)
    return found
