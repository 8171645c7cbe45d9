"""Storing and reading heartbeats."""

from datetime import timedelta

from django.utils import timezone

from webapp.health.models import Heartbeat

SECONDS = 10.0  # between two heartbeats of the beat
SILENCE = timedelta(seconds=30)  # after which the beat or a queue counts as gone
FORGET = timedelta(days=1)
LONGEST = timedelta(minutes=30)  # of work ahead; what is dated later was dated by a wrong clock


def store(kind: Heartbeat.Kind, name: str, busy_for: float = 0.0) -> None:
    """Store a heartbeat, or that the next is due after at most `busy_for` seconds of work."""
    now = timezone.now()
    at = now + timedelta(seconds=busy_for)
    Heartbeat.objects.update_or_create(kind=kind, name=name, defaults={"at": at})
    Heartbeat.objects.filter(at__lt=now - FORGET).delete()


def ages(kind: Heartbeat.Kind) -> dict[str, float]:
    """Seconds since the last heartbeat of each of a kind, by name; 0 while one is busy."""
    now = timezone.now()
    recent = Heartbeat.objects.filter(kind=kind, at__lte=now + LONGEST)
    rows = recent.values_list("name", "at")
    return {name: max((now - at).total_seconds(), 0.0) for name, at in rows}
