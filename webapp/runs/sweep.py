"""What time does to runs: lost sends repeated, silence judged, cancels and limits enforced.

All times are the web side's own clock. Silence is held against a worker only when we have been
listening: after a pause of ours, or with a backlog of messages, every respite starts anew.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from webapp.runs import broker, states
from webapp.runs.dispatch import dispatch, send
from webapp.runs.models import WITH_WORKER, Failure, Pulse, Run, State
from webapp.runs.states import Writer
from webapp.runs.times import CANCEL, LEASE, PAUSE, PROMPT, RESEND

log = logging.getLogger(__name__)


def sweep() -> None:
    """Repeat what may have been lost; then have silence judged behind the events that wait."""
    _repeat_lost_sends()
    _repeat_cancels()
    dispatch()
    try:
        broker.judge_silence()
    except broker.BrokerDownError as error:
        log.warning("Nobody is judged while the broker is down: %s", error)


def judge(sent_at: float) -> None:
    """Judge every silence; `sent_at` (seconds since 1970) is when the sweep asked for it."""
    now = timezone.now()
    if _was_away(now, datetime.fromtimestamp(sent_at, UTC)):
        _spare(now)
        return
    unstarted = Q(state=State.DISPATCHED, start_by__lt=now)
    for run in Run.objects.filter(unstarted):
        _give_up(run, "No worker started it in time.", unstarted)
    unheard = Q(state=State.RUNNING, leased_until__lt=now)
    for run in Run.objects.filter(unheard):
        name = run.worker.name if run.worker else "its worker"
        _give_up(run, f"Nothing was heard of {name} for {LEASE.seconds} s.", unheard)
    for run in Run.objects.filter(state=State.CANCELLING, cancelling_at__lt=now - CANCEL):
        states.move(run, State.CANCELLED, Writer.SWEEP)
    for run in Run.objects.filter(state=State.RUNNING, finish_by__lt=now):
        # A worker enforces the limit itself; this is for one that does not.
        reason = f"It ran past its limit of {run.limit_seconds} s."
        if states.move(run, State.TIMED_OUT, Writer.SWEEP, reason=reason):
            broker.cancel(run.pk, run.token)


def _give_up(run: Run, reason: str, silent: Q) -> None:
    """Give up an attempt, unless another process has heard of it since we looked."""
    token = run.token
    with transaction.atomic():
        still = Run.objects.select_for_update().filter(silent, pk=run.pk, token=token).first()
        given_up = still and states.fail(still, Failure.WORKER_LOST, reason, Writer.SWEEP)
    if given_up:
        broker.cancel(run.pk, token)  # should it live after all


def _spare(now: datetime) -> None:
    """Give everybody another respite: the fault was ours."""
    soon = now + LEASE
    held = Run.objects.filter(state__in=WITH_WORKER)
    spared = held.filter(leased_until__lt=soon).update(leased_until=soon)
    spared += held.filter(start_by__lt=soon).update(start_by=soon)
    spared += held.filter(finish_by__lt=soon).update(finish_by=soon)
    spared += held.filter(cancelling_at__lt=now).update(cancelling_at=now)
    if spared:
        log.warning("We were not listening: %d respites start anew", spared)


def _was_away(now: datetime, sent_at: datetime) -> bool:
    """Whether events may have waited unread: we paused, or this message stood in a backlog."""
    with transaction.atomic():
        pulse, made = Pulse.objects.select_for_update().get_or_create(
            name="judge", defaults={"at": now}
        )
        paused = not made and now - pulse.at > PAUSE
        pulse.at = now
        pulse.save()
    return made or paused or now - sent_at > PROMPT


def _repeat_lost_sends() -> None:
    """A crash between commit and send, or a broker that forgot: the same token is sent again."""
    now = timezone.now()
    for run in Run.objects.filter(state=State.DISPATCHED, start_by__gt=now):
        if (run.sent_at or run.dispatched_at or now) < now - RESEND:
            send(run)


def _repeat_cancels() -> None:
    for run in Run.objects.filter(state=State.CANCELLING):
        broker.cancel(run.pk, run.token)
