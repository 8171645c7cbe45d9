"""What became of each poll, in words: the `Listing` rows, and what they say is still to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from django.db.models import Max

from webapp.papers.days import DAY, batch_days, eastern_date, has_batch, last_batch_day
from webapp.papers.entries import Batch
from webapp.papers.models import AnnounceType, Listing

SETTLED = (Listing.State.COMPLETE, Listing.State.EMPTY)
LOOK_BACK = 14  # days in which a missed batch is fetched unasked
STALE_SHARE = 0.5  # of a batch's papers, known from the previous batch
AGAIN = timedelta(hours=6)  # a settled day is asked for again, at the price of a 304
_FIRST_WAIT = timedelta(minutes=5)
_LONGEST_WAIT = timedelta(hours=1)


@dataclass(frozen=True)
class Outcome:
    """What a poll that brought no papers came to."""

    state: Listing.State
    source: Listing.Source
    reason: str
    etag: str = ""
    last_modified: str = ""


def repeated(batch: Batch) -> str:
    """Why `batch` is an old one under a new date; nothing where it is fresh.

    A paper is new in a category once, so new papers decide; a batch without any is judged by all
    its papers. arXiv's own date says nothing: a feed built too early carries the new one.
    """
    previous = (
        Listing.objects.filter(
            category=batch.category, date__lt=batch.date, state=Listing.State.COMPLETE
        )
        .exclude(source=Listing.Source.SAMPLE)
        .first()
    )
    if not batch.entries:
        return ""
    if previous is not None and _overlap(batch, previous) >= STALE_SHARE:
        return f"arXiv sends the batch of {previous.date} again under this date"
    other = _other(batch)
    if other is not None and not _is_later(batch, other):
        return "arXiv sends older papers than it sent before under this date"
    return ""


def displaces(batch: Batch) -> bool:
    """Whether the batch brings other, later papers than the day's complete listing has.

    That listing is then the batch before, not known as such: the very first poll of a category
    met a stale feed.
    """
    other = _other(batch)
    return other is not None and _is_later(batch, other)


def _other(batch: Batch) -> Listing | None:
    """The day's complete listing from a feed, where it holds other papers than `batch`."""
    standing = Listing.objects.filter(
        category=batch.category,
        date=batch.date,
        state=Listing.State.COMPLETE,
        source__in=(Listing.Source.RSS, Listing.Source.ATOM),
    ).first()
    if standing is None or not batch.entries or _overlap(batch, standing) >= STALE_SHARE:
        return None
    return standing


def _is_later(batch: Batch, listing: Listing) -> bool:
    """Whether the batch's papers were submitted later: identifiers are given in that order."""
    known = listing.announcements.filter(type=AnnounceType.NEW)
    newest = known.aggregate(newest=Max("paper__arxiv_id"))["newest"] or ""
    ours = [entry.arxiv_id for entry in batch.entries if entry.type == AnnounceType.NEW]
    return max(ours, default="") > newest


def _overlap(batch: Batch, listing: Listing) -> float:
    """The share of the batch's papers that `listing` announced in the same version."""
    keys = {entry.key for entry in batch.entries if entry.type == AnnounceType.NEW}
    keys = keys or {entry.key for entry in batch.entries}
    known = set(listing.announcements.values_list("paper__arxiv_id", "version"))
    return len(keys & known) / len(keys)


def note(category: str, day: date, outcome: Outcome, at: datetime) -> Listing:
    """Record a poll that brought no papers.

    A complete listing keeps what it has, and a failure overwrites nothing that an earlier poll
    of the day had found.
    """
    listing, _ = Listing.objects.get_or_create(
        category=category,
        date=day,
        defaults={
            "state": outcome.state,
            "source": outcome.source,
            "polled_at": at,
            "changed_at": at,
        },
    )
    failed = outcome.state == Listing.State.FAILED
    if listing.state == outcome.state or not (failed or listing.state == Listing.State.COMPLETE):
        if (listing.state, listing.reason) != (outcome.state, outcome.reason):
            listing.changed_at = at
        for name, value in asdict(outcome).items():
            setattr(listing, name, value)
    touch(listing, at)
    return listing


def touch(listing: Listing, at: datetime) -> None:
    """Record that a listing was asked for once more."""
    listing.polls += 1
    listing.polled_at = at
    listing.save()


def late(served: date, today: date) -> str:
    """Why a feed dated `served` is not enough on `today`; nothing where it is."""
    if served >= today or not has_batch(today):
        return ""
    return f"arXiv still serves the batch of {served:%A} {served}"


def empty_reason(day: date) -> str:
    """Why a valid feed may hold no papers."""
    if not has_batch(day):
        return f"arXiv announces nothing on a {day:%A}"
    return "a valid feed without papers: a holiday, or nothing was announced"


def due(categories: list[str], at: datetime) -> list[str]:
    """The categories to be asked for at `at`, in the order given.

    A day whose batch has come is asked for again every AGAIN; a stale, late or failed one, and a
    working day without papers, after a time that doubles from five minutes to an hour.
    """
    today = eastern_date(at)
    rows = {
        row.category: row for row in Listing.objects.filter(date=today, category__in=categories)
    }
    return [name for name in categories if name not in rows or at >= _next_poll(rows[name])]


def _next_poll(listing: Listing) -> datetime:
    if listing.state == Listing.State.COMPLETE or not has_batch(listing.date):
        return listing.polled_at + AGAIN
    wait = _FIRST_WAIT * 2 ** min(listing.polls - 1, 8) if listing.polls else timedelta(0)
    return listing.polled_at + min(wait, _LONGEST_WAIT)


def missed(category: str, today: date, since: date | None = None) -> list[date]:
    """The days before `today` whose batch never came, oldest first.

    With `since`, every day from there. Else the days of the last two weeks since the category was
    first asked for; a category never asked for misses the last batch before `today` only when
    today has none of its own, so that a first look on a Sunday shows Friday's papers.
    """
    listings = Listing.objects.filter(category=category).exclude(source=Listing.Source.SAMPLE)
    if since is None:
        oldest = listings.filter(date__lt=today).order_by("date").first()
        first = oldest.date if oldest else last_batch_day(today)
        since = max(first, today - timedelta(days=LOOK_BACK))
    settled = set(
        listings.filter(state__in=SETTLED, date__gte=since).values_list("date", flat=True)
    )
    return [day for day in batch_days(since, today - DAY) if day not in settled]
