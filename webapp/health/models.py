"""Signs of life of the processes that have no address."""

from __future__ import annotations

from django.db import models


class Heartbeat(models.Model):
    """The last sign of life of one process: the beat, or a worker."""

    class Kind(models.TextChoices):
        BEAT = "beat", "beat"
        WORKER = "worker", "worker"

    kind = models.CharField(max_length=6, choices=Kind.choices)
    name = models.CharField(max_length=128)  # a worker's node name; "beat" for the beat
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="one_heartbeat_a_process"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
