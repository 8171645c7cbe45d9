"""Requests of readers: queue a run, cancel a run."""

from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from pydantic import BaseModel, ConfigDict, Field

from assay_common.text import clean
from methods import registry
from methods.spec import InputError
from webapp.runs import broker, states
from webapp.runs.models import Device, Run, State
from webapp.runs.quota import admit
from webapp.runs.states import Writer

# Time limits of the presets.
SECONDS = {"quick": 5 * 60, "smoke": 5 * 60, "standard": 30 * 60, "full": 2 * 3600}
MAX_SEED = 2**63 - 1


class KeyReusedError(InputError):
    """An idempotency key was sent again with a different request."""


class RequestError(InputError):
    """A device that the benchmark does not support, or an invalid idempotency key."""


class RunRequest(BaseModel):
    """A run to queue: a preset, and the parameters that differ from it."""

    model_config = ConfigDict(extra="forbid")

    method: str = Field(max_length=64, examples=["sparse_attention"])
    benchmark: str = Field(max_length=64, examples=["latency"])
    preset: Literal["quick", "smoke", "standard", "full"] = "smoke"
    params: dict[str, Any] = Field({}, description="Parameters that differ from the preset's.")
    seed: int = Field(0, ge=0, le=MAX_SEED)
    device: Literal["cpu", "gpu"] = "cpu"


def submit(reader: User, request: RunRequest, key: str = "") -> Run:
    """Queue a run. With a `key`, the reader's second request returns the first one's run.

    Raises methods.errors.InputError (an unknown name, parameters with their problems by field,
    RequestError, KeyReusedError or webapp.runs.quota.QuotaError); then nothing is written.
    """
    _, benchmark = registry.find(f"{request.method}.{request.benchmark}")
    params = benchmark.resolve(request.preset, request.params, models=settings.RUN_MODELS)
    if ("cuda" if request.device == "gpu" else "cpu") not in benchmark.devices:
        raise RequestError(f"{benchmark.title} does not run on a {Device(request.device).label}.")
    if len(key) > 64 or clean(key) != key:
        raise RequestError("An idempotency key has at most 64 printable characters.")
    run = Run(
        reader=reader,
        idempotency_key=key or None,
        version=benchmark.version,
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
    admit(reader, run.method, run.limit_seconds)
    now = timezone.now()
    run.queued_at, run.charged_on = now, now.date()
    run.charged_seconds = run.limit_seconds
    run.save(force_insert=True)
    transaction.on_commit(broker.kick)
    return run
