"""The context of a run's page."""

from typing import Any

from assay_common.quantities import duration
from methods.protocol import Environment, MachineState, canonical
from webapp.runs.models import Run
from webapp.runs.queries import Visitor, behind_own, estimates, log_of, may_cancel, place, spec_of
from webapp.runs.times import ALIVE, CANCEL, span
from webapp.runs.web import present, progress
from webapp.runs.web.findings import findings
from webapp.runs.web.state_text import look_of, title_of, took

MANY_SERIES = 3  # with more, their tables are folded


def page_of(run: Run, visitor: Visitor) -> dict[str, Any]:
    """Everything that a run's page shows."""
    found = spec_of(run)
    method, benchmark = found or (None, None)
    series = [row.parsed() for row in run.series.all()]
    checks = present.checks_of(run)
    where = place(run)
    behind = behind_own(run, where)
    return {
        "run": run,
        "method": method,
        "benchmark": benchmark,
        "title": benchmark.title if benchmark else run.benchmark,
        "where": where,
        "behind_own": behind,
        "standing": title_of(run, where, behind=behind),
        **look_of(run, where),
        "alive": ALIVE.seconds,
        "lease": CANCEL.seconds,
        "took": took(run),
        "usual": _usual(run),
        "may_cancel": not run.ended and may_cancel(visitor, run),
        "findings": findings(run, series, checks) if run.ended and series else None,
        "series": [present.shown(one) for one in series],
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
        "seen": progress.seen_now(run),
        "pause": progress.pause(run),
    }


def _usual(run: Run) -> str:
    """How long such runs usually take, for one that has not ended."""
    if run.ended:
        return ""
    seconds = estimates(run.method, run.benchmark).get((run.preset, run.device))
    return "" if seconds is None else duration(max(1, seconds))


def _environment(run: Run) -> list[tuple[str, str]]:
    """The machine and its software, as (name, value)."""
    if run.environment is None:
        return []
    try:
        found = Environment.model_validate_json(canonical(run.environment.data))
    except ValueError:
        return [("Hardware", run.environment.hardware)]
    rows = [
        ("Hardware", found.hardware),
        ("Processor", found.processor if found.processor != found.hardware else ""),
        ("Cores", f"{found.cores} ({found.threads} threads used)"),
        ("Memory", _size(found.memory_bytes)),
    ]
    if gpu := found.gpu:
        rows.append(("GPU", f"{gpu.name}, {_size(gpu.memory_bytes)}"))
        rows.append(("Driver", gpu.driver))
        if gpu.power_limit_watts is not None:
            rows.append(("Power limit", f"{gpu.power_limit_watts:.0f} W"))
    rows.append(("System", found.platform))
    rows += [(name, version) for name, version in sorted(found.versions.items())]
    if found.commit:
        rows.append(("Commit", found.commit[:12] + (" with local changes" if found.dirty else "")))
    return [(name, value) for name, value in rows if value]


def _after(run: Run) -> list[tuple[str, str]]:
    """Clocks and load when the run ended, which may have affected its numbers."""
    try:
        now = MachineState.model_validate((run.result or {}).get("after") or {})
    except ValueError:  # of an older version
        return []
    held = {None: None, True: "yes", False: "no"}[now.gpu_throttled]
    rows = [
        ("Load", _measure(now.load, "", 2)),
        ("CPU clock", _measure(now.cpu_mhz, " MHz")),
        ("GPU clock", _measure(now.gpu_mhz, " MHz")),
        ("GPU temperature", _measure(now.gpu_celsius, " °C")),
        ("GPU power", _measure(now.gpu_watts, " W")),
        ("GPU held back", held),
        ("Others on the GPU", _measure(now.gpu_other_processes, "")),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _measure(value: float | None, unit: str, digits: int = 0) -> str | None:
    return None if value is None else f"{value:.{digits}f}{unit}"
