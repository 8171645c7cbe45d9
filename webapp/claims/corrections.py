"""Readers' corrections of what a page says of a paper: its quotes, tables, claims and links.

The last correction of a subject wins over everything computed, until it is undone. Each is kept
with its author. A quote may only be replaced by other words of the same abstract.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.claims.extraction import quotes
from webapp.claims.extraction.quotes import Quote
from webapp.claims.models import Correction
from webapp.core.hooks import Hook
from webapp.papers.models import Paper

Kind = Correction.Kind


@Hook
def link_corrected(paper: Paper, method: str, /) -> None:
    """Write the last correction of a link to the link."""


@Hook
def cells_corrected(paper: Paper, /) -> None:
    """Compare again what was compared with the cells of a paper's tables."""


def correct(paper: Paper, kind: Kind, subject: str, value: Any, reader: User) -> Correction:
    """Store and apply a correction; a value of None hides or rejects its subject."""
    with transaction.atomic():
        _lock(paper)
        correction = Correction.objects.create(
            paper=paper, kind=kind, subject=subject, value=value, reader=reader
        )
        _apply(paper, kind, subject)
    if kind == Kind.CELL:
        cells_corrected(paper)
    return correction


def undo(correction: Correction) -> None:
    """Undo a correction; the one before it counts again. Idempotent."""
    with transaction.atomic():
        _lock(correction.paper)
        standing = Correction.objects.filter(pk=correction.pk, undone_at=None)
        if standing.update(undone_at=timezone.now()):
            _apply(correction.paper, correction.kind, correction.subject)
    if correction.kind == Kind.CELL:
        cells_corrected(correction.paper)


def undo_last(paper: Paper, kind: Kind, subject: str) -> bool:
    """Undo the last correction of a subject; return whether there was one."""
    last = active(paper).filter(kind=kind, subject=subject).last()
    if last is not None:
        undo(last)
    return last is not None


def active(paper: Paper) -> QuerySet[Correction]:
    """Return the corrections of a paper that were not undone, the last one last."""
    return Correction.objects.filter(paper=paper, undone_at=None).order_by("pk")


def corrected(paper: Paper, kind: Kind) -> Mapping[str, Any]:
    """Return the corrected values of a paper by subject; needs no query."""
    by_subject: Mapping[str, Any] = (paper.corrections or {}).get(kind, {})
    return by_subject


@dataclass(frozen=True)
class AppliedCorrection:
    """A correction that counts, as a page lists it."""

    kind: Kind
    subject: str
    value: Any


def changes(paper: Paper, *kinds: str) -> list[AppliedCorrection]:
    """Return the corrections of some kinds that count; needs no query."""
    return [
        AppliedCorrection(kind, subject, value)
        for kind in map(Kind, kinds)
        for subject, value in corrected(paper, kind).items()
    ]


def quotes_of(paper: Paper) -> tuple[Quote, ...]:
    """Return the quotes of a paper's abstract, as readers corrected them."""
    return corrected_quotes(paper.abstract, corrected(paper, Kind.QUOTE))


def headline_of(paper: Paper, said: str = "") -> Quote | None:
    """Return the quote for a row, as readers corrected it, that does not repeat what is said."""
    return quotes.shortest([quote for quote in quotes_of(paper) if not quote.repeats(said)])


def corrected_quotes(abstract: str, corrections: Mapping[str, str | None]) -> tuple[Quote, ...]:
    """Return the quotes of an abstract, each by its plain text replaced or left out.

    What corrects none of them is one that the rules missed, as far as the abstract has its words.
    """
    computed = quotes.quotes(abstract)
    if not corrections:
        return computed
    shown = []
    for quote in computed:
        clause = corrections.get(quote.text, "")
        if clause and (better := quotes.quote_in(abstract, clause)):
            shown.append(replace(better, instead_of=quote.text))
        elif clause is not None:
            shown.append(quote)
    texts = {quote.text for quote in computed}
    for subject, clause in corrections.items():
        missed = quotes.quote_in(abstract, clause) if clause and subject not in texts else None
        if missed and not any(missed.overlaps(quote) for quote in shown):
            shown.append(replace(missed, instead_of=subject))
    return tuple(sorted(shown, key=lambda quote: quote.start))


def _lock(paper: Paper) -> None:
    """Let two corrections of one paper wait for each other."""
    Paper.objects.select_for_update().get(pk=paper.pk)


def _apply(paper: Paper, kind: str, subject: str) -> None:
    """Write the last corrections where pages read them."""
    if kind == Kind.LINK:
        link_corrected(paper, subject)
        return
    values: dict[str, dict[str, Any]] = {}
    for row in active(paper).exclude(kind=Kind.LINK):
        values.setdefault(row.kind, {})[row.subject] = row.value
    paper.corrections = values or None
    paper.save(update_fields=["corrections"])
