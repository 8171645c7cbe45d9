"""The duties of runs on the queue `events`: short, idempotent, never behind a long task."""

from __future__ import annotations

from webapp.runs import dispatch, heartbeats, record, sweep
from workers.site import app

# Acknowledged late: the broker forgets an event only when it stands in the database.


@app.task(name="runs.record", acks_late=True, reject_on_worker_lost=True)
def record_event(message: object) -> None:
    """Write down what a worker said of a run."""
    record.record(message)


@app.task(name="runs.hear", acks_late=True, reject_on_worker_lost=True)
def hear_heartbeat(message: object) -> None:
    """Note that a worker lives."""
    heartbeats.hear(message)


@app.task(name="runs.dispatch")
def dispatch_runs() -> None:
    """Send what idle workers can take."""
    dispatch.dispatch()


@app.task(name="runs.sweep")
def sweep_runs() -> None:
    """Repeat what was lost and end what is overdue."""
    sweep.sweep()


@app.task(name="runs.judge")
def judge_silence(sent_at: float) -> None:
    """Judge silence, behind every event that had arrived."""
    sweep.judge(sent_at)
