"""Heartbeats: which workers live, on what they measure, and which attempt they hold."""

from __future__ import annotations

import logging

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from methods import protocol
from webapp.runs import broker
from webapp.runs.dispatch import dispatch
from webapp.runs.keys import key_named
from webapp.runs.models import MIB, Run, State, Worker
from webapp.runs.times import LEASE

REMEMBERED = 100  # boots of a worker

log = logging.getLogger(__name__)


def hear(message: object) -> bool:
    """Take one signed heartbeat; False if it was dropped, for a reason that is logged."""
    try:
        beat = protocol.open_heartbeat(message, key_named)
    except protocol.ProtocolError as error:
        log.warning("A heartbeat was dropped: %s", error)
        return False
    with transaction.atomic():
        worker = Worker.objects.select_for_update().get(name=beat.worker)
        came_back = worker.boot != beat.boot
        if not _is_news(worker, beat):
            return False
        _announce(worker, beat)
    _renew(worker, beat)
    if came_back:
        dispatch()  # somebody may be waiting for it
    return True


def _is_news(worker: Worker, beat: protocol.Heartbeat) -> bool:
    """Whether a heartbeat is newer than all before it, by its own count: clocks may be wrong."""
    if worker.boot == beat.boot:
        return beat.beat > worker.beat
    return beat.boot not in worker.retired_boots


def _announce(worker: Worker, beat: protocol.Heartbeat) -> None:
    if worker.boot and worker.boot != beat.boot:
        worker.retired_boots = [*worker.retired_boots, worker.boot][-REMEMBERED:]
    worker.boot, worker.beat = beat.boot, beat.beat
    worker.device, worker.device_name = beat.device, beat.device_name
    worker.memory_mib = beat.memory_bytes // MIB
    worker.versions, worker.note = beat.versions, beat.note
    worker.last_seen = None if beat.leaving else timezone.now()
    worker.save()


def _renew(worker: Worker, beat: protocol.Heartbeat) -> None:
    """Renew the lease of the attempt a worker holds; tell it if that attempt was given up."""
    if beat.token is None or beat.run is None:
        return
    held = Run.objects.filter(pk=beat.run, token=beat.token).filter(
        Q(worker=worker) | Q(worker__isnull=True)
    )
    held.filter(state=State.RUNNING).update(leased_until=timezone.now() + LEASE)
    # One look at both states: between two, its first event may take it from one to the other.
    if not held.filter(state__in=(State.DISPATCHED, State.RUNNING)).exists():
        broker.cancel(beat.run, beat.token, beat.worker)
