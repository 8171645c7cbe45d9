"""A run in progress, for the page that polls it cheaply.

The page sends what it has seen. If nothing is new the response is empty; if only numbers changed
it is a small fragment; only a change of state renders the whole page again.
"""

from typing import NamedTuple, Self

from django.db.models import Max
from django.utils import timezone

from webapp.runs.models import Event, Run
from webapp.runs.queries import place

CLOSE, NEAR, FAR = 1, 2, 5  # seconds between two polls, as a run gets older


class Seen(NamedTuple):
    """How far a page has followed a run."""

    standing: str  # state, attempt, place in the queue: if it changes, so does the whole page
    progress: int
    last_event: int

    def __str__(self) -> str:
        return f"{self.standing}.{self.progress}.{self.last_event}"

    @classmethod
    def read(cls, text: str) -> Self:
        """What a page has seen, by its query; nothing if the text is invalid."""
        try:
            standing, progress, last_event = text.rsplit(".", 2)
            return cls(standing, int(progress), int(last_event))
        except ValueError:
            return cls("", 0, 0)


def seen_now(run: Run) -> Seen:
    """How far the run has come, including its place in the queue."""
    last = Event.objects.filter(run=run, token=run.token).aggregate(last=Max("pk"))["last"] or 0
    where = place(run)
    waits = f"{where.ahead}-{where.workers}" if where else ""
    return Seen(f"{run.state}.{run.attempt}.{waits}", run.progress_seq, last)


def log_after(run: Run, last_event: int) -> str:
    """What the current attempt logged after `last_event`, in order of arrival."""
    pieces = run.events.filter(token=run.token, kind="log", pk__gt=last_event).order_by("pk")
    return "".join(body["text"] for body in pieces.values_list("body", flat=True))


def pause(run: Run) -> int:
    """Seconds until a page should poll again, more for older runs."""
    age = (timezone.now() - (run.started_at or run.queued_at)).total_seconds()
    return CLOSE if age < 30 else NEAR if age < 300 else FAR
