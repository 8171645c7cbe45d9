"""The pages of runs: one, live and ended; the list; the form of a benchmark."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_http_methods, require_safe

from methods import registry
from methods.spec import InputError, Method, UnknownNameError
from webapp.catalog import paper_methods
from webapp.core.limits import spend, visitor
from webapp.core.revisions import revision
from webapp.papers.models import Paper
from webapp.runs import submit
from webapp.runs.models import OPEN, Run
from webapp.runs.queries import open_run, visible_runs
from webapp.runs.web import listing, run_page
from webapp.runs.web.forms import RunForm
from webapp.runs.web.run_page import Seen
from webapp.runs.web.views import form_context
from webapp.ui.feeds import FORMATS
from webapp.ui.pages import for_readers, respond

DONE = 286  # htmx shows the response and stops polling
RUNS_A_PAGE = 40


@require_safe
def run(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A run: its state, results, hardware, and how to repeat it."""
    run = open_run(request.user, pk)

    def page() -> HttpResponse:
        return render(request, "pages/run.html", _context(request, run))

    if not run.ended:
        response = page()
        response["Cache-Control"] = "no-store"
        return response
    return respond(request, revision(f"run:{run.pk.hex}", "sample"), page)


def _context(request: HttpRequest, run: Run) -> dict[str, Any]:
    """The run, and the paper that asked for it with its claim."""
    return run_page.page_of(run, request.user) | {"asked": paper_methods.asked_by(run)}


@require_safe
@cache_control(no_store=True)
def live(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the part of a run's page that changed since its last poll (`?seen=`)."""
    if not request.headers.get("HX-Request"):
        return redirect("runs:run", pk)
    # The result is large, and polls, which come every second, do not show it.
    run = get_object_or_404(Run.objects.defer("result"), pk=pk)
    if not run.public:
        open_run(request.user, pk)
    seen, now = Seen.read(request.GET.get("seen", "")), run_page.seen_now(run)
    if seen == now:
        return HttpResponse(status=204)
    if seen.standing != now.standing:
        return _whole_page(request, open_run(request.user, pk))
    context = {"run": run, "seen": now, "pause": run_page.pause(run)}
    if seen.last_event < now.last_event:
        news = run_page.log_after(run, seen.last_event)
        passed = run.checks.filter(passed=True).count()
        context |= {"has_news": True, "news": news, "passed": passed}
    # Rendered without the request, because it is the same for every visitor.
    return HttpResponse(render_to_string("pages/live.html", context))


def _whole_page(request: HttpRequest, run: Run) -> HttpResponse:
    """The whole of a run's page, to replace the old one; when the run has ended, the last."""
    response = render(request, "pages/article.html", _context(request, run) | {"anew": True})
    response["HX-Retarget"] = "#run"
    response["HX-Reswap"] = "outerHTML"
    if run.ended:
        response.status_code = DONE
    return response


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The runs that a visitor may see, filtered by the query string, the latest first."""
    return respond(request, revision("runs", "results", "sample"), lambda: _runs_page(request))


def _runs_page(request: HttpRequest) -> HttpResponse:
    filters = listing.RunFilters(request.GET)
    matches = filters.narrow(visible_runs(request.user), request.user)
    after = request.GET.get("after", "")
    shown, following = listing.page_after(matches, after, RUNS_A_PAGE)
    context = {
        "filters": filters,
        "after": after,
        "next": following,
        "lines": listing.listed_runs(shown),
        "feeds": [(form.suffix, form.media_type) for form in FORMATS.values()],
        "any": bool(shown) or Run.objects.exists(),
    }
    return render(request, "pages/runs.html", context)


@for_readers("POST")
def of_paper(request: HttpRequest, reader: User, arxiv_id: str, method: Method) -> HttpResponse:
    """Queue the run that answers a paper, or go to the reader's own that is under way."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    methods = paper_methods.methods_of(paper)
    mine = [linked for linked in methods if linked.link.method == method.slug]
    experiment = mine[0].experiment if mine else None
    if experiment is None:
        raise Http404("No benchmark here measures the mechanism of this paper.")
    fields = {"paper": paper, "method": method.slug, "mechanism": experiment.mechanism.slug}
    if under_way := Run.objects.filter(reader=reader, state__in=OPEN, **fields).first():
        return redirect("runs:run", under_way.pk)
    spend("runs", visitor(request))
    try:
        run = submit.submit(
            reader, experiment.request, paper=paper, mechanism=experiment.mechanism.slug
        )
    except InputError as error:
        messages.error(request, str(error))
        return redirect("papers:paper", arxiv_id)
    return redirect("runs:run", run.pk)


@cache_control(private=True, no_store=True)  # it says what is left of a reader's own limits
@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest, method: str, benchmark: str) -> HttpResponse:
    """The form of a benchmark; a valid submission queues a run and redirects to its page."""
    try:
        chosen = registry.find(f"{method}.{benchmark}")
    except UnknownNameError as error:
        raise Http404(str(error)) from None
    if request.method != "POST":
        return render(request, "pages/ask.html", form_context(request, *chosen))
    if not isinstance(request.user, User):
        return redirect_to_login(request.get_full_path())
    form = RunForm(*chosen, request.POST)
    if form.is_valid():
        spend("runs", visitor(request))
        try:
            run = submit.submit(request.user, form.request(), form.cleaned_data["key"])
            return redirect("runs:run", run.pk)
        except InputError as error:
            form.add_error(None, str(error))
    return render(request, "pages/ask.html", form_context(request, *chosen, form), status=422)
