"""Heartbeats of what has no address: the beat, and each queue that is worked on."""

from django.db import models


class Heartbeat(models.Model):
    """The last heartbeat of the beat, or the last answer of a queue.

    `at` lies in the future while a task runs on the queue that may take until then.
    """

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
