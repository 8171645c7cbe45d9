"""The context of a run's page."""

from typing import Any, NamedTuple, Self

from django.db.models import Max
from django.utils import timezone
from django.utils.translation import ngettext

from methods.protocol import Environment, MachineState, canonical
from webapp.core.durations import duration, span
from webapp.runs.models import Event, Run
from webapp.runs.queries import (
    Visitor,
    behind_own,
    benchmark_of,
    estimates,
    log_of,
    may_cancel,
    method_of,
    queue_position,
)
from webapp.runs.texts import in_language, translate_spec
from webapp.runs.times import CANCEL
from webapp.runs.web import present
from webapp.runs.web.present import findings, look_of, title_of, took

MANY_SERIES = 3  # with more, their tables are folded


def page_of(run: Run, visitor: Visitor) -> dict[str, Any]:
    """Everything that a run's page shows."""
    method, benchmark = method_of(run), benchmark_of(run)
    series = [in_language(row.parsed()) for row in run.series.all()]
    checks = present.checks_of(run)
    where = queue_position(run)
    behind = behind_own(run, where)
    return {
        "run": run,
        "method": method,
        "benchmark": benchmark,
        "title": translate_spec(benchmark.title) if benchmark else run.benchmark,
        "where": where,
        "behind_own": behind,
        "standing": title_of(run, where, behind=behind),
        **look_of(run, where, series),
        "lease": CANCEL.seconds,
        "took": took(run),
        "usual": _usual(run),
        "may_cancel": not run.ended and may_cancel(visitor, run),
        "findings": findings(run, series, checks) if run.ended and series else None,
        "series": [present.shown(chart, benchmark) for chart in series],
        "fold_tables": len(series) > MANY_SERIES,
        "checks": checks,
        "passed": sum(check.passed for _, check in checks),
        "log": log_of(run),
        "parameters": present.parameters_of(run),
        "command": present.command(run),
        "environment": _environment(run),
        "after": _after(run),
        "artefacts": run.artefacts.defer("content"),
        "limit": span(run.limit_seconds),
        "seen": seen_now(run),
        "pause": pause(run),
    }


def _usual(run: Run) -> str:
    """Return the usual duration of such runs, or "" if the run has ended or none is known."""
    if run.ended:
        return ""
    seconds = estimates(run.method, run.benchmark).get((run.preset, run.device))
    return "" if seconds is None else duration(max(1, seconds))


def _environment(run: Run) -> list[tuple[str, str]]:
    """The machine and its software, as (name, value)."""
    if run.environment is None:
        return []
    try:
        machine = Environment.model_validate_json(canonical(run.environment.data))
    except ValueError:
        return [("Hardware", run.environment.hardware)]
    rows = [
        ("Hardware", machine.hardware),
        ("Processor", machine.processor if machine.processor != machine.hardware else ""),
        ("Cores", _cores(machine)),
        ("Memory", _size(machine.memory_bytes)),
    ]
    if gpu := machine.gpu:
        rows.append(("GPU", f"{gpu.name}, {_size(gpu.memory_bytes)}"))
        rows.append(("Driver", gpu.driver))
        if gpu.power_limit_watts is not None:
            rows.append(("Power limit", f"{gpu.power_limit_watts:.0f} W"))
    rows.append(("System", machine.platform))
    rows += [(name, version) for name, version in sorted(machine.versions.items())]
    if machine.commit:
        changed = " with local changes" if machine.dirty else ""
        rows.append(("Commit", machine.commit[:12] + changed))
    return [(name, value) for name, value in rows if value]


def _cores(machine: Environment) -> str:
    message = ngettext(
        "%(cores)d (%(threads)d thread used)",
        "%(cores)d (%(threads)d threads used)",
        machine.threads,
    )
    return message % {"cores": machine.cores, "threads": machine.threads}


def _after(run: Run) -> list[tuple[str, str]]:
    """Clocks and load when the run ended, which may have affected its numbers."""
    try:
        now = MachineState.model_validate((run.result or {}).get("after") or {})
    except ValueError:  # of an older version
        return []
    throttled = {None: None, True: "yes", False: "no"}[now.gpu_throttled]
    rows = [
        ("Load", _measure(now.load, "", 2)),
        ("CPU clock", _measure(now.cpu_mhz, " MHz")),
        ("GPU clock", _measure(now.gpu_mhz, " MHz")),
        ("GPU temperature", _measure(now.gpu_celsius, " °C")),
        ("GPU power", _measure(now.gpu_watts, " W")),
        ("GPU throttling", throttled),
        ("Other GPU processes", _measure(now.gpu_other_processes, "")),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _measure(value: float | None, unit: str, digits: int = 0) -> str | None:
    return None if value is None else f"{value:.{digits}f}{unit}"


# A run in progress, for the page that polls it cheaply.
#
# The page sends what it has seen. If nothing is new the response is empty; if only numbers changed
# it is a small fragment; only a change of state renders the whole page again.


CLOSE, NEAR, FAR = 1, 2, 5  # seconds between two polls, as a run gets older


class Seen(NamedTuple):
    """Progress of a run as a page last showed it."""

    standing: str  # state, attempt, place in the queue: if it changes, so does the whole page
    progress: int
    last_event: int

    def __str__(self) -> str:
        return f"{self.standing}.{self.progress}.{self.last_event}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the query of a poll; invalid text means that nothing was seen."""
        try:
            standing, progress, last_event = text.rsplit(".", 2)
            return cls(standing, int(progress), int(last_event))
        except ValueError:
            return cls("", 0, 0)


def seen_now(run: Run) -> Seen:
    """Return the run's present progress, its place in the queue included."""
    last = Event.objects.filter(run=run, token=run.token).aggregate(last=Max("pk"))["last"] or 0
    where = queue_position(run)
    waits = f"{where.ahead}-{where.workers}" if where else ""
    return Seen(f"{run.state}.{run.attempt}.{waits}", run.progress_seq, last)


def log_after(run: Run, last_event: int) -> str:
    """Return the current attempt's log after `last_event`, in order of arrival."""
    pieces = run.events.filter(token=run.token, kind="log", pk__gt=last_event).order_by("pk")
    return "".join(body["text"] for body in pieces.values_list("body", flat=True))


def pause(run: Run) -> int:
    """Seconds until a page should poll again, more for older runs."""
    age = (timezone.now() - (run.started_at or run.queued_at)).total_seconds()
    return CLOSE if age < 30 else NEAR if age < 300 else FAR
