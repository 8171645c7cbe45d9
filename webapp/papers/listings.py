"""The audit: one `Listing` row for each category and day, with the outcome of its polls.

Whether a batch is fresh is decided here too, by comparing it with earlier listings.
"""

from collections.abc import Sequence
from datetime import date, datetime

from django.db import transaction
from django.db.models import Max

from webapp.papers.days import eastern_date
from webapp.papers.entries import Batch
from webapp.papers.models import AnnounceType, Listing

KEPT_FAILURES = 50  # of a listing, the latest
STALE_SHARE = 0.5  # of a batch's papers, known from the previous batch


def judge(batch: Batch) -> tuple[str, bool]:
    """Return a reason if `batch` is an old one under a new date, and whether it replaces a listing.

    A paper is new in a category only once, so new papers decide; a batch without any is judged by
    all its papers. arXiv's own date is no evidence, because a feed built too early has the new one.
    If the day's complete listing has other, earlier papers, it is the previous batch, not
    recognised as such: the very first poll of a category got a stale feed.
    """
    if not batch.entries:
        return "", False
    complete = Listing.objects.filter(category=batch.category, state=Listing.State.COMPLETE)
    earlier = complete.filter(date__lt=batch.date).exclude(source=Listing.Source.SAMPLE)
    previous = earlier.first()
    if (
        previous is not None
        and _overlap(batch, previous) >= STALE_SHARE
        # On a holiday, the API has papers that arXiv announces only after it.
        and not (previous.source == Listing.Source.API and _is_later(batch, previous))
    ):
        return f"arXiv sends the batch of {previous.date} again under this date", False
    of_feeds = (Listing.Source.RSS, Listing.Source.ATOM)
    standing = complete.filter(date=batch.date, source__in=of_feeds).first()
    if standing is None or _overlap(batch, standing) >= STALE_SHARE:
        return "", False
    if _is_later(batch, standing):
        return "", True
    return "arXiv sends older papers than it sent before under this date", False


def _is_later(batch: Batch, listing: Listing) -> bool:
    """True if the batch's papers were submitted later, going by their identifiers."""
    announced = listing.announcements.filter(type=AnnounceType.NEW)
    newest = announced.aggregate(newest=Max("paper__arxiv_id"))["newest"] or ""
    ours = [entry.arxiv_id for entry in batch.entries if entry.type == AnnounceType.NEW]
    return max(ours, default="") > newest


def _overlap(batch: Batch, listing: Listing) -> float:
    """The share of the batch's papers that `listing` announced in the same version."""
    keys = {entry.key for entry in batch.entries if entry.type == AnnounceType.NEW}
    keys = keys or {entry.key for entry in batch.entries}
    announced = set(listing.announcements.values_list("paper__arxiv_id", "version"))
    return len(keys & announced) / len(keys)


@transaction.atomic
def record_outcome(outcome: Listing) -> Listing:
    """Record a poll that brought no papers: `outcome` is the listing by this poll alone.

    A complete listing keeps what it has, and a failure overwrites no result of an earlier poll of
    the day.
    """
    polled_at = outcome.polled_at
    listing = Listing.locked(outcome.category, outcome.date, polled_at, outcome.state)
    _store_evidence(listing, outcome)
    is_kept = outcome.state != listing.state and outcome.state in _weaker_than(listing)
    names = () if is_kept else ("state", "source", "reason", "etag", "last_modified")
    listing.record_poll(polled_at, {name: getattr(outcome, name) for name in names})
    return listing


def _weaker_than(listing: Listing) -> set[Listing.State]:
    """The outcomes that must not overwrite the listing's state."""
    if listing.state == Listing.State.COMPLETE:
        return set(Listing.State)
    # A feed with an old batch is no evidence of an empty day, nor is an empty answer of the API.
    if listing.state == Listing.State.STALE:
        return {Listing.State.FAILED, Listing.State.EMPTY}
    return {Listing.State.FAILED}


def _store_evidence(listing: Listing, outcome: Listing) -> None:
    """Keep the evidence for and against an empty day: failures, and which sources had no papers."""
    polled_at = outcome.polled_at
    if outcome.state in {Listing.State.FAILED, Listing.State.STALE}:
        failure = {"at": polled_at.isoformat(), "source": outcome.source, "reason": outcome.reason}
        listing.failures = [*listing.failures, failure][-KEPT_FAILURES:]
    elif outcome.source == Listing.Source.API:
        listing.api_empty_on = sorted({*listing.api_empty_on, eastern_date(polled_at).isoformat()})
    else:
        listing.feed_was_empty = True


def open_rows(category: str, days: Sequence[date], moment: datetime) -> None:
    """Give every day a row before it is fetched, so that none is missing silently."""
    rows = [
        Listing(
            category=category,
            date=day,
            state=Listing.State.FAILED,
            source=Listing.Source.API,
            reason="not requested: nothing was fetched on that day",
            polled_at=moment,
            changed_at=moment,
        )
        for day in days
    ]
    Listing.objects.bulk_create(rows, ignore_conflicts=True)
