"""The states of summaries (waiting, running, done, failed): each transition compares and sets."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from webapp import leases
from webapp.database import exclusive
from webapp.leases import renewed
from webapp.papers.models import Paper

from .answer import PROMPT_VERSION
from .client import Server
from .models import Summary

State = Summary.State
LEASE = 30.0  # seconds; renewed while it runs; a killed worker's summary waits as long
MAX_ATTEMPTS = 4


def request(papers: Iterable[Paper], language: str, server: Server) -> None:
    """Have each paper's latest version summarised unless it is or will be."""
    made_by = _made_by(language, server)
    wanted = [Summary(paper=paper, version=paper.version, **made_by) for paper in papers]
    Summary.objects.bulk_create(wanted, ignore_conflicts=True)


def request_and_send(wanted: Iterable[tuple[str, list[int]]], send: Callable[[int], object]) -> int:
    """Ask for what is wanted, put back what was lost, and send what may run; how many were sent.

    `wanted` is (language, paper ids). Idempotent: a summary sent twice is taken once, and what is
    not taken is sent again by the next call. Without a model nothing is done.
    """
    server = Server.configured()
    if server is None:
        return 0
    for language, paper_ids in wanted:
        request(Paper.objects.filter(id__in=paper_ids), language, server)
    sweep()
    waiting = ready()
    for summary_id in waiting:
        send(summary_id)
    return len(waiting)


def ready() -> list[int]:
    """The ids of at most 100 summaries that may run now, the longest waiting first."""
    waiting = _may_run().order_by("requested_at", "id")
    return list(waiting.values_list("id", flat=True)[:100])


def _may_run() -> QuerySet[Summary]:
    """The waiting summaries whose time has come: a server may have asked for a pause."""
    due = Q(not_before=None) | Q(not_before__lte=timezone.now())
    return Summary.objects.filter(due, state=State.WAITING)


def take(summary_id: int) -> Summary | None:
    """waiting → running, for one worker; None where all places are taken or another has it."""
    mine = _may_run().filter(id=summary_id)
    with exclusive("summaries.take"):
        running = Summary.objects.filter(state=State.RUNNING, leased_until__gt=Now()).count()
        if running >= settings.SUMMARY_CONCURRENCY:
            return None
        started = {"state": State.RUNNING, "attempt": F("attempt") + 1, "reason": ""}
        taken = leases.take(mine, LEASE, **started)
    return Summary.objects.select_related("paper").get(id=summary_id) if taken else None


def keep_lease(summary: Summary) -> AbstractContextManager[None]:
    """Renew the lease of what `take` gave while it is made."""
    held = Summary.objects.filter(id=summary.id, lease=summary.lease)
    return renewed(lambda: leases.renew(held, LEASE), LEASE)


def finish(summary: Summary, state: State, reason: str = "", **values: object) -> bool:
    """running → done or failed, by the worker that holds the lease; False if it lost the lease."""
    return _leave(summary, state, reason, finished_at=timezone.now(), **values)


def put_back(summary: Summary, reason: str, not_before: datetime | None) -> bool:
    """running → waiting, or failed after the last attempt; False if the lease was lost."""
    if summary.attempt >= MAX_ATTEMPTS:
        return finish(summary, State.FAILED, f"{reason} (tried {summary.attempt} times)")
    return _leave(summary, State.WAITING, reason, not_before=not_before)


def postpone(summary: Summary, reason: str, not_before: datetime) -> bool:
    """running → waiting without counting the attempt: nothing was asked of the model."""
    attempt = F("attempt") - 1
    return _leave(summary, State.WAITING, reason, not_before=not_before, attempt=attempt)


def asked(papers: Iterable[Paper], language: str, server: Server) -> QuerySet[Summary]:
    """The summaries of the papers' latest versions that `request` asks for."""
    made_by = _made_by(language, server)
    return Summary.objects.filter(paper__in=papers, paper__version=F("version"), **made_by)


def _made_by(language: str, server: Server) -> dict[str, str]:
    return {"model": server.model, "language": language, "prompt_version": PROMPT_VERSION}


def retry(summaries: QuerySet[Summary]) -> int:
    """failed → waiting, because a reader asked; how many."""
    return summaries.filter(state=State.FAILED).update(
        state=State.WAITING, attempt=0, not_before=None, reason="", requested_at=timezone.now()
    )


def sweep() -> int:
    """running → waiting (or failed) where the worker was lost; how many."""
    lost = Summary.objects.filter(state=State.RUNNING, leased_until__lte=Now())
    return sum(put_back(s, "the worker was lost while it ran", None) for s in lost)


def _leave(summary: Summary, state: State, reason: str, **values: object) -> bool:
    """running → another state and the lease with it, where the lease still holds."""
    held = Summary.objects.filter(id=summary.id, state=State.RUNNING, lease=summary.lease)
    return leases.release(held, state=state, reason=reason, **values)
