"""What the feeds lack, asked of the API: comment, DOI, journal, every category, exact times."""

from datetime import date, datetime

from django.db.models import F

from webapp.papers import api
from webapp.papers.days import now
from webapp.papers.models import Listing, Paper
from webapp.papers.store import prepare, store_papers

MOST_TRIES = 24  # the API is some hours behind the feeds now and then; it does not know everything


def enrich(most: int = api.IDS, *, at: datetime | None = None) -> tuple[int, set[date]]:
    """Ask the API about up to `most` papers it was not asked about, the latest first.

    Gives how many it answered for, and the days that these were announced on.
    Papers that it does not know yet go to the end of the queue and are given up after MOST_TRIES.
    Raises FetchError; nothing is changed then.
    """
    waiting = Paper.objects.filter(
        enriched_at=None, is_sample=False, enrich_tries__lt=MOST_TRIES
    ).order_by("enrich_tries", "-pk")
    asked = list(waiting.values_list("arxiv_id", flat=True)[:most])
    if not asked:
        return 0, set()
    wanted = set(asked)
    entries = [entry for entry in api.lookup(asked) if entry.arxiv_id in wanted]
    papers = store_papers(entries, None, prepare(entries), known_at=at or now())
    # Of a paper just replaced the API may know the version before, which is no answer.
    answered = [paper for paper in papers.values() if paper.enriched_at]
    unknown = Paper.objects.filter(arxiv_id__in=asked, enriched_at=None)
    unknown.update(enrich_tries=F("enrich_tries") + 1)
    days = Listing.objects.filter(announcements__paper__in=answered).order_by()
    return len(answered), set(days.values_list("date", flat=True).distinct())
