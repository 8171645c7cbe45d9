"""Requests of readers: queue a run, cancel a run; and their limits: runs at once, device time."""

from math import ceil
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field

from assay_common.text import clean
from methods import registry
from methods.spec import InputError
from webapp.core.durations import span
from webapp.papers.models import Paper
from webapp.runs import broker, states
from webapp.runs.models import OPEN, Device, Run, State
from webapp.runs.queries import estimates
from webapp.runs.states import Writer

# After which a run of a preset is ended, and what one is taken to need where none has run yet.
SECONDS = {"quick": 5 * 60, "smoke": 5 * 60, "full": 2 * 3600}
USUAL_SECONDS = {"quick": 2 * 60, "smoke": 30, "full": 30 * 60}
MAX_SEED = 2**63 - 1
RUNNING, QUEUED = 1, 3  # runs of a reader


class KeyReusedError(InputError):
    """An idempotency key was sent again with a different request."""


class QuotaError(InputError):
    """A run that exceeds a limit; the message says why and what to do."""


class RequestError(InputError):
    """A device that the benchmark does not support, or an invalid idempotency key."""


class RunRequest(BaseModel):
    """A run to queue: a preset, and the parameters that differ from it."""

    model_config = ConfigDict(extra="forbid")

    method: str = Field(max_length=64, examples=["sparse_attention"])
    benchmark: str = Field(max_length=64, examples=["latency"])
    preset: Literal["quick", "full", "smoke"] = "quick"
    params: dict[str, Any] = Field({}, description="Parameters that differ from the preset's.")
    seed: int = Field(0, ge=0, le=MAX_SEED)
    device: Literal["cpu", "gpu"] = "cpu"


def submit(
    reader: User,
    request: RunRequest,
    key: str = "",
    *,
    paper: Paper | None = None,
    mechanism: str = "",
) -> Run:
    """Queue a run. With a `key`, the reader's second request returns the first one's run.

    `paper` is the one whose page asked for the run, and `mechanism` what of the method it measures.

    Raises methods.errors.InputError (an unknown name, parameters with their problems by field,
    RequestError, KeyReusedError or QuotaError); then nothing is written.
    """
    benchmark = registry.find(f"{request.method}.{request.benchmark}")[1]
    params = benchmark.resolve(
        request.preset, request.params, models=settings.RUN_MODELS, device=request.device
    )
    if ("cuda" if request.device == "gpu" else "cpu") not in benchmark.devices:
        raise RequestError(f"{benchmark.title} does not run on a {Device(request.device).label}.")
    if len(key) > 64 or clean(key) != key:
        raise RequestError("An idempotency key has at most 64 printable characters.")
    run = Run(
        reader=reader,
        idempotency_key=key or None,
        version=benchmark.version,
        paper=paper,
        mechanism=mechanism,
        limit_seconds=SECONDS[request.preset],
        **request.model_dump() | {"params": params.model_dump(mode="json")},
    )
    return _queue(reader, run)


def cancel(run: Run) -> bool:
    """Cancel a run; False if it had ended. The caller checks who may."""
    while not run.ended:
        if run.state == State.CANCELLING:
            return True
        if run.state == State.QUEUED:
            if states.move(run, State.CANCELLED, Writer.VIEW):
                return True
        elif states.move(run, State.CANCELLING, Writer.VIEW, cancelling_at=timezone.now()):
            broker.cancel(run.pk, run.token)
            return True
        run.refresh_from_db()  # its state has changed meanwhile: try again
    return False


@transaction.atomic
def _queue(reader: User, run: Run) -> Run:
    # The reader's row is the lock: two concurrent requests cannot both take the last place.
    User.objects.select_for_update().get(pk=reader.pk)
    same_key = Run.objects.filter(reader=reader, idempotency_key=run.idempotency_key)
    if run.idempotency_key and (earlier := same_key.first()):
        if any(getattr(earlier, name) != getattr(run, name) for name in RunRequest.model_fields):
            raise KeyReusedError(f"This key was used for another request: run {earlier.pk}.")
        return earlier
    needed = estimated_seconds(run)
    admit(reader, needed)
    now = timezone.now()
    run.queued_at, run.charged_on = now, now.date()
    run.charged_seconds = needed
    run.save(force_insert=True)
    transaction.on_commit(broker.kick)
    return run


def estimated_seconds(run: Run) -> int:
    """Device time to reserve for a run: what the last ones of its preset took."""
    past = estimates(run.method, run.benchmark).get((run.preset, run.device))
    return min(run.limit_seconds, ceil(past or USUAL_SECONDS[run.preset]))


def seconds_left(reader: User) -> int:
    """Device time that a new run of `reader` may still reserve today (UTC), in seconds.

    A run that has not ended reserves its estimate; one that has ended is charged what it took.
    """
    today = Run.objects.filter(reader=reader, charged_on=timezone.now().date())
    used: int = today.aggregate(used=Sum("charged_seconds", default=0))["used"]
    return max(0, settings.RUN_MINUTES_A_DAY * 60 - used)


def admit(reader: User, seconds: int) -> None:
    """Raise QuotaError unless `reader` may now measure for `seconds`.

    Quotas share the machine between readers: they do not bind the staff. The caller has locked the
    reader's row, so concurrent requests count each other.
    """
    if reader.is_staff:
        return
    open_runs = Run.objects.filter(reader=reader, state__in=OPEN).count()
    if open_runs >= RUNNING + QUEUED:
        most = _("You have %d runs waiting or running, which is the limit. Wait, or cancel one.")
        raise QuotaError(most % open_runs)
    left = seconds_left(reader)
    if seconds > left:
        spent = _(
            "This run takes about %(time)s, and %(left)s of today’s %(minutes)d min are left. "
            "Choose the quick run, or try again after midnight UTC."
        )
        minutes = settings.RUN_MINUTES_A_DAY
        raise QuotaError(spent % {"time": span(seconds), "left": span(left), "minutes": minutes})
