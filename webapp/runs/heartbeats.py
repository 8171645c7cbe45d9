"""Heartbeats: the workers that are alive, their hardware, and the attempt that each is running."""

import logging
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from methods import protocol
from webapp.runs import broker
from webapp.runs.dispatch import dispatch
from webapp.runs.keys import key_named
from webapp.runs.models import MIB, Run, State, Worker
from webapp.runs.times import LEASE

MOST_MIB = 2**31 - 1  # the column's limit
REMEMBERED_BOOTS = 100  # of each worker, to recognise replayed heartbeats

log = logging.getLogger(__name__)


def record_heartbeat(message: object) -> bool:
    """Store a signed heartbeat; return False if it was dropped."""
    try:
        beat = protocol.unseal(protocol.Heartbeat, message, key_named)
    except protocol.ProtocolError as error:
        log.warning("Dropped a heartbeat: %s", error)
        return False
    with transaction.atomic():
        worker = Worker.objects.select_for_update().get(name=beat.worker)
        came_back = worker.boot != beat.boot
        if not _is_newer(worker, beat):
            return False
        _update_worker(worker, beat)
    _extend_lease(worker, beat)
    if came_back:
        dispatch()  # a run may be waiting for this worker
    return True


def _is_newer(worker: Worker, beat: protocol.Heartbeat) -> bool:
    """True if a heartbeat is the newest so far, by its counter: clocks may be wrong."""
    if worker.boot == beat.boot:
        return beat.beat > worker.beat
    return beat.boot not in worker.retired_boots


def _update_worker(worker: Worker, beat: protocol.Heartbeat) -> None:
    if worker.boot and worker.boot != beat.boot:
        worker.retired_boots = [*worker.retired_boots, worker.boot][-REMEMBERED_BOOTS:]
    for name in ("boot", "beat", "device", "device_name", "versions", "note"):
        setattr(worker, name, getattr(beat, name))
    worker.memory_mib = min(beat.memory_bytes // MIB, MOST_MIB)
    worker.last_seen = None if beat.leaving else timezone.now()
    worker.save()


def _extend_lease(worker: Worker, beat: protocol.Heartbeat) -> None:
    """Extend the lease of the attempt that a worker runs; cancel it there if it was given up."""
    if beat.token is None or beat.run is None:
        return
    try:
        run = UUID(beat.run)
    except ValueError:  # signed, but not by our code
        return
    runs = Run.objects.filter(Q(worker=worker) | Q(worker=None), pk=run, token=beat.token)
    runs.filter(state=State.RUNNING).update(leased_until=timezone.now() + LEASE)
    # One query for both states: the run may move from one to the other between two queries.
    if not runs.filter(state__in=(State.DISPATCHED, State.RUNNING)).exists():
        broker.cancel(beat.run, beat.token, beat.worker)
