"""The sample day, shown until arXiv is reached for the first time."""

from datetime import date, datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction

from webapp.papers.days import now
from webapp.papers.entries import Batch, Entry
from webapp.papers.formats import parse_feed
from webapp.papers.models import Listing
from webapp.papers.polling import FetchReport, Poller

SAMPLE = Path(settings.BASE_DIR) / "sample" / "rss_2025-12-18.xml"
SAMPLE_DAY = date(2025, 12, 18)
SAMPLE_CATEGORIES = ("cs.AI", "cs.CL", "cs.DC", "cs.LG")  # those of the feed's title


def load_sample(reason: str = "", *, moment: datetime | None = None) -> FetchReport:
    """Load the sample day while there is no real one; `reason` says why there is none.

    The file is parsed and stored like a feed. Does nothing once there is a real day. Raises
    BrokenFeedError for a damaged file.
    """
    poller = Poller(moment or now())
    with transaction.atomic():
        real = Listing.objects.exclude(source=Listing.Source.SAMPLE)
        if real.filter(state=Listing.State.COMPLETE).exists() or sample_days():
            return poller.report
        batch = parse_feed(SAMPLE.read_bytes(), "cs.AI", SAMPLE_DAY)
        note = "A sample: the abstracts are Assay's own summaries."
        for category in SAMPLE_CATEGORIES:
            entries = tuple(entry for entry in batch.entries if _listed_under(entry) == category)
            part = Batch(category, batch.date, entries, note=f"{note} {reason}".strip())
            poller.store(part, Listing.Source.SAMPLE)
    return poller.report


def _listed_under(entry: Entry) -> str:
    """The first of the sample's categories that announced it."""
    return next(category for category in entry.categories if category in SAMPLE_CATEGORIES)


def sample_days() -> set[date]:
    """The days of the sample while it is shown; empty once there is a real batch."""
    sample = Listing.objects.filter(source=Listing.Source.SAMPLE)
    return set(sample.values_list("date", flat=True))
