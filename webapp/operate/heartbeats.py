"""Storing and reading heartbeats."""

from datetime import timedelta

from django.utils import timezone

from webapp.operate.models import Heartbeat

SECONDS = 10.0  # between two heartbeats of the beat
SILENCE = timedelta(seconds=30)  # after which the beat counts as down
QUEUE_SILENCE = timedelta(seconds=90)  # the same for a queue, which gets a token every 30 s
FORGET = timedelta(days=1)


def store(kind: Heartbeat.Kind, name: str) -> None:
    """Store a heartbeat; with the first of a process those long gone are forgotten."""
    now = timezone.now()
    if Heartbeat.objects.filter(kind=kind, name=name).update(at=now):
        return
    Heartbeat.objects.update_or_create(kind=kind, name=name, defaults={"at": now})
    Heartbeat.objects.filter(at__lt=now - FORGET).delete()


def ages(kind: Heartbeat.Kind) -> dict[str, float]:
    """Seconds since the last heartbeat of each of a kind, by name; without those in the future."""
    now = timezone.now()
    recent = Heartbeat.objects.filter(kind=kind, at__lte=now + SILENCE)
    rows = recent.values_list("name", "at")
    return {name: max((now - time).total_seconds(), 0.0) for name, time in rows}
