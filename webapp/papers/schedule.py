"""The next requests to arXiv: today's batch of each category, then the missed days.

Failures of arXiv raise nothing here: the outcome of every poll is in the report and the audit. The
caller rebuilds the digests of `report.dates`.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from django.conf import settings

from webapp.papers.days import DAY, batch_days, eastern_date, has_batch, last_batch_day, now, runs
from webapp.papers.identifiers import checked_category
from webapp.papers.listings import open_rows
from webapp.papers.models import Listing
from webapp.papers.polling import FetchReport, Poller

ASKED_DAYS = 14  # days on which the API may have no papers of a batch before we give it up
MOST_MISSED = 60  # batches of a category in one fetch; more wait for the next
AGAIN = timedelta(hours=6)  # between polls of a complete day, which cost a 304
JUST_NOW = timedelta(seconds=10)  # in which one poll does for all who ask for one
BACKFILL_DAYS = 5  # batches of one query: 2,000 papers of a large category, one page
_FIRST_WAIT = timedelta(minutes=5)
_LONGEST_WAIT = timedelta(hours=1)


# Called with the steps done, their total number and the name of the next one.
Progress = Callable[[int, int, str], object]


def fetch(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Progress = lambda done, total, step: None,
    *,
    moment: datetime | None = None,
) -> FetchReport:
    """Poll today's batch of each category, then fetch the missed ones from the API.

    Missed are the days from `since`, or those that `missed` finds. Each batch is one transaction,
    so an interrupted fetch leaves whole days. `moment` is the current time by default.
    Raises ValueError for a name that cannot be a category; never for a failure of arXiv.
    """
    names = list(dict.fromkeys(map(checked_category, categories)))
    poller = Poller(moment or now())
    for done, category in enumerate(names):
        on_progress(done, len(names), f"{category} today")
        poller.poll(category)
    # After the feeds, which may have completed some of these days.
    gaps: list[tuple[str, list[date]]] = []
    for category in names:
        days = missed(category, poller.today, since)
        open_rows(category, days, poller.moment)
        gaps += [(category, run) for run in runs(days[-MOST_MISSED:], BACKFILL_DAYS)]
    total = len(names) + len(gaps)
    for done, (category, days) in enumerate(gaps, start=len(names)):
        on_progress(done, total, f"{category} {days[0]} to {days[-1]}")
        poller.backfill(category, days)
    on_progress(total, total, "done")
    return poller.report


def due(categories: list[str], moment: datetime) -> list[str]:
    """The categories to poll at `moment`, in the order given.

    A complete day is polled again every AGAIN; one that is stale, late, failed or, on a working
    day, empty, after a time that doubles from five minutes to an hour.
    """
    polled = Listing.objects.filter(date=eastern_date(moment), category__in=categories)
    rows = {row.category: row for row in polled}
    return [name for name in categories if name not in rows or moment >= _next_poll(rows[name])]


def unpolled(categories: list[str], asked_at: datetime) -> list[str]:
    """The categories that nobody polled from JUST_NOW before `asked_at` on, in the order given."""
    today = Listing.objects.filter(date=eastern_date(now()), category__in=categories)
    polled = set(
        today.filter(polled_at__gte=asked_at - JUST_NOW).values_list("category", flat=True)
    )
    return [name for name in categories if name not in polled]


def _next_poll(listing: Listing) -> datetime:
    if listing.state == Listing.State.COMPLETE or not has_batch(listing.date):
        return listing.polled_at + AGAIN
    wait = _FIRST_WAIT * 2 ** min(listing.polls - 1, 8) if listing.polls else timedelta(0)
    return listing.polled_at + min(wait, _LONGEST_WAIT)


def missed(category: str, today: date, since: date | None = None) -> list[date]:
    """The days before `today` to be fetched from the API now, oldest first.

    These are the working days whose batch is not settled: from `since`, or else from the first ever
    polled, at most ASSAY_CATCH_UP_DAYS back. A day for which the API had no papers today is retried
    tomorrow, on at most ASKED_DAYS days. A new category misses the last batch before `today` if
    today has none of its own, so that a new site shows Friday's papers on a Sunday.
    """
    listings = Listing.objects.filter(category=category).exclude(source=Listing.Source.SAMPLE)
    if since is None:
        oldest = listings.filter(date__lt=today).order_by("date").first()
        since = oldest.date if oldest else last_batch_day(today)
        # A date from outside sets no horizon: a feed of 1970 would ask for decades.
        since = max(since, today - settings.CATCH_UP_DAYS * DAY)
    rest = {
        row.date
        for row in listings.filter(date__gte=since)
        if row.settled
        or today.isoformat() in row.api_empty_on
        or len(row.api_empty_on) >= ASKED_DAYS
    }
    return [day for day in batch_days(since, today - DAY) if day not in rest]
