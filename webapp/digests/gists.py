"""Gists: one sentence a paper, from its summary to the cards and feeds of the digests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date as Date

from django.db import transaction

from webapp.digests import entries
from webapp.digests.models import DigestEntry, Gist, Profile


def store_gist(paper_id: int, language: str, text: str, html: str, details: str) -> list[Date]:
    """Store a paper's gist and show it in every digest that holds the paper; the days changed.

    `text` is plain, for a feed's description; `html` stands on cards, `details` (the summary and
    its claims) in a feed's content; both are sanitised.

    Idempotent: a gist that is known changes nothing.
    """
    texts = {"text": text, "html": html, "details": details}
    if Gist.objects.filter(paper_id=paper_id, language=language, **texts).exists():
        return []
    with transaction.atomic():
        entries.take_turns(Profile.objects.filter(language=language))
        Gist.objects.update_or_create(paper_id=paper_id, language=language, defaults=texts)
        shown = DigestEntry.objects.filter(digest__profile__language=language, paper=paper_id)
        return entries.put(shown, gist=text, gist_html=html)


def papers_to_summarise(papers_a_day: int, days: int = 2) -> Iterable[tuple[str, list[int]]]:
    """(Language, paper ids) to summarise without a request: the top of the latest digests."""
    for profile in Profile.objects.all():
        for digest in profile.digests.filter(is_sample=False).order_by("-date")[:days]:
            top = digest.entries.filter(rank__lte=papers_a_day)
            yield profile.language, list(top.values_list("paper_id", flat=True))
