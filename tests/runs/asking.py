"""Helpers that request runs and wait for them."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User

from tests.processes import wait_for
from webapp.runs import submit
from webapp.runs.models import Run, State
from webapp.runs.submit import RunRequest


def request(benchmark: str = "sleep", method: str = "trial", **more: object) -> RunRequest:
    """A reader's request; the trial method's sleep unless named otherwise."""
    asked = {"method": method, "benchmark": benchmark, "preset": "smoke", **more}
    return RunRequest.model_validate(asked)


def ask(benchmark: str = "sleep", reader: User | None = None, **settings: object) -> Run:
    """Queue a run of the trial method, by a reader of its own unless one is given."""
    reader = reader or User.objects.create_user(uuid.uuid4().hex)
    return submit.submit(reader, request(benchmark, params=settings))


def ended(run: Run) -> Run:
    """The run, once it stands in a state that it can never leave."""

    def look() -> bool:
        run.refresh_from_db()
        return run.ended

    wait_for(look, f"the end of {run}")
    return run


def reached(run: Run, state: State = State.RUNNING, attempt: int = 1) -> Run:
    """The run, once it stands in `state` in its `attempt`-th attempt, or a later one."""

    def look() -> bool:
        run.refresh_from_db()
        assert not run.ended or state == run.state, run.reason or run.state
        return run.state == state and run.attempt >= attempt

    wait_for(look, f"{state} of {run}")
    return run


def measuring(run: Run) -> Run:
    """The run, once its benchmark has said something itself."""

    def look() -> bool:
        run.refresh_from_db()
        return run.environment is not None

    wait_for(look, f"the benchmark of {run}")
    return run


def killed_later() -> Run:
    """The run of a benchmark that goes on until it is killed, and ends at once when it is retried.

    However slow the machine is, the kill comes before the end.
    """
    run = measuring(ask(seconds=500, steps=1000))
    Run.objects.filter(pk=run.pk).update(params=run.params | {"seconds": 0.1, "steps": 5})
    return run
