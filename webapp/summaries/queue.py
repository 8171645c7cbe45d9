"""The states of summaries (waiting, running, done, failed): each transition compares and sets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from webapp.core import leases
from webapp.core.database import exclusive
from webapp.core.leases import renewed
from webapp.core.revisions import once
from webapp.papers.models import Paper

from .answer import PROMPT_VERSION
from .client import Server
from .models import Summary

State = Summary.State
LEASE = 30.0  # seconds; renewed while it runs; a killed worker's summary waits as long
MAX_ATTEMPTS = 4
AT_ONCE = 500  # papers of a query


def request(papers: Iterable[Paper], language: str, server: Server) -> None:
    """Have each paper's latest version summarised unless it is or will be."""
    made_by = _made_by(language, server)
    summaries = [Summary(paper=paper, version=paper.version, **made_by) for paper in papers]
    Summary.objects.bulk_create(summaries, ignore_conflicts=True)


def request_and_send(
    list_papers: Callable[[], Mapping[str, Sequence[int]]],
    scopes: Sequence[str],
    send: Callable[[int], object],
) -> int:
    """Request what is missing, put back what was lost, and send what may run; how many were sent.

    `list_papers` gives {language: paper ids}, those to be made first at the front. It is called
    where a revision of `scopes` was raised, or another model is connected. Idempotent: a summary
    sent twice is taken once, and what is not taken is sent again by the next call. Without a model
    nothing is done.
    """
    server = Server.configured()
    if server is None:
        return 0

    def ask() -> tuple[int, bool]:
        top = list_papers()
        for language, keys in top.items():
            _request_missing(keys, language, server)
        return len(top), True

    once("summaries", scopes, ask, server.model, PROMPT_VERSION, settings.SUMMARY_PAPERS)
    sweep()
    waiting = ready()
    for summary_id in waiting:
        send(summary_id)
    return len(waiting)


def _request_missing(keys: Sequence[int], language: str, server: Server) -> None:
    """`request` for papers by their keys, where there is no summary yet."""
    made_by = _made_by(language, server)
    there = Summary.objects.filter(paper=OuterRef("pk"), version=OuterRef("version"), **made_by)
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        missing = Paper.objects.filter(~Exists(there), pk__in=some).in_bulk()
        request([missing[key] for key in some if key in missing], language, server)


def ready() -> list[int]:
    """The ids of at most 100 summaries that may run now: those of readers, then as they came."""
    waiting = _may_run().order_by("-for_reader", "requested_at", "id")
    return list(waiting.values_list("id", flat=True)[:100])


def most_urgent(summary_id: int) -> int:
    """Return a summary that a reader waits for, if it may run now in place of another.

    Others were sent before it, and each takes a model minutes.
    """
    waited_for = _may_run().filter(for_reader=True).order_by("requested_at", "id")
    return waited_for.values_list("id", flat=True).first() or summary_id


def _may_run() -> QuerySet[Summary]:
    """The waiting summaries whose time has come: a server may have asked for a pause."""
    due = Q(not_before=None) | Q(not_before__lte=timezone.now())
    return Summary.objects.filter(due, state=State.WAITING)


def take(summary_id: int, most: int) -> Summary | None:
    """waiting → running, for one worker; None where `most` are running or another has it."""
    mine = _may_run().filter(id=summary_id)
    with exclusive("summaries.take"):
        running = Summary.objects.filter(state=State.RUNNING, leased_until__gt=Now()).count()
        if running >= most:
            return None
        started = {"state": State.RUNNING, "attempt": F("attempt") + 1, "written": 0, "reason": ""}
        taken = leases.take(mine, LEASE, **started)
    return Summary.objects.select_related("paper").get(id=summary_id) if taken else None


def keep_lease(summary: Summary) -> AbstractContextManager[None]:
    """Renew the lease from `take` while the summary is being made."""
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


def adopt(summary: Summary, server: Server) -> bool:
    """Have a summary that is running carry the model that will write it; False if it need not.

    Another model may have been connected since it was asked for, and may have its own already.
    """
    if summary.model == server.model:
        return True
    try:
        with transaction.atomic():
            changed = _held(summary).update(model=server.model)
    except IntegrityError:
        _held(summary).delete()
        return False
    summary.model = server.model
    return bool(changed)


def note_written(summary: Summary, tokens: int) -> bool:
    """Note how far an answer is; False if its lease was lost or a reader has cancelled it."""
    return bool(_held(summary).update(written=tokens))


def cancel(summaries: QuerySet[Summary], by: str) -> int:
    """waiting or running → failed, because a reader does not want them; how many.

    Whoever runs one loses its lease, and ends the answer as soon as it notes how far it is.
    """
    pending = summaries.filter(state__in=[State.WAITING, State.RUNNING])
    reason = f"cancelled by {by}"
    return pending.update(state=State.FAILED, reason=reason, lease="", leased_until=None)


def hold(model: str, reason: str, not_before: datetime) -> int:
    """Defer the summaries that wait for a model until a time; return their number."""
    return _may_run().filter(model=model).update(not_before=not_before, reason=reason)


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


def again(papers: Iterable[Paper], language: str, server: Server) -> int:
    """Have papers summarised by this model, also those that it has summarised; how many wait."""
    request(papers, language, server)
    rows = asked(papers, language, server)
    rows.exclude(state__in=[State.WAITING, State.RUNNING]).update(**_reset_values())
    return rows.filter(state=State.WAITING).count()


def retry(summaries: QuerySet[Summary]) -> int:
    """failed → waiting, because a reader asked; how many."""
    return summaries.filter(state=State.FAILED).update(**_reset_values())


def put_first(summaries: QuerySet[Summary]) -> int:
    """Put these summaries before automatic ones, as a reader's; return their number."""
    return summaries.filter(state=State.WAITING).update(for_reader=True)


def _reset_values() -> dict[str, object]:
    """Return the values of a summary that waits as if it had never been tried."""
    never = {"attempt": 0, "not_before": None, "reason": "", "for_reader": False}
    return {"state": State.WAITING, "requested_at": timezone.now(), **never}


def sweep() -> int:
    """running → waiting (or failed) where the worker was lost; how many."""
    lost = Summary.objects.filter(state=State.RUNNING, leased_until__lte=Now())
    return sum(put_back(s, "the worker was lost while it ran", None) for s in lost)


def _leave(summary: Summary, state: State, reason: str, **values: object) -> bool:
    """running → another state and the lease with it, where the lease still holds."""
    return leases.release(_held(summary), state=state, reason=reason, **values)


def _held(summary: Summary) -> QuerySet[Summary]:
    """The running summary, for the worker whose lease holds."""
    return Summary.objects.filter(id=summary.id, state=State.RUNNING, lease=summary.lease)
