"""The feed of results, the latest first."""

from collections.abc import Hashable
from html import escape
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from webapp.runs.models import Run, State
from webapp.runs.web import present
from webapp.runs.web.findings import headline
from webapp.runs.web.listing import listed_run
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Item
from webapp.ui.revisions import revision

RESULTS = 50
# The items of the last feed, by the revisions of their runs: to read the results of all fifty takes
# longer than a page may.
_made: dict[Hashable, Item] = {}


@require_safe
def results(request: HttpRequest, suffix: str) -> HttpResponse:
    """Public runs that succeeded."""

    def items(site: Site) -> list[Item]:
        # With `public=True`, Django writes a bare column, for which SQLite does not use the index.
        public = Run.objects.filter(public__in=[True], state=State.SUCCEEDED)
        latest = list(public.order_by("-finished_at", "pk").values_list("pk", flat=True)[:RESULTS])
        scopes = {pk: f"run:{pk.hex}" for pk in latest}
        stored = revision(*scopes.values())
        keys: dict[UUID, Hashable] = {
            pk: (site, get_language(), scope, *(row for row in stored if row[0] in {"", scope}))
            for pk, scope in scopes.items()
        }
        known = dict(_made)
        related = Run.objects.select_related("environment", "reader").prefetch_related("series")
        new = related.in_bulk([pk for pk, key in keys.items() if key not in known])
        known |= {keys[pk]: _item(site, run) for pk, run in new.items()}
        _made.clear()
        _made.update((key, known[key]) for key in keys.values() if key in known)
        return [known[key] for key in keys.values() if key in known]

    about = "What was measured here, with its machine and the command to repeat it."
    source = FeedSource("results", "Results of Assay", about, reverse("runs:runs"), items)
    return feed_http.respond(request, suffix, revision("results"), lambda: source)


def _item(site: Site, run: Run) -> Item:
    listed = listed_run(run)
    found = headline(run, (row.parsed() for row in run.series.all()))
    return site.item(
        f"run:{run.pk}",
        run.get_absolute_url(),
        f"{listed['title']}: {listed['method']}, {listed['hardware']}",
        f"{listed['method']} on {listed['hardware']}. {found}".strip(),
        at=run.finished_at or run.queued_at,
        words=[f"{run.method}.{run.benchmark}"],
        html=f"<pre>{escape(present.command(run))}</pre>",
        author=run.reader.get_username() if run.reader else "Assay",
    )
