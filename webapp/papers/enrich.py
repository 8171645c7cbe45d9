"""Fill in from the API what feeds lack: comment, DOI, journal, all categories, exact times."""

from datetime import date, datetime

from django.db.models import F

from webapp.papers import arxiv_api
from webapp.papers.days import now
from webapp.papers.models import Listing, Paper
from webapp.papers.store import prepare, store_papers

MOST_TRIES = 24  # the API is sometimes hours behind the feeds, and lacks some papers


def enrich(most: int = arxiv_api.IDS, *, moment: datetime | None = None) -> tuple[int, set[date]]:
    """Look up to `most` papers without the API's data up in the API, the latest first.

    Returns how many it has, and the days on which these were announced. Papers that it does not
    have yet go to the end of the queue and are given up after MOST_TRIES.
    Raises FetchError, with nothing changed.
    """
    # A sample paper is asked for once its day has gone and a reader keeps it.
    waiting = Paper.objects.exclude(
        is_sample=True, announcements__listing__source=Listing.Source.SAMPLE
    ).filter(enriched_at=None, enrich_tries__lt=MOST_TRIES)
    waiting = waiting.order_by("enrich_tries", "-pk")
    identifiers = list(waiting.values_list("arxiv_id", flat=True)[:most])
    entries = [entry for entry in arxiv_api.lookup(identifiers) if entry.arxiv_id in identifiers]
    papers = store_papers(entries, None, prepare(entries), known_at=moment or now())
    # Of a paper just replaced the API may still have the previous version.
    answered = [paper for paper in papers.values() if paper.enriched_at]
    unknown = Paper.objects.filter(arxiv_id__in=identifiers, enriched_at=None)
    unknown.update(enrich_tries=F("enrich_tries") + 1)
    days = Listing.objects.filter(announcements__paper__in=answered).order_by()
    return len(answered), set(days.values_list("date", flat=True).distinct())
