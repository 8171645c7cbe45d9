"""A run's state in one line: title, icon and tone. `runs/state_explained.html` explains it."""

from django.utils.translation import gettext, ngettext

from assay_common.quantities import duration
from webapp.runs.models import Failure, Run, State
from webapp.runs.queries import Place

# The icon of each tone, since colour is never the only sign.
ICONS = {
    "waiting": "waiting",
    "running": "stale",
    "good": "complete",
    "fair": "stale",
    "bad": "failed",
    "none": "empty",
}
TONES: dict[str, str] = {  # by state; all others are "waiting"
    State.RUNNING: "running",
    State.SUCCEEDED: "good",
    State.FAILED: "bad",
    State.TIMED_OUT: "bad",
    State.CANCELLED: "none",
}
FAILURES = dict(Failure.choices) | {
    Failure.WORKER_LOST: "the worker was lost, twice",
    Failure.KILLED: "something else ended it",
}


def title_of(run: Run, where: Place | None, *, behind: bool) -> str:
    """The state of `run` in a few words; `where` is its place in the queue."""
    if where:
        queued = gettext("Queued again") if run.attempt else gettext("Queued")
        return queued + gettext(", ") + _waiting_for(where, behind=behind)
    if run.state == State.RUNNING:
        named = gettext("Running on worker %(worker)s") % {"worker": run.worker}
        return named if run.worker else gettext("Running")
    if run.state == State.SUCCEEDED:
        succeeded = gettext("Succeeded in %(time)s") % {"time": took(run)}
        return "Published result" if run.imported else succeeded
    if run.state == State.FAILED:
        return f"Failed: {FAILURES[run.failure or 'error']}"
    if run.state == State.CANCELLED:
        after = gettext("Cancelled after %(time)s") % {"time": took(run)}
        return after if run.started_at else "Cancelled before it started"
    return run.get_state_display().capitalize()


def _waiting_for(where: Place, *, behind: bool) -> str:
    if not where.workers:
        return gettext("no live worker can serve this")
    if where.ahead:
        words = ngettext("%(number)d run before it", "%(number)d runs before it", where.ahead)
        return words % {"number": where.ahead}
    return gettext("behind another run of yours") if behind else gettext("next in line")


def look_of(run: Run, where: Place | None) -> dict[str, str]:
    """The tone and icon of a run's state; one that no worker can serve is not simply "waiting"."""
    tone = "fair" if where and not where.workers else TONES.get(run.state, "waiting")
    return {"tone": tone, "icon": ICONS[tone]}


def took(run: Run) -> str:
    """How long it ran, as `41 s`; "" if it never started or has not ended."""
    if run.started_at is None or run.finished_at is None:
        return ""
    return duration((run.finished_at - run.started_at).total_seconds())
