"""Pages of runs: one run, live and ended; the list; the comparison; the workers."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from methods.charts import STYLE
from webapp.runs.models import Run
from webapp.runs.queries import visible_runs
from webapp.runs.web import export, listing, progress, run_page
from webapp.runs.web.compare import CannotCompareError, compare_runs
from webapp.runs.web.progress import Seen
from webapp.runs.web.workers_page import installation, workers_now
from webapp.ui.feeds import FORMATS
from webapp.ui.pages import attachment, respond

LOOK = 1  # part of a cached page's key: increment it when the page changes
DONE = 286  # htmx shows the response and stops polling
RUNS_A_PAGE = 40


def open_run(request: HttpRequest, pk: UUID) -> Run:
    """The run with that id. Raises Http404 also if this visitor may not see it."""
    runs = visible_runs(request.user).select_related("worker", "environment", "reader")
    return get_object_or_404(runs, pk=pk)


@require_safe
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A run: its state, results, hardware, and how to repeat it."""
    found = open_run(request, pk)

    def page() -> HttpResponse:
        return render(request, "runs/run.html", run_page.page_of(found, request.user))

    if not found.ended:
        response = page()
        response["Cache-Control"] = "no-store"
        return response
    # With the reader, so that a cached page no longer names one who deleted their account.
    stamp = (LOOK, found.pk, found.state, found.series.count(), found.reader_id)
    return respond(request, stamp, page)


@require_safe
@cache_control(no_store=True)
def live(request: HttpRequest, pk: UUID) -> HttpResponse:
    """What is new since a page last polled (`?seen=`)."""
    if not request.headers.get("HX-Request"):
        return redirect("runs:run", pk)
    # The result is large, and polls, which come every second, do not show it.
    found = get_object_or_404(Run.objects.defer("result"), pk=pk)
    if not found.public:
        open_run(request, pk)
    seen, now = Seen.read(request.GET.get("seen", "")), progress.seen_now(found)
    if seen == now:
        return HttpResponse(status=204)
    if seen.standing != now.standing:
        return _anew(request, open_run(request, pk))
    context = {"run": found, "seen": now, "pause": progress.pause(found)}
    if seen.last_event < now.last_event:
        news = progress.log_after(found, seen.last_event)
        passed = found.checks.filter(passed=True).count()
        context |= {"has_news": True, "news": news, "passed": passed}
    # Rendered without the request, because it is the same for every visitor.
    return HttpResponse(render_to_string("runs/live.html", context))


def _anew(request: HttpRequest, found: Run) -> HttpResponse:
    """The whole of a run's page, to replace the old one; when the run has ended, the last."""
    response = render(request, "runs/article.html", run_page.page_of(found, request.user))
    response["HX-Retarget"] = "#run"
    response["HX-Reswap"] = "outerHTML"
    if found.ended:
        response.status_code = DONE
    return response


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The runs that a visitor may see, filtered by the query string, the latest first."""
    filters = listing.Filters(request.GET)
    found = filters.narrow(visible_runs(request.user), request.user)
    after = request.GET.get("after", "")
    shown, following = listing.page_after(found, after, RUNS_A_PAGE)
    context = {
        "filters": filters,
        "after": after,
        "next": following,
        "lines": [listing.listed_run(run) for run in shown],
        "feeds": [(one.suffix, one.media_type) for one in FORMATS.values()],
        "chosen": request.GET.get("with", ""),
        "any": bool(shown) or Run.objects.exists(),
    }
    return render(request, "runs/runs.html", context)


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """A comparison of runs of one benchmark."""
    wanted = ",".join(request.GET.getlist("runs"))
    try:
        context = compare_runs(visible_runs(request.user), wanted)
    except CannotCompareError as error:
        status = 400 if wanted else 200
        return render(request, "runs/compare.html", {"reason": str(error)}, status=status)
    return render(request, "runs/compare.html", context)


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
    text = export.RunResults.from_orm(open_run(request, pk)).model_dump_json(indent=1)
    return attachment(text, "application/json", f"run-{str(pk)[:8]}.json")


@require_safe
def as_csv(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The measured points of a run, one on each line."""
    text = export.table(open_run(request, pk))
    return attachment(text, "text/csv; charset=utf-8", f"run-{str(pk)[:8]}.csv")


@require_safe
def artefact(request: HttpRequest, pk: UUID, name: str) -> HttpResponse:
    """A file that a benchmark made."""
    found = open_run(request, pk).artefacts.filter(name=name).first()
    if found is None:
        raise Http404("This run made no such file.")
    response = attachment(bytes(found.content), found.media_type, found.name)
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
