"""arXiv in: poll the feeds, fetch what was missed, enrich, or show the sample day.

Nothing here raises for what arXiv does: every poll ends in the report and in the audit. papers
knows no other app, so whoever calls rebuilds the digests of `report.dates`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from pathlib import Path

from django.conf import settings
from django.db import transaction

from webapp.papers import api, audit
from webapp.papers import fetch as http
from webapp.papers.days import DAY, eastern_date, next_batch_day, now
from webapp.papers.entries import Batch, is_category
from webapp.papers.formats import BrokenFeedError, parse_feed
from webapp.papers.ingest import ingest, prepare
from webapp.papers.models import Listing

log = logging.getLogger(__name__)

SAMPLE = Path(settings.BASE_DIR) / "sample" / "rss_2025-12-18.xml"
SAMPLE_DAY = date(2025, 12, 18)
BACKFILL_DAYS = 5  # batches of one query: 2,000 papers of a large category, one page


@dataclass(frozen=True)
class Progress:
    """How far a fetch has come: `done` of `total` steps, and what the next one is."""

    done: int
    total: int
    step: str


@dataclass(frozen=True)
class Row:
    """What became of one category's day."""

    category: str
    date: date
    state: Listing.State
    source: Listing.Source
    counts: dict[str, int]
    problems: int
    reason: str


@dataclass(frozen=True)
class FetchReport:
    """What a fetch did, and the days whose papers it changed."""

    rows: list[Row] = field(default_factory=list)
    dates: set[date] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """Whether nothing at all could be had."""
        return bool(self.rows) and all(row.state == Listing.State.FAILED for row in self.rows)

    @property
    def reason(self) -> str:
        """Why the first of the failed rows failed."""
        return next((row.reason for row in self.rows if row.state == Listing.State.FAILED), "")


class _Intake:
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
        asked: dict[str, str] = {}
        if known is not None and known.etag:
            asked["if-none-match"] = known.etag
        if known is not None and known.last_modified:
            asked["if-modified-since"] = known.last_modified
        answer = http.get(f"{settings.ARXIV_RSS_URL}/{source.value}/{category}", asked)
        if answer.status == 304:
            if known is None:
                raise http.RefusedError("arXiv answers 304 to a question without conditions")
            audit.touch(known, self.at)
            self._report(known)
            self._late(category, known.date, source)
            return
        batch = replace(
            parse_feed(answer.body, category, self.today),
            etag=answer.headers.get("etag", ""),
            last_modified=answer.headers.get("last-modified", ""),
        )
        self.take(batch, source)
        self._late(category, batch.date, source)

    def take(self, batch: Batch, source: Listing.Source) -> None:
        """Settle a batch: refuse the future, know the stale, keep the rest."""
        if batch.date > self.today + DAY:
            raise BrokenFeedError(f"the feed is dated {batch.date}, which has not come yet")
        reason = audit.repeated(batch)
        if reason:
            state = Listing.State.STALE
        elif not batch.entries:
            state = Listing.State.EMPTY
            reason = audit.empty_reason(batch.date)
        else:
            self._ingest(batch, source)
            return
        outcome = audit.Outcome(state, source, reason, batch.etag, batch.last_modified)
        self._note(batch.category, batch.date, outcome)

    def backfill(self, category: str, days: Sequence[date]) -> None:
        """Fetch the batches of consecutive `days` from the API."""
        if self.away:
            for day in days:
                self._failed(category, day, Listing.Source.API, self.away)
            return
        try:
            found = api.submitted(category, days[0], days[-1])
        except http.FetchError as error:
            if not isinstance(error, http.RefusedError):
                self.away = str(error)
            for day in days:
                self._failed(category, day, Listing.Source.API, str(error))
            return
        for day in days:
            answer = found.get(day, api.Found())
            if answer.entries:
                batch = Batch(category, day, answer.entries, answer.problems, api.NOTE)
                self._ingest(batch, Listing.Source.API)
            else:
                reason = "nothing was submitted for this day, says the API"
                outcome = audit.Outcome(Listing.State.EMPTY, Listing.Source.API, reason)
                self._note(category, day, outcome)

    def _ingest(self, batch: Batch, source: Listing.Source) -> None:
        afresh = source != Listing.Source.API and audit.displaces(batch)
        if afresh:
            batch = replace(batch, note="an earlier poll had been sent the batch before")
        listing = ingest(batch, source, self.at, prepare(batch.entries), afresh=afresh)
        if listing.changed_at == self.at:
            self.report.dates.add(batch.date)
        self._report(listing)

    def _late(self, category: str, served: date, source: Listing.Source) -> None:
        reason = audit.late(served, self.today)
        if reason:
            self._note(category, self.today, audit.Outcome(Listing.State.STALE, source, reason))

    def _note(self, category: str, day: date, outcome: audit.Outcome) -> None:
        listing = audit.note(category, day, outcome, self.at)
        # The report tells what this poll brought; the listing may know better from an earlier one.
        self._report(listing, outcome)

    def _failed(self, category: str, day: date, source: Listing.Source, reason: str) -> None:
        log.warning("%s of %s was not fetched: %s", category, day, reason)
        self._note(category, day, audit.Outcome(Listing.State.FAILED, source, reason))

    def _report(self, listing: Listing, outcome: audit.Outcome | None = None) -> None:
        told = outcome or listing
        self.report.rows.append(
            Row(
                listing.category,
                listing.date,
                Listing.State(told.state),
                Listing.Source(told.source),
                listing.counts,
                len(listing.problems),
                told.reason,
            )
        )


