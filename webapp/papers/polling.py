"""Polling arXiv: today's batch from the feeds, missed days from the API, into the store.

Nothing here raises for what arXiv does: every poll ends in the report and in the audit.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from django.conf import settings
from django.db.models import F

from webapp.papers import api, listings
from webapp.papers import fetch as http
from webapp.papers.days import DAY, eastern_date, has_batch
from webapp.papers.entries import Batch, Entry
from webapp.papers.formats import BrokenFeedError, parse_feed
from webapp.papers.models import CONFIRMATIONS, AnnounceType, Listing
from webapp.papers.store import prepare, store_batch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FetchReport:
    """What a fetch did, and the days whose papers it changed."""

    # A poll without papers is here as it was seen; the stored listing may know better from an
    # earlier one.
    rows: list[Listing] = field(default_factory=list)
    dates: set[date] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """Whether nothing at all could be had."""
        return bool(self.rows) and all(row.state == Listing.State.FAILED for row in self.rows)

    @property
    def reason(self) -> str:
        """Why the first of the failed rows failed."""
        return next((row.reason for row in self.rows if row.state == Listing.State.FAILED), "")


class Poller:
    """One fetch: its report as it grows, and whether arXiv still answers."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.today = eastern_date(at)
        self.report = FetchReport()
        self.away = ""  # why arXiv is not asked any more

    def poll(self, category: str) -> None:
        """Ask for today's batch of `category`: RSS, and Atom where RSS is broken."""
        if self.away:
            self._failed(category, self.today, Listing.Source.RSS, self.away)
            return
        reasons: list[str] = []
        for source in (Listing.Source.RSS, Listing.Source.ATOM):
            try:
                self._poll(category, source)
                return
            except (http.OutOfReachError, http.AskedToWaitError) as error:
                self.away = str(error)
                reasons.append(str(error))
                break
            except (http.RefusedError, BrokenFeedError) as error:
                reasons.append(f"{source.label}: {error}")
        self._failed(category, self.today, Listing.Source.RSS, "; ".join(reasons))

    def _poll(self, category: str, source: Listing.Source) -> None:
        known = (
            Listing.objects.filter(category=category, source=source)
            .exclude(etag="", last_modified="")
            .order_by("-polled_at")
            .first()
        )
        asked = {}
        if known is not None:
            asked = {"if-none-match": known.etag, "if-modified-since": known.last_modified}
        asked = {name: value for name, value in asked.items() if value}
        answer = http.get(f"{settings.ARXIV_RSS_URL}/{source.value}/{category}", asked)
        if answer.status == 304:
            if known is None:
                raise http.RefusedError("arXiv answers 304 to a question without conditions")
            # Another process may have stored more of the day while this one waited.
            Listing.objects.filter(pk=known.pk).update(polls=F("polls") + 1, polled_at=self.at)
            known.refresh_from_db()
            self.report.rows.append(known)
            self._record_late(category, known.date, source)
            return
        batch = self._with_refused(parse_feed(answer.body, category, self.today))
        if not _lacking(batch):  # else the whole feed is asked for again
            etag, last_modified = map(answer.headers.get, ("etag", "last-modified"))
            batch = replace(batch, etag=etag or "", last_modified=last_modified or "")
        self._take(batch, source)
        self._record_late(category, batch.date, source)

    def _with_refused(self, batch: Batch, version: int | None = None) -> Batch:
        """The batch with the entries that were refused by their form, as the API gives them.

        Announced in `version`, or in that which the refused entry names.
        """
        versions = _lacking(batch)
        if not versions:
            return batch
        try:
            found = api.lookup(list(versions)[: api.PAGE])
        except http.FetchError as error:
            message = "%d entries of %s were refused and the API failed: %s"
            log.warning(message, len(versions), batch.category, error)
            return batch
        got = [
            _announced(entry, batch.category, version or versions[entry.arxiv_id])
            for entry in found
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
        """Settle a batch: refuse the future, know the stale, keep the rest."""
        if batch.date > self.today + DAY:
            raise BrokenFeedError(f"the feed is dated {batch.date}, which has not come yet")
        reason, afresh = listings.judge(batch)
        if batch.entries and not reason:
            self.store(batch, source, afresh=afresh)
            return
        state = Listing.State.STALE if reason else Listing.State.EMPTY
        asked = {"etag": batch.etag, "last_modified": batch.last_modified}
        reason = reason or _empty_reason(batch.date)
        self._record(batch.category, batch.date, state, source, reason, **asked)

    def backfill(self, category: str, days: Sequence[date]) -> None:
        """Fetch the batches of consecutive `days` from the API."""
        found: dict[date, Batch] = {}
        failure = self.away
        if not failure:
            try:
                found = api.submitted(category, days[0], days[-1])
            except http.FetchError as error:
                failure = str(error)
                self.away = "" if isinstance(error, http.RefusedError) else failure
        for day in days:
            batch = found.get(day)
            if batch:
                batch = self._with_refused(batch, version=1)
            if failure:
                self._failed(category, day, Listing.Source.API, failure)
            elif batch and batch.entries:
                self.store(batch, Listing.Source.API)
            elif batch:
                reason = f"none of its entries can be read; the first: {batch.problems[0].reason}"
                self._failed(category, day, Listing.Source.API, reason)
            else:
                reason = "the API knows no papers submitted for this day"
                self._record(category, day, Listing.State.EMPTY, Listing.Source.API, reason)

    def store(self, batch: Batch, source: Listing.Source, *, afresh: bool = False) -> None:
        """Store a batch that was found fresh, and report what it brought.

        `afresh`: in the place of what the day's listing had.
        """
        if afresh:
            batch = replace(batch, note="an earlier poll had been sent the batch before")
        listing = store_batch(batch, source, self.at, prepare(batch.entries), afresh=afresh)
        if listing.changed_at == self.at:
            self.report.dates.add(batch.date)
        self.report.rows.append(listing)

    def _record_late(self, category: str, served: date, source: Listing.Source) -> None:
        """Say of today that a feed dated `served` was of another day, where it was."""
        if served >= self.today:
            return
        state, reason = Listing.State.EMPTY, _empty_reason(self.today)
        if has_batch(self.today):
            state = Listing.State.STALE
            reason = f"arXiv still serves the batch of {served:%A} {served}"
        self._record(category, self.today, state, source, reason)

    def _failed(self, category: str, day: date, source: Listing.Source, reason: str) -> None:
        log.info("%s of %s was not fetched: %s", category, day, reason)  # the row says so too
        self._record(category, day, Listing.State.FAILED, source, reason)

    def _record(
        self,
        category: str,
        day: date,
        state: Listing.State,
        source: Listing.Source,
        reason: str,
        **headers: str,
    ) -> None:
        moments = {"polled_at": self.at, "changed_at": self.at}
        facts = {"state": state, "source": source, "reason": reason}
        row = Listing(category=category, date=day, **facts, **headers, **moments)
        listings.record_outcome(row)
        self.report.rows.append(row)


def _lacking(batch: Batch) -> dict[str, int | None]:
    """The papers, with the version named, whose entries were refused and which it does not hold."""
    held = {entry.arxiv_id for entry in batch.entries}
    refused = dict(filter(None, (problem.paper for problem in batch.problems)))
    return {name: version for name, version in refused.items() if name not in held}


def _announced(entry: Entry, category: str, version: int | None) -> Entry:
    """What the API says of a paper, as an announcement in `category` of that version."""
    number = version or entry.version
    if entry.categories[:1] == (category,):
        kind = AnnounceType.NEW if number == 1 else AnnounceType.REPLACE
    else:
        kind = AnnounceType.CROSS if number == 1 else AnnounceType.REPLACE_CROSS
    return replace(entry, type=kind, announced_version=number)


def _empty_reason(day: date) -> str:
    """Why a valid feed may hold no papers."""
    if not has_batch(day):
        return f"arXiv announces nothing on a {day:%A}"
    return (
        "a valid feed without papers: a holiday, or a fault of the feed; "
        f"believed once the API knows none on {CONFIRMATIONS} days"
    )
