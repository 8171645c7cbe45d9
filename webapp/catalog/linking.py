"""Papers to methods, by identifiers and by words, each link with what made it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice

from django.db import transaction
from django.utils import timezone

from methods import registry
from methods.spec import Method
from webapp.catalog.models import LinkPulse, MethodLink
from webapp.papers.models import Listing, Paper

Reason = MethodLink.Reason
BATCH = 500


@dataclass(frozen=True)
class Found:
    """Why a paper concerns a method."""

    method: str
    reason: Reason
    words: str


@dataclass(frozen=True)
class _Signs:
    """What gives a paper's concern with one method away."""

    method: str
    sources: frozenset[str]
    named: frozenset[str]
    cited: re.Pattern[str] | None
    words: re.Pattern[str] | None

    @staticmethod
    def of(method: Method) -> _Signs:
        ids = [paper.arxiv_id for paper in method.papers]
        return _Signs(
            method.slug,
            frozenset(p.arxiv_id for p in method.papers if p.role == "source"),
            frozenset(ids),
            _any_of(ids, r"(?<![\d.]){}(?!\d)"),
            _any_of(method.aliases, r"(?<!\w){}s?(?!\w)"),
        )

    def found(self, paper: Paper) -> Found | None:
        """The strongest sign in a paper; None where there is none."""
        if paper.arxiv_id in self.sources:
            return Found(self.method, Reason.SOURCE, paper.arxiv_id)
        if paper.arxiv_id in self.named:
            return Found(self.method, Reason.NAMED, paper.arxiv_id)
        text = f"{paper.title}\n{paper.abstract}\n{paper.comment}"
        for pattern, reason in ((self.cited, Reason.CITES), (self.words, Reason.WORDS)):
            if pattern and (match := pattern.search(text)):
                return Found(self.method, reason, " ".join(match[0].split())[:200])
        return None


def _any_of(names: Iterable[str], frame: str) -> re.Pattern[str] | None:
    """A pattern for any of the names as whole words, blanks and hyphens alike, longest first."""
    escaped = [
        r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", name)))
        for name in sorted(names, key=len, reverse=True)
    ]
    if not escaped:
        return None
    return re.compile(frame.format(f"(?:{'|'.join(escaped)})"), re.IGNORECASE)


@cache
def _signs() -> tuple[_Signs, ...]:
    return tuple(_Signs.of(method) for method in registry.all_methods())


def concerns(paper: Paper) -> list[Found]:
    """The methods a paper concerns, in the registry's order."""
    return [found for signs in _signs() if (found := signs.found(paper))]


def link_new() -> int:
    """Link what came since the last call, or everything where the methods changed; how many."""
    signs = sha256(repr(_signs()).encode()).hexdigest()
    pulse = LinkPulse.objects.filter(pk=1).first()
    known = pulse is not None and pulse.signs == signs
    listings = Listing.objects.order_by("changed_at")
    if known and pulse:
        listings = listings.filter(changed_at__gt=pulse.linked_until)
    latest = listings.last()
    papers = Paper.objects.all()
    if known:
        papers = papers.filter(announcements__listing__in=listings).distinct()
    changed = link(papers.iterator(BATCH)) if latest or not known else 0
    if latest or not known:
        until = latest.changed_at if latest else timezone.now()
        LinkPulse.objects.update_or_create(pk=1, defaults={"linked_until": until, "signs": signs})
    return changed


def link(papers: Iterable[Paper]) -> int:
    """Write the links of `papers` as they are now; how many changed. Idempotent."""
    changed, left = 0, iter(papers)
    while batch := list(islice(left, BATCH)):
        with transaction.atomic():
            changed += _write(batch)
    return changed


def _write(papers: list[Paper]) -> int:
    old = {(row.paper_id, row.method): row for row in MethodLink.objects.filter(paper__in=papers)}
    new = {
        (paper.pk, found.method): MethodLink(
            paper=paper, method=found.method, reason=found.reason, words=found.words
        )
        for paper in papers
        for found in concerns(paper)
    }
    gone = [row.pk for key, row in old.items() if key not in new]
    written = [
        row
        for key, row in new.items()
        if key not in old or (old[key].reason, old[key].words) != (row.reason, row.words)
    ]
    MethodLink.objects.filter(pk__in=gone).delete()
    MethodLink.objects.bulk_create(
        written,
        update_conflicts=True,
        unique_fields=["paper", "method"],
        update_fields=["reason", "words"],
    )
    return len(gone) + len(written)
