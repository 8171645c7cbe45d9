"""What the site's worker does: primitives in, one domain call.

@app.task(name="site.<verb>") functions live here; `workers.site` says when they are due.
"""

from __future__ import annotations

import logging

from django.conf import settings

from webapp.catalog import chips, linking
from webapp.digests import gists
from webapp.digests.build import build
from webapp.digests.daily import update, wanted_categories
from webapp.papers import schedule
from webapp.papers.days import now
from webapp.papers.enrich import enrich
from webapp.papers.fetch import FetchError
from webapp.summaries import batch, queries
from webapp.summaries.models import Summary
from webapp.summaries.summarise import summarise
from workers.site import app

log = logging.getLogger(__name__)

ENRICH_REQUESTS = 5  # a tick; more papers wait for the next


@app.task(name="site.poll")
def poll() -> None:
    """Ask arXiv for every category that is due; nothing is when the tick before asked."""
    due = schedule.due(wanted_categories(), now())
    if not due:
        return
    report = update(due)
    for row in report.rows:
        log.info("%s %s: %s %s", row.category, row.date, row.state, row.reason)


@app.task(name="site.enrich")
def enrich_papers() -> None:
    """Ask the API what the feeds did not say, and put the digests in their final order."""
    for _ in range(ENRICH_REQUESTS):
        try:
            report = enrich()
        except FetchError as error:
            log.warning("Enrichment waits for the next tick: %s", error)
            return
        build(sorted(report.dates))
        if not report.answered:
            return


@app.task(name="site.summaries")
def tick_summaries() -> None:
    """Ask for the summaries that the latest digests deserve, and send those that may run."""
    # A worker killed between a summary and its gist loses nothing: it is told again.
    for summary in queries.done_lately():
        _tell(summary)
    batch.tick(
        gists.wanted(settings.SUMMARY_PAPERS),
        lambda summary_id: summarise_paper.apply_async((summary_id,), expires=25),
    )


@app.task(name="site.summarise")
def summarise_paper(summary_id: int) -> None:
    """Make one summary, and tell the digests its gist."""
    if summarise(summary_id) != "done":
        return
    for summary in queries.done_lately().filter(id=summary_id):
        _tell(summary)


def _tell(summary: Summary) -> None:
    details = queries.details(summary)
    gists.tell(summary.paper_id, summary.language, summary.gist, summary.gist_html, details)


@app.task(name="site.link")
def link_papers() -> None:
    """Link new papers to the methods they concern, and tell the digests what was measured."""
    linking.link_new()
    chips.refresh()
