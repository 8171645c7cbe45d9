"""Heartbeats of processes that serve no port, and what fails in the background."""

from django.db import models


class Heartbeat(models.Model):
    """The last heartbeat of the beat, or of a queue: a token that was stored or a running task."""

    class Kind(models.TextChoices):
        BEAT = "beat", "beat"
        QUEUE = "queue", "queue"

    kind = models.CharField(max_length=6, choices=Kind.choices)
    name = models.CharField(max_length=128)  # of the queue; "beat" for the beat
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="one_heartbeat_a_process")
        ]


class Failure(models.Model):
    """A task that raised when it last ran; the row goes when it succeeds."""

    task = models.CharField(max_length=128, unique=True)  # its name
    error = models.CharField(max_length=300)  # the last one: its type and message
    periodic = models.BooleanField()  # it runs again by itself
    since = models.DateTimeField()  # the first of this series
    last_at = models.DateTimeField()
    times = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.task} fails since {self.since:%Y-%m-%d %H:%M} UTC"
