"""Actions of readers: queue a run, cancel it, run it again."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from methods import registry
from methods.spec import PRESETS, Benchmark, InputError, Method, UnknownNameError
from webapp.runs import submit
from webapp.runs.queries import may_cancel, visible_runs, with_id
from webapp.runs.quota import may_run
from webapp.runs.web.forms import PREFIX, RunForm
from webapp.runs.web.present import parameters_of
from webapp.runs.web.views import open_run
from webapp.ui.pages import for_readers


@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest, method: str, benchmark: str) -> HttpResponse:
    """The form of a benchmark; a valid submission queues a run and redirects to its page."""
    try:
        found = registry.find(f"{method}.{benchmark}")
    except UnknownNameError as error:
        raise Http404(str(error)) from None
    if request.method != "POST":
        return render(request, "runs/ask.html", page(request, *found))
    if not isinstance(request.user, User):
        return redirect_to_login(request.get_full_path())
    form = RunForm(*found, request.POST)
    if form.is_valid():
        try:
            run = submit.submit(request.user, form.request(), form.cleaned_data["key"])
            return redirect("runs:run", run.pk)
        except InputError as error:
            form.add_error(None, str(error))
    return render(request, "runs/ask.html", page(request, *found, form), status=422)


def page(
    request: HttpRequest, method: Method, benchmark: Benchmark, form: RunForm | None = None
) -> dict[str, Any]:
    """The context of the form, on its own page or another."""
    user = request.user
    return {
        "method": method,
        "benchmark": benchmark,
        "form": form or RunForm(method, benchmark, initial=_like(request, method, benchmark)),
        "allowed": isinstance(user, User) and may_run(user, method.slug),
        "presets": PRESETS,
    }


def _like(request: HttpRequest, method: Method, benchmark: Benchmark) -> dict[str, Any]:
    """The settings of the run in `?like=`, as initial values of the form."""
    runs = visible_runs(request.user).filter(method=method.slug, benchmark=benchmark.slug)
    run = with_id(runs, request.GET.get("like", ""))
    if run is None:
        return {}
    preset = run.preset if run.preset in benchmark.presets else next(iter(benchmark.presets))
    changed = {PREFIX + p.name: p.value for p in parameters_of(run, preset) if p.changed}
    return {"preset": preset, "device": run.device, "seed": run.seed, **changed}


@for_readers("POST")
def cancel(request: HttpRequest, reader: User, pk: UUID) -> HttpResponse:
    """End a run that has not ended."""
    run = open_run(request, pk)
    if not may_cancel(reader, run):
        raise PermissionDenied("Only its reader and staff may cancel a run.")
    if not submit.cancel(run):
        messages.info(request, "The run had ended before it could be cancelled.")
    return redirect("runs:run", pk)
