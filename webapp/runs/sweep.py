"""Periodic work on runs: repeats lost messages, expires leases and enforces limits.

All times are the site's own clock. A worker's silence only counts while the site was listening:
after a pause, a backlog of messages or a step of the clock, all deadlines are extended.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from webapp.runs import broker, redis_users, states
from webapp.runs.dispatch import dispatch, send
from webapp.runs.models import OPEN, WITH_WORKER, PeriodicTask, Run, RunFailure, State, Worker
from webapp.runs.states import Writer
from webapp.runs.times import CANCEL, LEASE, OVERTIME, PAUSE, PROMPT, RESEND, START

LEASE_CHECK = "lease check"  # the row of PeriodicTask

log = logging.getLogger(__name__)


def sweep() -> None:
    """Repeat lost messages, dispatch, and queue a lease check behind the waiting events."""
    now = timezone.now()
    if Run.objects.filter(state__in=WITH_WORKER).exists():
        _repeat_lost(now)
        broker.request_lease_check()
    elif not _was_listening(now, now):  # no waiting event can concern a lease
        _extend_leases(now)
    redis_users.update()
    dispatch()


def is_idle() -> bool:
    """True if no run is open: nothing waits for a sweep, and the site counts as listening."""
    if Run.objects.filter(state__in=OPEN).exists():
        return False
    now = timezone.now()
    lately = PeriodicTask.objects.filter(name=LEASE_CHECK, done_at__range=(now - PAUSE, now))
    if not lately.update(done_at=now) and not _was_listening(now, now):
        _extend_leases(now)
    return True


def _repeat_lost(now: datetime) -> None:
    unanswered = Q(sent_at__lt=now - RESEND) | Q(sent_at=None, dispatched_at__lt=now - RESEND)
    # After a crash between commit and send, or a loss in the broker, send the same token again.
    lost = Run.objects.filter(unanswered, state=State.DISPATCHED, start_by__gt=now)
    _for_each(lost, send)
    cancelling = Run.objects.filter(state=State.CANCELLING)
    _for_each(cancelling, lambda run: broker.cancel(run.pk, run.token))


def expire_leases(sent_at: float) -> None:
    """Give up overdue attempts; `sent_at` (seconds since 1970) is when the sweep asked for it."""
    now = timezone.now()
    if not _was_listening(now, datetime.fromtimestamp(sent_at, UTC)):
        _extend_leases(now)
        return
    unstarted = Q(state=State.DISPATCHED, start_by__lt=now)
    silent = Q(state=State.RUNNING, leased_until__lt=now)
    for overdue in (unstarted, silent):
        _for_each(Run.objects.filter(overdue), _expire, overdue)
    unanswered = Run.objects.filter(state=State.CANCELLING, cancelling_at__lt=now - CANCEL)
    _for_each(unanswered, lambda run: states.move(run, State.CANCELLED, Writer.SWEEP))
    _for_each(Run.objects.filter(state=State.RUNNING, finish_by__lt=now), _time_out)


def _for_each(runs: QuerySet[Run], action: Callable[..., object], *arguments: object) -> None:
    """Call `action` with each run and `arguments`; an error in one does not affect the others."""
    for run in list(runs.select_related("worker")):
        try:
            action(run, *arguments)
        except Exception:
            log.exception("Run %s skipped in this sweep", run.pk)


def _expire(run: Run, overdue: Q) -> None:
    """Give up an attempt, unless it has been heard from since the query for overdue runs."""
    token = run.token
    reason = "No worker started it in time."
    if run.state == State.RUNNING:
        name = run.worker.name if run.worker else "its worker"
        reason = f"Nothing was heard of {name} for {LEASE.seconds} s."
    with transaction.atomic():
        still = Run.objects.select_for_update().filter(overdue, pk=run.pk, token=token).first()
        given_up = still and states.fail(still, RunFailure.WORKER_LOST, reason, Writer.SWEEP)
    if given_up:
        log.warning("Run %s, attempt %d given up: %s", run.pk, run.attempt, reason)
        broker.cancel(run.pk, token)  # in case its worker is alive after all


def _time_out(run: Run) -> None:
    """End a run past its limit, which its worker should have done."""
    reason = f"It ran past its limit of {run.limit_seconds} s."
    if states.move(run, State.TIMED_OUT, Writer.SWEEP, reason=reason):
        broker.cancel(run.pk, run.token)


def _was_listening(now: datetime, sent_at: datetime) -> bool:
    """True if all events that have arrived are stored, so that deadlines can be trusted.

    They cannot on the first check, after a pause, behind a backlog of messages, or after the clock
    was set back.
    """
    with transaction.atomic():
        last, is_first = PeriodicTask.objects.select_for_update().get_or_create(
            name=LEASE_CHECK, defaults={"done_at": now}
        )
        since = now - last.done_at
        last.done_at = now
        last.save()
    return not is_first and timedelta() <= since <= PAUSE and now - sent_at <= PROMPT


def _extend_leases(now: datetime) -> None:
    """Extend deadlines that have passed, or that an earlier clock set too far ahead."""
    soon = now + LEASE
    running = Run.objects.filter(state=State.RUNNING)
    extended = running.exclude(leased_until=soon).update(leased_until=soon)
    unstarted = Run.objects.filter(state=State.DISPATCHED)
    far = Q(start_by__lt=soon) | Q(start_by__gt=now + START)
    extended += unstarted.filter(far).update(start_by=soon)
    Run.objects.filter(state=State.CANCELLING).update(cancelling_at=now)
    for run in Run.objects.filter(state__in=WITH_WORKER, finish_by__isnull=False):
        # Its running time is not known here; its worker knows, and ends it at its limit.
        latest = now + timedelta(seconds=run.limit_seconds) + OVERTIME
        if run.finish_by and not soon <= run.finish_by <= latest:
            Run.objects.filter(pk=run.pk, token=run.token).update(finish_by=latest)
    # A heartbeat in the future would make a dead worker look alive until then.
    Worker.objects.filter(last_seen__gt=now).update(last_seen=now)
    if extended:
        log.warning("Extended %d leases: the site was not listening, or its clock moved", extended)
