"""A run under way, as its page shows it: cheap to look at again, and again.

A page that watches says what it has seen. Where nothing is new the answer is empty; where only
numbers moved it is a small piece; a change of state alone makes the whole page anew.
"""

from dataclasses import dataclass
from typing import Self

from django.db.models import Max
from django.utils import timezone

from webapp.runs.models import Event, Run
from webapp.runs.queries import place

CLOSE, NEAR, FAR = 1, 2, 5  # seconds between two looks, as a run grows older


@dataclass(frozen=True)
class Seen:
    """How far a page has followed a run; `heard` is the last event it knows."""

    state: str
    attempt: int
    progress: int
    heard: int
    place: str = ""  # of one that waits: runs before it, and live workers

    def __str__(self) -> str:
        return f"{self.state}.{self.attempt}.{self.progress}.{self.heard}.{self.place}"

    @property
    def standing(self) -> tuple[str, int, str]:
        """What makes the whole page another one when it changes."""
        return self.state, self.attempt, self.place

    @classmethod
    def read(cls, text: str) -> Self | None:
        """What a page says it has seen; None for anything that no page of ours says."""
        try:
            state, attempt, progress, heard, place = text.split(".")
            return cls(state, int(attempt), int(progress), int(heard), place)
        except ValueError:
            return None


def seen_now(run: Run) -> Seen:
    """How far the run has come, its place in the queue too."""
    heard = Event.objects.filter(run=run, token=run.token).aggregate(last=Max("pk"))["last"] or 0
    where = place(run)
    waits = f"{where.ahead}-{where.workers}" if where else ""
    return Seen(run.state, run.attempt, run.progress_seq, heard, waits)


def log_after(run: Run, heard: int) -> str:
    """What the current attempt wrote to its log after event `heard`, as it came."""
    pieces = run.events.filter(token=run.token, kind="log", pk__gt=heard).order_by("pk")
    return "".join(body["text"] for body in pieces.values_list("body", flat=True))


def pause(run: Run) -> int:
    """Seconds until a page should look again: often at first, seldom at a run of an hour."""
    age = (timezone.now() - (run.started_at or run.queued_at)).total_seconds()
    return CLOSE if age < 30 else NEAR if age < 300 else FAR
