"""What fails in the background, until it succeeds again: kept for pages, `/readyz` and `doctor`."""

from datetime import timedelta

from django.db.models import F, QuerySet
from django.utils import timezone

from assay_common.text import one_line
from webapp.operate.models import Failure

LONGEST = 300  # characters of an error that are kept
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
    found = Failure.objects.filter(task=task)
    if found.exists():
        found.delete()


def failing(*tasks: str) -> QuerySet[Failure]:
    """The failures of these tasks, or of all, the oldest first."""
    found = Failure.objects.filter(last_at__gte=timezone.now() - FORGET).order_by("since", "task")
    return found.filter(task__in=tasks) if tasks else found
