"""The form of a benchmark, and the cancelling of a run."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from methods.spec import PRESETS, Benchmark, Method
from webapp.runs import submit
from webapp.runs.queries import may_cancel, open_run, visible_runs, with_id
from webapp.runs.quota import may_run
from webapp.runs.web.forms import PREFIX, RunForm
from webapp.runs.web.present import parameters_of
from webapp.ui.pages import for_readers


def form_context(
    request: HttpRequest, method: Method, benchmark: Benchmark, form: RunForm | None = None
) -> dict[str, Any]:
    """The context of the form, on its own page or another."""
    user = request.user
    return {
        "method": method,
        "benchmark": benchmark,
        "form": form or RunForm(method, benchmark, initial=_like(request, method, benchmark)),
        "allowed": isinstance(user, User) and may_run(user, method.slug),
        "presets": about_presets(benchmark),
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


def about_presets(benchmark: Benchmark) -> dict[str, str]:
    """The presets of a benchmark, each with what it is for."""
    return {name: PRESETS[name] for name in benchmark.presets}


@for_readers("POST")
def cancel(request: HttpRequest, reader: User, pk: UUID) -> HttpResponse:
    """End a run that has not ended."""
    run = open_run(request.user, pk)
    if not may_cancel(reader, run):
        raise PermissionDenied("Only its reader and staff may cancel a run.")
    if not submit.cancel(run):
        messages.info(request, "The run had ended before it could be cancelled.")
    return redirect("runs:run", pk)
