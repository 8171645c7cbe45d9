"""Gists: one sentence a paper, from its summary to the cards and feeds of the digests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date as Date

from webapp.digests.build import build
from webapp.digests.models import Digest, Gist, Profile


def tell(paper_id: int, language: str, text: str, html: str, details: str) -> list[Date]:
    """Keep a paper's gist and show it in every digest that holds the paper; the days rebuilt.

    `text` is plain, for a feed's description; `html` stands on cards, `details` (the summary and
    its claims) in a feed's content; both are sanitised.

    Idempotent: a gist that is known changes nothing.
    """
    said = {"text": text, "html": html, "details": details}
    if Gist.objects.filter(paper_id=paper_id, language=language, **said).exists():
        return []
    Gist.objects.update_or_create(paper_id=paper_id, language=language, defaults=said)
    shown = Digest.objects.filter(profile__language=language, entries__paper_id=paper_id)
    dates = sorted(set(shown.values_list("date", flat=True)))
    build(dates, Profile.objects.filter(language=language))
    return dates


def wanted(papers_a_day: int, days: int = 2) -> Iterable[tuple[str, list[int]]]:
    """What deserves a summary unasked: (language, paper ids), the top of the latest digests."""
    for profile in Profile.objects.all():
        for digest in profile.digests.filter(is_sample=False).order_by("-date")[:days]:
            top = digest.entries.filter(rank__lte=papers_a_day)
            yield profile.language, list(top.values_list("paper_id", flat=True))
