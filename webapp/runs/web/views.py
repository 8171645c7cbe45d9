"""The workers, files and feed of runs, and what a reader asks of them."""

import json
from collections.abc import Hashable
from dataclasses import dataclass
from html import escape
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from assay_common.files import is_held
from methods.charts import STYLE
from methods.spec import PRESETS, Benchmark, Method
from webapp.core.durations import duration
from webapp.core.revisions import revision
from webapp.runs import submit
from webapp.runs.models import WITH_WORKER, Run, State, Worker
from webapp.runs.queries import live_workers, may_cancel, open_run, visible_runs, with_id
from webapp.runs.web import export, present
from webapp.runs.web.forms import PREFIX, RunForm, offered
from webapp.runs.web.listing import listed_run
from webapp.runs.web.present import headline, parameters_of
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource, Site
from webapp.ui.feeds import Item
from webapp.ui.pages import attachment, for_readers


@require_safe
@cache_control(no_store=True)
def workers(request: HttpRequest) -> HttpResponse:
    """The workers: their state and hardware, and how to add one."""
    context = {"workers": workers_now(), "installation": installation()}
    return render(request, "runs/workers.html", context)


@require_safe
@cache_control(public=True, max_age=86400)
def chart_style(request: HttpRequest) -> HttpResponse:
    """The charts' stylesheet, which the content security policy forbids inside the page."""
    return HttpResponse(STYLE, content_type="text/css; charset=utf-8")


@require_safe
def as_json(request: HttpRequest, pk: UUID) -> HttpResponse:
    """All data of a run, as a file."""
    text = export.RunResults.from_orm(open_run(request.user, pk)).model_dump_json(indent=1)
    return attachment(text, "application/json", f"run-{str(pk)[:8]}.json")


@require_safe
def as_csv(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The measured points of a run, one on each line."""
    text = export.table(open_run(request.user, pk))
    return attachment(text, "text/csv; charset=utf-8", f"run-{str(pk)[:8]}.csv")


@require_safe
def artefact(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """A file that a benchmark made."""
    file = open_run(request.user, pk).artefacts.filter(name=name).first()
    if file is None:
        raise Http404("This run made no such file.")
    response = attachment(bytes(file.content), file.media_type, file.name)
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


# The form of a benchmark, and the cancelling of a run.


def form_context(
    request: HttpRequest, method: Method, benchmark: Benchmark, form: RunForm | None = None
) -> dict[str, Any]:
    """The context of the form, on its own page or another."""
    return {
        "method": method,
        "benchmark": benchmark,
        "form": form or RunForm(method, benchmark, initial=_like(request, method, benchmark)),
        "presets": about_presets(benchmark),
    }


def _like(request: HttpRequest, method: Method, benchmark: Benchmark) -> dict[str, Any]:
    """The settings of the run in `?like=`, as initial values of the form."""
    runs = visible_runs(request.user).filter(method=method.slug, benchmark=benchmark.slug)
    run = with_id(runs, request.GET.get("like", ""))
    if run is None:
        return {}
    preset = run.preset if run.preset in offered(benchmark) else offered(benchmark)[0]
    changed = {PREFIX + p.name: p.value for p in parameters_of(run, preset) if p.changed}
    return {"preset": preset, "device": run.device, "seed": run.seed, **changed}


def about_presets(benchmark: Benchmark) -> dict[str, str]:
    """The presets of a benchmark, each with what it is for."""
    return {name: PRESETS[name] for name in offered(benchmark)}


@for_readers("POST")
def cancel(request: HttpRequest, reader: User, pk: UUID) -> HttpResponse:
    """End a run that has not ended."""
    run = open_run(request.user, pk)
    if not may_cancel(reader, run):
        raise PermissionDenied("Only its reader and staff may cancel a run.")
    if not submit.cancel(run):
        messages.info(request, "The run had ended before it could be cancelled.")
    return redirect("runs:run", pk)


# The workers page: the workers, and the progress of the local installation.


@dataclass(frozen=True)
class ListedWorker:
    """A worker, whether it is alive, and its current run."""

    worker: Worker
    live: bool
    run: Run | None

    @property
    def memory(self) -> str:
        """The memory that one run may use."""
        return f"{self.worker.memory_mib / 1024:.1f} GiB" if self.worker.memory_mib else ""

    @property
    def versions(self) -> str:
        """The worker's software in one line."""
        return ", ".join(f"{name} {version}" for name, version in self.worker.versions.items())

    @property
    def state(self) -> tuple[str, str, str]:
        """Text, icon and tone."""
        if self.live and self.run:
            return "measuring", "stale", "running"
        if self.live:
            return "ready", "complete", "good"
        if self.worker.last_seen is None:
            word = "stopped" if self.worker.boot else "never seen"
            return word, "empty", "none"
        return "not responding", "failed", "bad"


def workers_now() -> list[ListedWorker]:
    """All workers, the live first."""
    live = set(live_workers())
    by_worker = {run.worker_id: run for run in Run.objects.filter(state__in=WITH_WORKER)}
    everyone = Worker.objects.order_by(F("last_seen").desc(nulls_last=True), "name")
    listed = [ListedWorker(worker, worker in live, by_worker.get(worker.pk)) for worker in everyone]
    return sorted(listed, key=lambda worker: not worker.live)


def installation() -> dict[str, str] | None:
    """Return the progress that `workers.up.install_ml` wrote; None if there is nothing to show."""
    path = settings.DATA_DIR / "ml-install.json"
    try:
        written = json.loads(path.read_text())
        if written["state"] not in {"installing", "failed"}:
            return None
        if written["state"] == "installing" and not is_held(path.with_suffix(".lock")):
            written = {"state": "failed", "reason": "The installation was interrupted."}
        return {
            "state": written["state"],
            "step": str(written.get("step", ""))[:200],
            "spent": duration(float(written["seconds"])) if written.get("seconds") else "",
            "reason": str(written.get("reason", ""))[:2_000],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


# The feed of results, the latest first.


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
        by_key = dict(_made)
        related = Run.objects.select_related("environment", "reader").prefetch_related("series")
        new = related.in_bulk([pk for pk, key in keys.items() if key not in by_key])
        by_key |= {keys[pk]: _item(site, run) for pk, run in new.items()}
        _made.clear()
        _made.update((key, by_key[key]) for key in keys.values() if key in by_key)
        return [by_key[key] for key in keys.values() if key in by_key]

    about = "What was measured here, with its machine and the command to repeat it."
    source = FeedSource("results", "Results of Assay", about, reverse("runs:runs"), items)
    return feed_http.respond(request, suffix, revision("results"), lambda: source)


def _item(site: Site, run: Run) -> Item:
    listed = listed_run(run)
    gain = headline(run, (row.parsed() for row in run.series.all()))
    return site.item(
        f"run:{run.pk}",
        run.get_absolute_url(),
        gain or f"{listed['title']}: {listed['method']}",
        f"{listed['method']}: {listed['title']}, on {listed['hardware']}.",
        at=run.finished_at or run.queued_at,
        words=[f"{run.method}.{run.benchmark}"],
        html=f"<pre>{escape(present.command(run))}</pre>",
        author=run.reader.get_username() if run.reader else "Assay",
    )