def fetch(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    at: datetime | None = None,
) -> FetchReport:
    """Poll today's batch of each category, then fetch the missed ones from the API.

    Missed are the days from `since`, or those that `audit.missed` knows. Each batch is one
    transaction, so that whatever stops this leaves whole days. `at` is the time it is asked at.
    Raises ValueError for a name that cannot be a category; never for what arXiv does.
    """
    for category in categories:
        if not is_category(category):
            raise ValueError(f"{category!r} is no arXiv category; write for instance cs.CL")
    names = list(dict.fromkeys(categories))
    intake = _Intake(at or now())
    tell = on_progress or (lambda progress: None)
    sample_days = _sample_days()
    for done, category in enumerate(names):
        tell(Progress(done, len(names), f"{category} today"))
        intake.poll(category)
    gaps = [
        (category, days)
        for category in names
        for days in _runs(audit.missed(category, intake.today, since))
    ]
    total = len(names) + len(gaps)
    for done, (category, days) in enumerate(gaps, start=len(names)):
        tell(Progress(done, total, f"{category} {days[0]} to {days[-1]}"))
        intake.backfill(category, days)
    tell(Progress(total, total, "done"))
    intake.report.dates.update(sample_days - _sample_days())
    return intake.report


def load_sample(reason: str = "", *, at: datetime | None = None) -> FetchReport:
    """Show the sample day while there is nothing real; `reason` is why there is not.

    The file goes through the same reading and storing as a feed. Does nothing once a real day is
    there. Raises BrokenFeedError for a file that was damaged.
    """
    intake = _Intake(at or now())
    with transaction.atomic():
        real = Listing.objects.exclude(source=Listing.Source.SAMPLE)
        if real.filter(state=Listing.State.COMPLETE).exists() or _sample_days():
            return intake.report
        batch = parse_feed(SAMPLE.read_bytes(), "cs.AI", SAMPLE_DAY)
        note = "A sample: the abstracts are Assay's own summaries."
        entries = sorted(batch.entries, key=lambda entry: entry.categories[0])
        for category, group in groupby(entries, key=lambda entry: entry.categories[0]):
            part = Batch(category, batch.date, tuple(group), note=f"{note} {reason}".strip())
            intake._ingest(part, Listing.Source.SAMPLE)
    return intake.report


def _sample_days() -> set[date]:
    sample = Listing.objects.filter(source=Listing.Source.SAMPLE)
    return set(sample.values_list("date", flat=True))


def _runs(days: Sequence[date]) -> Iterator[list[date]]:
    """`days` in runs of consecutive batch days, none longer than BACKFILL_DAYS."""
    run: list[date] = []
    for day in days:
        if run and (next_batch_day(run[-1]) != day or len(run) == BACKFILL_DAYS):
            yield run
            run = []
        run.append(day)
    if run:
        yield run
