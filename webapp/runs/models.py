"""Runs, the events of their workers, what they measured, and on which hardware.

Only `webapp.runs.states` changes a run's state, and only `webapp.runs.record` stores what a worker
sends.
"""

import uuid
import zlib
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from methods import protocol
from webapp.papers.models import Paper

MIB = 2**20


class Device(models.TextChoices):
    """Classes of machine; each has its own queue, `bench-<device>`."""

    CPU = "cpu", "CPU"
    GPU = "gpu", "GPU"


class State(models.TextChoices):
    """The state of a run. `webapp.runs.states` defines the transitions."""

    QUEUED = "queued", "queued"
    DISPATCHED = "dispatched", "sent to a worker"
    RUNNING = "running", "running"
    CANCELLING = "cancelling", "being cancelled"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    TIMED_OUT = "timed_out", "timed out"
    CANCELLED = "cancelled", "cancelled"


WITH_WORKER = (State.DISPATCHED, State.RUNNING, State.CANCELLING)
OPEN = (State.QUEUED, *WITH_WORKER)
ENDED = (State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.CANCELLED)


class RunFailure(models.TextChoices):
    """Why a run failed. The first two are infrastructure failures: retried once, never charged."""

    WORKER_LOST = "worker_lost", "the worker was lost"
    KILLED = "killed", "it was killed"

    INPUT = "input", "the worker refused the parameters"
    CHECK = "check", "a correctness check missed its bound"
    MEMORY = "memory", "it ran out of memory"
    ERROR = "error", "the benchmark failed"

    @property
    def ours(self) -> bool:
        """True if the infrastructure failed rather than the benchmark."""
        return self in {self.WORKER_LOST, self.KILLED}


class Worker(models.Model):
    """A machine that measures, as it last announced itself.

    Its key is not here: `webapp.runs.keys` derives it from the site's secret, the name and
    `key_version`.
    """

    name = models.CharField(max_length=64, unique=True)
    key_version = models.PositiveIntegerField(default=1)
    device = models.CharField(max_length=8, choices=Device, blank=True)
    device_name = models.CharField(max_length=200, blank=True)
    memory_mib = models.PositiveIntegerField(default=0)  # what one run may use
    versions = models.JSONField(default=dict)  # {"python": "3.11.9", "torch": "2.13.0", …}
    note = models.CharField(max_length=300, blank=True)  # what its operator should know
    boot = models.CharField(max_length=64, blank=True)
    beat = models.BigIntegerField(default=0)  # the number of the last heartbeat of this boot
    retired_boots = models.JSONField(default=list)  # [str]; to drop replays
    last_seen = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Environment(models.Model):
    """A machine's hardware and software, shared by all runs that were measured on it."""

    digest = models.CharField(max_length=64, unique=True)
    hardware = models.CharField(max_length=300)  # results are compared within one class
    data = models.JSONField()  # methods.protocol.Environment


class Run(models.Model):
    """A request to measure one benchmark with fixed parameters, and its outcome."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    reader = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    idempotency_key = models.CharField(max_length=64, null=True, blank=True)
    imported = models.BooleanField(default=False)  # read from a committed result file
    public = models.BooleanField(default=True)

    # The paper whose page asked for the run, and the mechanism of the method that it measures.
    paper = models.ForeignKey(
        Paper, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs"
    )
    mechanism = models.CharField(max_length=64, blank=True)

    method = models.CharField(max_length=64)
    benchmark = models.CharField(max_length=64)
    version = models.PositiveIntegerField(default=1)  # the benchmark's
    preset = models.CharField(max_length=32, blank=True)
    params = models.JSONField(default=dict)
    seed = models.BigIntegerField(default=0)
    device = models.CharField(max_length=8, choices=Device)
    limit_seconds = models.PositiveIntegerField()

    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0)
    token = models.CharField(max_length=64, blank=True)  # names the attempt; stale ones are fenced
    worker = models.ForeignKey(Worker, null=True, blank=True, on_delete=models.SET_NULL)
    failure = models.CharField(max_length=16, choices=RunFailure, blank=True)
    reason = models.TextField(blank=True)

    queued_at = models.DateTimeField()  # unchanged by a retry, so that the run keeps its place
    dispatched_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)  # null: dispatched, perhaps never sent
    start_by = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    leased_until = models.DateTimeField(null=True, blank=True)
    finish_by = models.DateTimeField(null=True, blank=True)
    cancelling_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    progress = models.JSONField(default=dict)  # the latest snapshot
    progress_seq = models.BigIntegerField(default=-1)
    log_bytes = models.PositiveIntegerField(default=0)
    environment = models.ForeignKey(Environment, null=True, blank=True, on_delete=models.PROTECT)
    result = models.JSONField(null=True, blank=True)  # methods.protocol.Result

    # Device time: the limit is reserved when the run is queued and settled when it ends.
    charged_on = models.DateField(null=True, blank=True)
    charged_seconds = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("-queued_at",)
        constraints = [
            models.UniqueConstraint(
                fields=["reader", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="one_run_a_key",
            ),
            models.CheckConstraint(
                condition=Q(started_at__isnull=True)
                | Q(finished_at__isnull=True)
                | Q(finished_at__gte=F("started_at")),
                name="runs_end_after_they_start",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "device", "queued_at"], name="run_queue"),
            models.Index(fields=["method", "benchmark", "-finished_at"], name="run_results"),
            models.Index(fields=["public", "state", "-finished_at", "id"], name="run_feed"),
            models.Index(fields=["-queued_at", "id"], name="run_list"),
            models.Index(fields=["reader", "state"], name="run_reader"),
            models.Index(fields=["reader", "charged_on"], name="run_quota"),
        ]

    def get_absolute_url(self) -> str:
        """The address of its page."""
        return reverse("runs:run", args=[self.pk])

    @property
    def ended(self) -> bool:
        """True if the run is in a final state."""
        return self.state in ENDED

    @property
    def hardware(self) -> str:
        """The hardware class that it was measured on; results are compared within one class."""
        return self.environment.hardware if self.environment else "unknown hardware"


class Event(models.Model):
    """A message of a worker; the unique constraint makes recording it twice harmless."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    token = models.CharField(max_length=64)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=16)
    body = models.JSONField(default=dict)
    recorded_at = models.DateTimeField()

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(fields=["run", "token", "seq"], name="one_row_an_event")
        ]


