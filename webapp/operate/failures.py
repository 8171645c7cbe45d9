"""Failures of tasks until they succeed again, for pages, `/readyz` and `doctor`."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from assay_common.text import one_line
from webapp.core.tables import table
from webapp.operate.models import Failure

LONGEST = 300  # characters of an error that are kept
CONCERNS: Sequence[Mapping[str, str | list[str]]] = table(__file__, "failures.toml")["concerns"]
FORGET = timedelta(days=14)  # without another failure: what a reader asked for may never come again


def record(task: str, error: BaseException, periodic: bool) -> None:
    """Keep that a task raised; `periodic` tasks are run again by themselves."""
    now = timezone.now()
    text = one_line(f"{type(error).__name__}: {error}")[:LONGEST]
    again = {"error": text, "last_at": now, "times": F("times") + 1, "periodic": periodic}
    if not Failure.objects.filter(task=task).update(**again):
        first = {"error": text, "last_at": now, "since": now, "periodic": periodic}
        Failure.objects.get_or_create(task=task, defaults=first)


def forget(task: str) -> None:
    """A task has succeeded. Reads first: most do, and a write would wait for other writers."""
    failures = Failure.objects.filter(task=task)
    if failures.exists():
        failures.delete()


def failing(*tasks: str) -> QuerySet[Failure]:
    """The failures of these tasks, or of all, the oldest first."""
    lately = Failure.objects.filter(last_at__gte=timezone.now() - FORGET).order_by("since", "task")
    return lately.filter(task__in=tasks) if tasks else lately


# What a page promises and a failing task keeps from it, for the template context of every page.


def failing_here(request: HttpRequest) -> dict[str, object]:
    """`failing_here` for templates: what does not happen since when, looked up on first use."""
    here = [concern for concern in CONCERNS if request.path.startswith(tuple(concern["pages"]))]
    return {"failing_here": SimpleLazyObject(lambda: _failing(here)) if here else []}


def _failing(concerns: Sequence[Mapping[str, str | list[str]]]) -> list[object]:
    since = {f.task: f.since for f in failing(*(t for c in concerns for t in c["tasks"]))}
    return [
        {"what": gettext(str(concern["what"])), "since": min(moments)}
        for concern in concerns
        if (moments := [since[task] for task in concern["tasks"] if task in since])
    ]
