"""Polling arXiv: today's batch from the feeds, missed days from the API, into the store.

Failures of arXiv raise nothing here: the outcome of every poll is in the report and the audit.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from django.conf import settings
from django.db.models import F

from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError
from webapp.papers import arxiv_api, fetch, listings
from webapp.papers.days import DAY, eastern_date, has_batch
from webapp.papers.entries import Batch, Entry
from webapp.papers.formats import BrokenFeedError, parse_feed
from webapp.papers.models import CONFIRMATIONS, AnnounceType, Listing
from webapp.papers.store import prepare, store_batch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FetchReport:
    """The outcome of each poll of a fetch, and the days whose papers it changed."""

    # Of a poll without papers, what it found by itself: the stored listing may hold the papers of
    # an earlier poll.
    rows: list[Listing] = field(default_factory=list)
    dates: set[date] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """True if every poll failed."""
        return bool(self.rows) and all(row.state == Listing.State.FAILED for row in self.rows)

    @property
    def reason(self) -> str:
        """Reason why the first of the failed rows failed."""
        return next((row.reason for row in self.rows if row.state == Listing.State.FAILED), "")


class Poller:
    """One fetch: its report so far, and whether arXiv still answers."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment
        self.today = eastern_date(moment)
        self.report = FetchReport()
        self.away = ""  # why arXiv gets no more requests

    def poll(self, category: str) -> None:
        """Request today's batch of `category`: RSS, and Atom if RSS is broken."""
        reasons: list[str] = []
        for source in (Listing.Source.RSS, Listing.Source.ATOM):
            if self.away:
                break
            try:
                self._poll(category, source)
                return
            except (fetch.OutOfReachError, fetch.AskedToWaitError) as error:
                self.away = str(error)
            except (fetch.BadAnswerError, UnreadableError) as error:
                reasons.append(f"{source.label}: {error}")
        reason = "; ".join(filter(None, [*reasons, self.away]))
        self._failed(category, self.today, Listing.Source.RSS, reason)

    def _poll(self, category: str, source: Listing.Source) -> None:
        polled = Listing.objects.filter(category=category, source=source).order_by("-polled_at")
        previous = polled.exclude(etag="", last_modified="").first() or Listing()
        conditions = {"if-none-match": previous.etag, "if-modified-since": previous.last_modified}
        headers = {name: value for name, value in conditions.items() if value}
        answer = fetch.get(f"{settings.ARXIV_RSS_URL}/{source.value}/{category}", headers)
        if answer.status == 304:
            if not previous.pk:
                raise fetch.BadAnswerError("arXiv answers 304 to a request without conditions")
            # Another process may have stored more of the day while this one waited.
            Listing.objects.filter(pk=previous.pk).update(
                polls=F("polls") + 1, polled_at=self.moment
            )
            previous.refresh_from_db()
            self.report.rows.append(previous)
            self._record_late(category, previous.date, source)
            return
        parsed = sandbox.run(parse_feed, answer.body, category, self.today)
        batch = self._with_refused(parsed)
        if not _missing_papers(batch):  # else request the whole feed again next time
            etag, last_modified = map(answer.headers.get, ("etag", "last-modified"))
            batch = replace(batch, etag=etag or "", last_modified=last_modified or "")
        self._take(batch, source)
        self._record_late(category, batch.date, source)

    def _with_refused(self, batch: Batch, version: int | None = None) -> Batch:
        """The batch with its rejected entries as the API has them.

        They count as announced in `version`, or in the version that the rejected entry names.
        """
        versions = _missing_papers(batch)
        if not versions:
            return batch
        try:
            entries = arxiv_api.lookup(list(versions)[: arxiv_api.PAGE])
        except fetch.FetchError as error:
            message = "%d entries of %s were rejected and the API failed: %s"
            log.warning(message, len(versions), batch.category, error)
            return batch
        got = [
            _announced(entry, batch.category, version or versions[entry.arxiv_id])
            for entry in entries
            if entry.arxiv_id in versions
        ]
        taken = {entry.arxiv_id for entry in got}
        problems = [
            replace(problem, reason=f"{problem.reason}; taken from the API instead")
            if problem.paper and problem.paper[0] in taken
            else problem
            for problem in batch.problems
        ]
        return replace(batch, entries=(*batch.entries, *got), problems=tuple(problems))

    def _take(self, batch: Batch, source: Listing.Source) -> None:
        """Store a batch, or record why not: it is stale or empty. Raises for a future date."""
        if batch.date > self.today + DAY:
            raise BrokenFeedError(f"the feed is dated {batch.date}, which has not come yet")
        reason, replaces = listings.judge(batch)
        if batch.entries and not reason:
            self.store(batch, source, replaces=replaces)
            return
        state = Listing.State.STALE if reason else Listing.State.EMPTY
        reason = reason or _empty_reason(batch.date)
        facts = {"reason": reason, "etag": batch.etag, "last_modified": batch.last_modified}
        self._record(batch.category, batch.date, state, source, **facts)

    def backfill(self, category: str, days: Sequence[date]) -> None:
        """Fetch the batches of consecutive `days` from the API."""
        source = Listing.Source.API
        batches: dict[date, Batch] = {}
        failure = self.away
        if not failure:
            try:
                batches = arxiv_api.submitted(category, days[0], days[-1])
            except fetch.FetchError as error:
                failure = str(error)
                self.away = "" if isinstance(error, fetch.BadAnswerError) else failure
        for day in days:
            batch = batches.get(day)
            if batch:
                batch = self._with_refused(batch, version=1)
            if failure:
                self._failed(category, day, source, failure)
            elif batch and batch.entries:
                self.store(batch, source)
            elif batch:
                reason = f"none of its entries can be read; the first: {batch.problems[0].reason}"
                self._failed(category, day, source, reason)
            else:
                reason = "the API has no papers submitted for this day"
                self._record(category, day, Listing.State.EMPTY, source, reason=reason)

    def store(self, batch: Batch, source: Listing.Source, *, replaces: bool = False) -> None:
        """Store a fresh batch and report it; `replaces` what the day's listing had."""
        if replaces:
            batch = replace(batch, note="an earlier poll had been sent the batch before")
        listing = store_batch(batch, source, self.moment, prepare(batch.entries), replaces=replaces)
        if listing.changed_at == self.moment:
            self.report.dates.add(batch.date)
        self.report.rows.append(listing)

    def _record_late(self, category: str, served: date, source: Listing.Source) -> None:
        """Record for today that the feed served was that of an earlier day, if it was."""
        if served >= self.today:
            return
        state, reason = Listing.State.EMPTY, _empty_reason(self.today)
        if has_batch(self.today):
            state = Listing.State.STALE
            reason = f"arXiv still serves the batch of {served:%A} {served}"
        self._record(category, self.today, state, source, reason=reason)

    def _failed(self, category: str, day: date, source: Listing.Source, reason: str) -> None:
        log.info("%s of %s was not fetched: %s", category, day, reason)  # the row says so too
        self._record(category, day, Listing.State.FAILED, source, reason=reason)

    def _record(self, category: str, day: date, state: str, source: str, **facts: str) -> None:
        """Record a poll that brought no papers."""
        row = Listing(category=category, date=day, state=state, source=source, **facts)
        row.polled_at = row.changed_at = self.moment
        listings.record_outcome(row)
        self.report.rows.append(row)


def _missing_papers(batch: Batch) -> dict[str, int | None]:
    """Return the papers whose entries were all rejected, with versions."""
    held = {entry.arxiv_id for entry in batch.entries}
    rejected = dict(filter(None, (problem.paper for problem in batch.problems)))
    return {name: version for name, version in rejected.items() if name not in held}


def _announced(entry: Entry, category: str, version: int | None) -> Entry:
    """An entry of the API as an announcement of that version in `category`."""
    number = version or entry.version
    if entry.categories[:1] == (category,):
        kind = AnnounceType.NEW if number == 1 else AnnounceType.REPLACE
    else:
        kind = AnnounceType.CROSS if number == 1 else AnnounceType.REPLACE_CROSS
    return replace(entry, type=kind, announced_version=number)


def _empty_reason(day: date) -> str:
    """Return the reason why a valid feed may have no papers."""
    if not has_batch(day):
        return f"arXiv announces nothing on a {day:%A}"
    return (
        "a valid feed without papers: a holiday, or a fault of the feed; "
        f"final once the API knows none on {CONFIRMATIONS} days"
    )
