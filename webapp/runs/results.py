"""Result files as published runs: what `python -m methods run … --json FILE` wrote elsewhere.

A file is one run that succeeded. The whole file is checked before anything is written, and the
run's id is a hash of its content, so importing it twice changes nothing.
"""

import time
import uuid
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil
from pathlib import Path

from django.db import transaction

from methods import protocol, registry
from methods.spec import UnknownNameError
from webapp.runs import record
from webapp.runs.models import Device, Run, State
from webapp.runs.standing import update_standing

MEASURED_AS = ("method", "benchmark", "version", "params", "seed")
DAY = 86_400  # seconds
MAX_BYTES = 64 * 2**20  # a file
FORMER_PRESETS = {"standard": "full"}
NAMESPACE = uuid.UUID("6f9f7c0e-4a0f-5d0e-9f59-0d3c5a4e5e11")  # of the ids of published runs
KEPT = protocol.Series | protocol.Artefact  # beside logs and checks
Bodies = tuple[protocol.Started, list[protocol.Strict], protocol.Result]  # first, middle, last


class BadResultError(ValueError):
    """A file that cannot be published; the message says why."""


def import_file(path: Path) -> bool:
    """Publish a result file; False if it was published before. Raises BadResultError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadResultError(f"it is larger than {MAX_BYTES // 2**20} MiB")
        content = path.read_bytes()
        key = uuid.uuid5(NAMESPACE, sha256(content).hexdigest())
        return not Run.objects.filter(pk=key).exists() and _publish(key, read(content))
    except OSError as error:
        raise BadResultError(f"it cannot be read: {error.strerror}") from error


def read(content: bytes) -> Bodies:
    """The events in a file's content. Raises BadResultError."""
    bodies = [_body(number, line) for number, line in enumerate(content.splitlines(), 1)]
    if not bodies or not isinstance(started := bodies[0], protocol.Started):
        raise BadResultError("line 1 is not the event 'started'")
    *middle, last = bodies[1:] or [started]
    if isinstance(last, protocol.Failed | protocol.Cancelled):
        raise BadResultError("the run did not succeed")
    if not isinstance(last, protocol.Result):
        raise BadResultError("the last line is not the event 'result'")
    if any(isinstance(body, protocol.Started | protocol.Result) for body in middle):
        raise BadResultError("it holds more than one run")
    # One such date would stretch every chart over time by decades.
    if started.at > time.time() + DAY:
        raise BadResultError("it says that it was measured in the future")
    whole = started, middle, last
    _agrees(whole)
    return whole


def _body(number: int, line: bytes) -> protocol.Strict:
    try:
        return protocol.Line.parse(line).body
    except protocol.ProtocolError as error:
        raise BadResultError(f"line {number}: {error}") from None


def _agrees(bodies: Bodies) -> None:
    """Check what holds of every run that succeeded. Raises BadResultError."""
    started, middle, result = bodies
    try:
        _, benchmark = registry.find(f"{started.method}.{started.benchmark}")
    except UnknownNameError as error:
        raise BadResultError(str(error)) from None
    if started.version > benchmark.version:
        raise BadResultError(
            f"it is of version {started.version} of {started.method}.{started.benchmark}; "
            f"this site knows {benchmark.version}"
        )
    checks = [body for body in middle if isinstance(body, protocol.CheckResult)]
    if missed := [check.name for check in checks if not check.passed]:
        raise BadResultError(f"the check {missed[0]} missed its bound")
    if len(checks) != result.checks:
        raise BadResultError("its checks are not those that its result counts")
    names = [body.name for body in middle if isinstance(body, protocol.Series)]
    if set(names) != set(result.series) or len(names) != len(set(names)):
        raise BadResultError("its series are not those that its result names")


@transaction.atomic
def _publish(key: uuid.UUID, bodies: Bodies) -> bool:
    """Store a result as a published run; False if another process just did."""
    started, middle, result = bodies
    began = datetime.fromtimestamp(started.at, UTC)
    run, is_new = Run.objects.get_or_create(
        pk=key,
        defaults={
            "imported": True,
            **{name: getattr(started, name) for name in MEASURED_AS},
            "preset": FORMER_PRESETS.get(started.preset or "", started.preset or ""),
            "device": Device.GPU if started.device == "cuda" else Device.CPU,
            "limit_seconds": ceil(result.duration),
            "state": State.SUCCEEDED,
            "attempt": 1,
            "queued_at": began,
            "started_at": began,
            "finished_at": began + timedelta(seconds=result.duration),
            "result": result.model_dump(mode="json"),
        },
    )
    if is_new:
        record.store_measured(run, started)
        record.store_checks(
            run, [body for body in middle if isinstance(body, protocol.CheckResult)]
        )
        for seq, body in enumerate(middle, 1):
            if isinstance(body, protocol.Log):
                record.insert(run, run.token, seq, body)
            elif isinstance(body, KEPT):
                record.store_measured(run, body)
        update_standing(run)
    return is_new
