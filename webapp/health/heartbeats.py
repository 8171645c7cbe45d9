"""Writing and reading signs of life."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from webapp.health.models import Heartbeat

SECONDS = 5.0  # between two signs
SILENCE = timedelta(seconds=30)  # after which a process counts as gone
FORGET = timedelta(days=1)


def sign(kind: Heartbeat.Kind, name: str) -> None:
    """Write down that process `name` is alive now, and forget those long gone."""
    now = timezone.now()
    Heartbeat.objects.update_or_create(kind=kind, name=name, defaults={"at": now})
    Heartbeat.objects.filter(at__lt=now - FORGET).delete()


def ages(kind: Heartbeat.Kind) -> dict[str, float]:
    """Seconds since the last sign of each process of a kind, by name."""
    now = timezone.now()
    rows = Heartbeat.objects.filter(kind=kind).values_list("name", "at")
    return {name: max((now - at).total_seconds(), 0.0) for name, at in rows}


def alive(kind: Heartbeat.Kind) -> list[str]:
    """Names of the processes of a kind that gave a sign lately."""
    return sorted(n for n, age in ages(kind).items() if age <= SILENCE.total_seconds())
