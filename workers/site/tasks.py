"""The tasks of the site's workers: each takes primitives and calls one domain function.

`webapp.settings` has the queue of each, `workers.site.app` the schedule of the periodic ones.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from webapp.catalog import chips, linking
from webapp.core.tasks import send
from webapp.digests import entries
from webapp.digests.daily import ask_for, build_asked, build_waits, categories_to_fetch, fetch
from webapp.digests.retention import delete_old, pack_old
from webapp.learning import postings, vector_index, vectors
from webapp.learning.encoder import EncoderError
from webapp.library import feedback, importing, zotero_reading
from webapp.mail.deliver import deliver_due
from webapp.papers import schedule
from webapp.papers.days import now
from webapp.papers.enrich import enrich
from webapp.papers.fetch import FetchError
from webapp.readers.links import mail_link
from webapp.runs import dispatch, heartbeats, record, retention, sweep
from webapp.summaries import fulltext, queue
from webapp.summaries.summarise import summarise
from workers.site.app import BRIEF, app

log = logging.getLogger(__name__)
news = logging.getLogger("assay.news")  # shown on the terminal of `up`

VECTOR_SECONDS, POSTINGS_SECONDS = 20.0, 10.0  # of each minute
ENRICH_REQUESTS = 5  # per tick; further papers wait for the next


@app.task(name="site.poll")
def poll(asked_at: float = 0.0) -> None:
    """Ask arXiv for every category that is due: none if an earlier tick has done so.

    With the time at which an administrator asked, for all that were not polled since.
    """
    due = categories_to_fetch()
    if asked_at:
        due = schedule.unpolled(due, datetime.fromtimestamp(asked_at, UTC))
    else:
        due = schedule.due(due, now())
    if not due:
        return
    report = fetch(due, on_progress=_say_step)
    for row in report.rows:
        counts = ", ".join(f"{many} {kind}" for kind, many in row.counts.items() if many)
        news.info("%s %s: %s. %s", row.category, row.date, row.state, row.reason or counts)
    send("site.build", [], lost="digests are built within a minute after it is back")


def _say_step(done: int, total: int, step: str) -> None:
    if done < total:
        news.info("Asking arXiv, %d of %d: %s", done + 1, total, step)


@app.task(name="site.build")
def build_digests() -> None:
    """Build the digests of the days whose papers have changed."""
    if build_asked():
        link_papers()  # so that the first page shows methods at once
        index_papers()


@app.task(name="site.enrich")
def enrich_papers() -> None:
    """Get from the API what the feeds lack, for the final order of the digests."""
    try:
        for _ in range(ENRICH_REQUESTS):
            answered, dates = enrich()
            ask_for(dates)
            if not answered:
                return
    except FetchError as error:
        log.warning("Enrichment waits for the next tick: %s", error)


@app.task(name="site.summaries")
def request_summaries() -> None:
    """Request summaries for the latest digests, and send those that may run now."""
    queue.request_and_send(
        lambda: entries.papers_to_summarise(settings.SUMMARY_PAPERS),
        entries.SUMMARISED,
        lambda summary_id: summarise_paper.apply_async((summary_id,), expires=25),
    )


# A summary is at most two answers; what hangs beyond that is ended from outside.
@app.task(name="site.summarise", time_limit=int(2 * settings.SUMMARY_SECONDS) + 600)
def summarise_paper(summary_id: int) -> None:
    """Write one summary."""
    summary_id = queue.most_urgent(summary_id)  # what a reader waits for
    summarise(summary_id)


@app.task(name="site.read_tables")
def read_tables() -> None:
    """Read the tables of the latest digest's papers, a few at a time."""
    fulltext.read_some_tables(entries.papers_of_latest(settings.TABLE_PAPERS))


@app.task(name="site.link")
def link_papers() -> None:
    """Link new papers to the methods they concern, and refresh chips."""
    linking.link_new()
    chips.refresh()


@app.task(name="site.vectors")
def make_vectors() -> None:
    """Make vectors of new papers, then of older ones, for a few seconds a minute.

    A build that is asked for meanwhile ends it: both are tasks of one queue.
    """
    try:
        made = vectors.fill(VECTOR_SECONDS, build_waits)
    except EncoderError as error:
        log.warning("Vectors of papers wait for the next tick: %s", error)
        return
    if made and (counts := vector_index.progress()):
        _say_share(made, *counts)


def _say_share(made: int, done: int, papers: int) -> None:
    """Print the progress of a backlog, whenever it has passed another tenth of the papers."""
    if 10 * done // papers > 10 * (done - made) // papers:
        news.info("Search by meaning knows %s of %s papers", f"{done:,}", f"{papers:,}")


@app.task(name="site.postings")
def index_papers() -> None:
    """Let similar papers be found among new ones, then among older ones."""
    postings.make(POSTINGS_SECONDS)


@app.task(name="site.tidy")
def tidy() -> None:
    """Compress logs, pack digests, delete runs, digests and sessions that are kept no longer."""
    retention.tidy()
    delete_old()
    pack_old()


BRIEFLY = {"time_limit": BRIEF}
# Acknowledged late: the broker keeps an event until it is in the database.
LATE = {**BRIEFLY, "acks_late": True, "reject_on_worker_lost": True}
AGAIN = {**BRIEFLY, "autoretry_for": (FetchError,), "retry_backoff": 60}
# Domain functions that are used as tasks unchanged.
TASKS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "site.save_named": (importing.save_named, AGAIN),
    "site.save_by": (importing.save_by, AGAIN),
    "site.read_zotero": (zotero_reading.read_all, {}),
    "site.learn": (feedback.learn, BRIEFLY),
    "site.learn_all": (feedback.learn_all, {}),
    "site.read_tables_of": (fulltext.read_tables_of, {}),
    "site.mail": (deliver_due, {}),
    "site.mail_link": (mail_link, BRIEFLY),
    "runs.record": (record.store_event, LATE),
    "runs.heartbeat": (heartbeats.record_heartbeat, LATE),
    "runs.dispatch": (dispatch.dispatch, BRIEFLY),
    "runs.sweep": (sweep.sweep, BRIEFLY),
    "runs.expire": (sweep.expire_leases, BRIEFLY),
}
register: Any = app.task  # its stubs do not accept `**options`
for name, (function, options) in TASKS.items():
    register(function, name=name, **options)
