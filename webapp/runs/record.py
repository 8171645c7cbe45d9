"""The recorder: validates each event of a worker, checks its token and stores it once.

Messages may be lost, duplicated, reordered, late or forged. The signature keeps out strangers, the
token old attempts, and the unique (run, token, seq) duplicates. Nothing depends on order: any event
of the current attempt shows that it is running, and a result waits for all that it names. A run
that has succeeded is complete, and its measurements no longer change.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from methods import protocol
from webapp.runs import broker, states
from webapp.runs.dispatch import dispatch
from webapp.runs.keys import key_named
from webapp.runs.models import WITH_WORKER, Check, Environment, Run, RunFailure, State, Worker
from webapp.runs.queries import with_id
from webapp.runs.standing import update_standing
from webapp.runs.states import Writer
from webapp.runs.times import LEASE, OVERTIME

MAX_LOG_BYTES = 2**20  # per run
MAX_EVENTS = {**protocol.MEASURED, "result": 1}  # events of each kind, per run

log = logging.getLogger(__name__)


def store_event(message: object) -> bool:
    """Store a signed event; return False if it was dropped."""
    try:
        event = protocol.unseal(protocol.Event, message, key_named)
    except protocol.ProtocolError as error:
        log.warning("Dropped an event: %s", error)
        return False
    with transaction.atomic():
        run = with_id(Run.objects.select_for_update(), event.run)
        if run is None:
            log.warning("Dropped an event of run %s: no such run", event.run)
            return False
        if not _is_of_this_attempt(run, event):
            return False
        was_held = run.state in WITH_WORKER
        recorded = _apply(run, event)
    if was_held and run.state not in WITH_WORKER:
        dispatch()  # its worker is idle now
    return recorded


def store_measured(run: Run, body: protocol.Strict) -> None:
    """Store an imported environment, series or file; see also `store_checks`."""
    _EFFECTS[protocol.KINDS[type(body)]](run, body)


def store_checks(run: Run, checks: Iterable[protocol.CheckResult]) -> None:
    """Store the results of checks; of two with one name and label the later stands."""
    rows = {
        (check.name, check.label): Check(
            run=run,
            name=check.name,
            label=check.label,
            passed=check.passed,
            data=check.model_dump(mode="json"),
        )
        for check in checks
    }
    Check.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["run", "name", "label"],
        update_fields=["passed", "data"],
    )


def _is_of_this_attempt(run: Run, event: protocol.Event) -> bool:
    """True if the event belongs to the current attempt; otherwise tell its sender to stop."""
    reason = ""
    if event.token != run.token:
        reason = "the attempt was given up"
    elif run.worker and run.worker.name != event.worker:
        reason = f"the run belongs to {run.worker.name}"
    elif run.ended and run.state != State.SUCCEEDED and event.kind == "progress":
        reason = "the run has ended"
    if reason:
        log.warning("Run %s: dropped %s from %s: %s", run.pk, event.kind, event.worker, reason)
        transaction.on_commit(partial(broker.cancel, run.pk, event.token, event.worker))
    return not reason


def _apply(run: Run, event: protocol.Event) -> bool:
    """Apply an event of the current attempt, unless it was recorded before."""
    if event.kind == "progress":
        return _store_progress(run, event)
    if not run.ended:
        _mark_running(run, event.worker)
    elif run.state == State.SUCCEEDED and event.kind != "log":
        return False
    if not insert(run, event.token, event.seq, event.body):
        return False
    if effect := _EFFECTS.get(event.kind):
        effect(run, event.body)
    if event.kind in MAX_EVENTS:
        _finish(run)
    return True


def _mark_running(run: Run, worker: str) -> None:
    """Record what any event shows: the attempt is running, on this worker, and it is alive."""
    now = timezone.now()
    fields: dict[str, object] = {"leased_until": now + LEASE}
    if run.worker is None:
        fields |= {
            "worker": Worker.objects.get(name=worker),
            "started_at": now,
            "finish_by": now + timedelta(seconds=run.limit_seconds) + OVERTIME,
        }
    if run.state == State.DISPATCHED:
        states.move(run, State.RUNNING, Writer.RECORDER, **fields)
        return
    for name, value in fields.items():
        setattr(run, name, value)
    run.save(update_fields=list(fields))
    if run.state == State.CANCELLING:  # the first cancel may have come too early for the worker
        transaction.on_commit(partial(broker.cancel, run.pk, run.token, worker))


def insert(run: Run, token: str, seq: int, payload: protocol.Strict) -> bool:
    """Insert the row of an event; return False if it exists or its kind has reached its limit.

    The caller has locked the run's row, so no other process inserts the same row meanwhile.
    """
    if run.events.filter(token=token, seq=seq).exists():
        return False
    kind, body = protocol.KINDS[type(payload)], payload.model_dump(mode="json")
    if isinstance(payload, protocol.Log):
        room = MAX_LOG_BYTES - run.log_bytes
        text = payload.text.encode()[:room].decode(errors="ignore")
        if not text:
            return False
        body |= {"text": text, "size": len(text.encode())}
        run.log_bytes += body["size"]
        run.save(update_fields=["log_bytes"])
    elif (
        kind in MAX_EVENTS
        and run.events.filter(token=run.token, kind=kind).count() >= MAX_EVENTS[kind]
    ):
        log.warning("Run %s: dropped %s: more than %d of them", run.pk, kind, MAX_EVENTS[kind])
        return False
    elif kind in {"series", "artefact"}:
        body = {"name": body["name"]}  # its content is in its own table
    run.events.create(token=token, seq=seq, kind=kind, body=body, recorded_at=timezone.now())
    return True


def _finish(run: Run) -> None:
    """End a run once everything that its result names has arrived."""
    events = run.events.filter(token=run.token)
    last = events.filter(kind="result").first()
    if run.ended or last is None:
        return
    result = protocol.Result.model_validate_json(protocol.canonical(last.body))
    named = result.named()
    if not named <= Counter(events.filter(kind__in=named).values_list("kind", flat=True)):
        return
    if reason := _contradiction(run, result):
        states.fail(run, RunFailure.CHECK, reason, Writer.RECORDER)
    elif states.move(run, State.SUCCEEDED, Writer.RECORDER, result=last.body):
        update_standing(run)


def _contradiction(run: Run, result: protocol.Result) -> str:
    """Return why a result cannot be that of its run, or ""; no worker of ours sends such a one."""
    if missed := run.checks.filter(passed=False).first():
        return f"Its worker reports success, but the check {missed.name} missed its bound."
    if set(run.series.values_list("name", flat=True)) != set(result.series):
        return "Its worker's result names other series than it sent."
    return ""


def _store_progress(run: Run, event: protocol.Event) -> bool:
    """Store the newest progress, which has no event row."""
    if run.ended or event.seq <= run.progress_seq:
        return False
    _mark_running(run, event.worker)
    run.progress, run.progress_seq = event.body.model_dump(mode="json"), event.seq
    run.save(update_fields=["progress", "progress_seq"])
    return True


# The effects of each kind of event.


def _started(run: Run, body: protocol.Started) -> None:
    data = body.environment.model_dump(mode="json")
    # `before` has clocks and load, which differ between runs on one machine.
    lasting = {name: value for name, value in data.items() if name != "before"}
    digest = hashlib.sha256(protocol.canonical(lasting)).hexdigest()
    run.environment, _ = Environment.objects.get_or_create(
        digest=digest, defaults={"hardware": body.environment.hardware, "data": lasting}
    )
    run.save(update_fields=["environment"])


def _series(run: Run, body: protocol.Series) -> None:
    run.series.update_or_create(name=body.name, defaults={"data": body.model_dump(mode="json")})


def _check(run: Run, body: protocol.CheckResult) -> None:
    store_checks(run, [body])


def _artefact(run: Run, body: protocol.Artefact) -> None:
    content = body.data()
    values = {
        "media_type": body.media_type,
        "content": content,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    run.artefacts.update_or_create(name=body.name, defaults=values)


def _failed(run: Run, body: protocol.Failed) -> None:
    if run.ended:
        return
    reason = f"{body.message}\n{body.detail}".strip()
    if body.kind == "timeout" and run.state == State.RUNNING:
        states.move(run, State.TIMED_OUT, Writer.RECORDER, reason=reason)
    elif run.state == State.CANCELLING:
        states.move(run, State.CANCELLED, Writer.RECORDER)
    else:
        states.fail(run, RunFailure(body.kind), reason, Writer.RECORDER)


def _cancelled(run: Run, body: protocol.Cancelled) -> None:
    if not run.ended:
        states.move(run, State.CANCELLED, Writer.RECORDER, reason=body.reason)


# Logs and results are stored as events only. The protocol has checked that the body is of the class
# that belongs to its kind.
_EFFECTS: dict[str, Callable[[Run, Any], None]] = {
    "started": _started,
    "series": _series,
    "check": _check,
    "artefact": _artefact,
    "failed": _failed,
    "cancelled": _cancelled,
}