class RunLog(models.Model):
    """The whole log of a run that ended some time ago, compressed."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="log")
    compressed = models.BinaryField()  # zlib, of UTF-8

    @property
    def text(self) -> str:
        """The log."""
        return zlib.decompress(self.compressed).decode()


class Series(models.Model):
    """One measured quantity of a run: a chart shows it, and claims are compared with it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="series")
    name = models.CharField(max_length=128)
    data = models.JSONField()  # methods.protocol.Series: axes, variants, points

    class Meta:
        ordering = ("id",)
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_series_a_name")]

    def parsed(self) -> protocol.Series:
        """The series, validated again, since an older version may have written it.

        Raises ValueError.
        """
        return protocol.Series.model_validate_json(protocol.canonical(self.data))


class StandingMeasurement(models.Model):
    """The current measurement of a series: one for each benchmark, series and hardware class.

    Quick runs have rows of their own, one for each `subset` of the benchmark: the mechanism and
    sizes that a paper asked for. Measurements of earlier versions of a benchmark are kept as its
    history. `webapp.runs.standing` writes a row when a run is recorded.
    """

    class Rank(models.IntegerChoices):
        """Representativeness of the requested settings; a lower rank wins, whatever its date."""

        PRESET = 0, "preset"
        CHANGED = 1, "changed settings"
        SMOKE = 2, "smoke test"

    method = models.CharField(max_length=64)
    benchmark = models.CharField(max_length=64)
    name = models.CharField(max_length=128)  # the series'
    hardware = models.CharField(max_length=300)
    subset = models.CharField(max_length=200, blank=True)  # "quick …"; "" for any other run
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="standing")
    rank = models.PositiveSmallIntegerField(choices=Rank)
    version = models.PositiveIntegerField()  # the benchmark's
    measured_at = models.DateTimeField()
    headline = models.BooleanField(default=False)  # the first series of its run

    class Meta:
        ordering = ("benchmark", "name", "hardware", "version")
        constraints = [
            models.UniqueConstraint(
                fields=["method", "benchmark", "name", "hardware", "version", "subset"],
                name="one_stands",
            )
        ]

    @property
    def quick(self) -> bool:
        """True if a quick run measured it."""
        return bool(self.subset)

    @property
    def weight(self) -> tuple[int, int, datetime]:
        """Sort key of measurements of all versions: the largest one counts."""
        return -self.rank, self.version, self.measured_at


class Check(models.Model):
    """One correctness check, run before anything is measured."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checks")
    name = models.CharField(max_length=64)
    label = models.CharField(max_length=200, blank=True)
    passed = models.BooleanField()
    data = models.JSONField()  # methods.protocol.CheckResult: what was measured against which bound

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(fields=["run", "name", "label"], name="one_check_a_label")
        ]


class Artefact(models.Model):
    """A small file that a benchmark wrote; served as an attachment, never rendered."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artefacts")
    name = models.CharField(max_length=128)
    media_type = models.CharField(max_length=100)
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        ordering = ("name",)
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_artefact_a_name")]

    def get_absolute_url(self) -> str:
        """The address of its download."""
        return reverse("runs:artefact", args=[self.run_id, self.name])


class PeriodicTask(models.Model):
    """When a periodic task last ran, so that a pause of the site is noticed."""

    name = models.CharField(max_length=32, unique=True)
    done_at = models.DateTimeField()
