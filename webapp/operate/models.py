"""Heartbeats of processes that serve no port: the beat, and the workers of each queue."""

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
