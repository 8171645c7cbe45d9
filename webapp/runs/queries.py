"""Queries about runs and workers for pages, the API and the dispatcher."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from django.utils import timezone

from methods import registry
from methods.spec import Benchmark, Method, UnknownNameError
from webapp.runs.models import WITH_WORKER, Run, RunLog, State, Worker
from webapp.runs.times import ALIVE

Visitor = User | AnonymousUser


def visible_runs(visitor: Visitor) -> QuerySet[Run]:
    """The runs that a visitor may see: the public ones and their own; staff see all."""
    if not visitor.is_authenticated:
        return Run.objects.filter(public=True)
    if visitor.is_staff:
        return Run.objects.all()
    return Run.objects.filter(Q(public=True) | Q(reader=visitor))


def open_run(visitor: Visitor, pk: UUID) -> Run:
    """The run with that id. Raises Http404 also if the visitor may not see it."""
    runs = visible_runs(visitor).select_related("worker", "environment", "reader")
    return get_object_or_404(runs, pk=pk)


def with_id(runs: QuerySet[Run], text: str) -> Run | None:
    """The run of `runs` whose id a text is; None also for a text that is no id."""
    try:
        return runs.filter(pk=UUID(text)).first()
    except ValueError:
        return None


def benchmark_named(method: str, benchmark: str) -> Benchmark | None:
    """A benchmark of a method; None if it is no longer installed."""
    with suppress(UnknownNameError):
        return registry.find(f"{method}.{benchmark}")[1]
    return None


def benchmark_of(run: Run) -> Benchmark | None:
    """The benchmark of a run; None if it is no longer installed."""
    return benchmark_named(run.method, run.benchmark)


def method_of(run: Run) -> Method | None:
    """The method of a run; None if it is no longer installed."""
    with suppress(UnknownNameError):
        return registry.get(run.method)
    return None


def may_cancel(visitor: Visitor, run: Run) -> bool:
    """True if a visitor may cancel a run: its reader and staff may."""
    return visitor.is_authenticated and (visitor.is_staff or visitor.pk == run.reader_id)


def live_workers() -> QuerySet[Worker]:
    """Workers whose last heartbeat is recent."""
    since = timezone.now() - ALIVE
    return Worker.objects.filter(last_seen__gte=since).order_by("pk")


@dataclass(frozen=True)
class QueuePosition:
    """The place of a queued run: the runs before it, and the live workers that can serve it."""

    ahead: int
    workers: int


def waiting(device: str) -> QuerySet[Run]:
    """The queued runs of a device: those of the reader who was served longest ago first.

    Readers take turns: however many runs others have queued, each waits for one of each of them.
    """
    of_reader = Run.objects.filter(reader=OuterRef("reader"), dispatched_at__isnull=False)
    served = Subquery(of_reader.order_by("-dispatched_at").values("dispatched_at")[:1])
    queued = Run.objects.filter(state=State.QUEUED, device=device)
    return queued.order_by(served.asc(nulls_first=True), "queued_at", "id")


def queue_position(run: Run) -> QueuePosition | None:
    """The place of a queued run; None for any other."""
    if run.state != State.QUEUED:
        return None
    queues: dict[object, list[UUID]] = {}  # of each reader, in the order of their turns
    for key, reader in waiting(run.device).values_list("pk", "reader"):
        queues.setdefault(reader or key, []).append(key)
    mine = queues.get(run.reader_id or run.pk, [])
    if run.pk not in mine:  # it has just left the queue
        return None
    ahead, rounds = mine.index(run.pk), mine.index(run.pk) + 1
    for keys in queues.values():
        if keys is mine:
            rounds -= 1  # the next ones come after it in its own round
        else:
            ahead += min(len(keys), rounds)
    return QueuePosition(ahead, live_workers().filter(device=run.device).count())


def behind_own(run: Run, where: QueuePosition | None) -> bool:
    """True if the run is next in the queue and waits only for another run of its reader."""
    if not where or where.ahead or not where.workers or not run.reader_id:
        return False
    return Run.objects.filter(reader=run.reader_id, state__in=WITH_WORKER).exists()


def log_of(run: Run) -> str:
    """The log of the current attempt, ordered by offset; lost pieces are marked."""
    if run.ended and (stored := RunLog.objects.filter(run=run).first()):
        return stored.text
    pieces = run.events.filter(token=run.token, kind="log").values_list("body", flat=True)
    text, end = [], 0
    for body in sorted(pieces, key=lambda b: b["offset"]):
        if body["offset"] > end:
            text.append(f"\n[{body['offset'] - end} bytes of the log were lost]\n")
        text.append(body["text"])
        end = body["offset"] + body["size"]
    return "".join(text)


def estimates(method: str, benchmark: str) -> dict[tuple[str, str], float]:
    """The median duration of the last ten runs of each (preset, device), in seconds.

    One query, of the last hundred runs that succeeded.
    """
    past = Run.objects.filter(
        method=method, benchmark=benchmark, state=State.SUCCEEDED, imported=False
    ).order_by("-finished_at")
    spans: dict[tuple[str, str], list[float]] = defaultdict(list)
    for preset, device, started, finished in past.values_list(
        "preset", "device", "started_at", "finished_at"
    )[:100]:
        if started and finished and len(spans[preset, device]) < 10:
            spans[preset, device].append((finished - started).total_seconds())
    return {key: sorted(times)[len(times) // 2] for key, times in spans.items()}
