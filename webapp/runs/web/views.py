"""The comparison of runs, the workers, and the files of a run."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from methods.charts import STYLE
from webapp.runs.queries import open_run, visible_runs
from webapp.runs.web import export
from webapp.runs.web.compare import CannotCompareError, compare_runs
from webapp.runs.web.workers_page import installation, workers_now
from webapp.ui.pages import attachment


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
    found = open_run(request.user, pk).artefacts.filter(name=name).first()
    if found is None:
        raise Http404("This run made no such file.")
    response = attachment(bytes(found.content), found.media_type, found.name)
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
