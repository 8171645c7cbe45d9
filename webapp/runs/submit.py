"""What a reader asks for: a run, a run again, the end of a run."""

import uuid
from dataclasses import dataclass, field

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from methods import registry
from methods.protocol import clean
from webapp.runs import broker, states
from webapp.runs.models import WITH_WORKER, Device, Run, State
from webapp.runs.quota import admit
from webapp.runs.states import Writer

SECONDS = {"smoke": 5 * 60, "standard": 30 * 60, "full": 2 * 3600}  # the time limit of a preset
MAX_SEED = 2**63 - 1
ASKED = ("method", "benchmark", "preset", "params", "seed", "device")  # what a reader asks for


class KeyReusedError(ValueError):
    """An idempotency key came back with another request than the one it was first sent with."""


class RequestError(ValueError):
    """A request that names no device or seed of ours; the message says what would do."""


@dataclass(frozen=True)
class Request:
    """A run as asked for: names, a preset, and what differs from it.

    `key` makes asking twice harmless: the second request with a reader's key is answered by the
    first one's run.
    """

    method: str
    benchmark: str
    preset: str = "smoke"
    settings: dict[str, object] = field(default_factory=dict)
    seed: int = 0
    device: str = Device.CPU
    key: str = ""


def submit(reader: User, request: Request) -> Run:
    """Queue a run.

    Raises methods.errors.InputError (an unknown name, or parameters with their problems by
    field), RequestError, KeyReusedError and webapp.runs.quota.QuotaError; then nothing was written.
    """
    method, benchmark = registry.find(f"{request.method}.{request.benchmark}")
    params = benchmark.resolve(request.preset, request.settings, models=settings.RUN_MODELS)
    # The form offers nothing else; the API takes any text.
    if request.device not in Device.values:
        raise RequestError(f"No device is called {request.device!r}: choose cpu or gpu.")
    if ("cuda" if request.device == Device.GPU else "cpu") not in benchmark.devices:
        raise RequestError(f"{benchmark.title} does not run on a {Device(request.device).label}.")
    if not 0 <= request.seed <= MAX_SEED:
        raise RequestError(f"A seed is a whole number from 0 to {MAX_SEED}.")
    if len(request.key) > 64 or clean(request.key) != request.key:
        raise RequestError("An idempotency key has at most 64 printable characters.")
    run = Run(
        reader=reader,
        idempotency_key=request.key or None,
        method=method.slug,
        benchmark=benchmark.slug,
        version=benchmark.version,
        preset=request.preset,
        params=params.model_dump(mode="json"),
        seed=request.seed,
        device=request.device,
        limit_seconds=SECONDS[request.preset],
    )
    return _queue(reader, run)


def again(reader: User, run: Run, key: str = "") -> Run:
    """Queue a run with the parameters of another. Raises what `submit` raises."""
    preset = run.preset or "standard"
    request = Request(run.method, run.benchmark, preset, run.params, run.seed, run.device, key)
    return submit(reader, request)


def cancel(run: Run) -> bool:
    """End a run that has not ended; False if it had. Who may ask is the caller's business."""
    while not run.ended:
        if run.state == State.CANCELLING:
            return True
        if run.state == State.QUEUED:
            done = states.move(run, State.CANCELLED, Writer.VIEW)
        else:
            done = states.move(run, State.CANCELLING, Writer.VIEW, cancelling_at=timezone.now())
        if done:
            if run.state in WITH_WORKER:
                broker.cancel(run.pk, run.token)
            return True
        run.refresh_from_db()  # somebody moved it first: look again
    return False


@transaction.atomic
def _queue(reader: User, run: Run) -> Run:
    # The reader's row is the lock: two requests at once cannot both find the last place free.
    User.objects.select_for_update().get(pk=reader.pk)
    same_key = Run.objects.filter(reader=reader, idempotency_key=run.idempotency_key)
    if run.idempotency_key and (earlier := same_key.first()):
        if any(getattr(earlier, name) != getattr(run, name) for name in ASKED):
            raise KeyReusedError(f"This key was used for another request: run {earlier.pk}.")
        return earlier
    admit(reader, run.method, run.limit_seconds)
    now = timezone.now()
    run.id = uuid.uuid4()
    run.queued_at, run.charged_on = now, now.date()
    run.charged_seconds = run.limit_seconds
    run.save(force_insert=True)
    transaction.on_commit(broker.kick)
    return run
