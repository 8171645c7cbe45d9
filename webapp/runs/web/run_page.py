"""What the pages of runs are made of."""

from typing import Any

from methods.charts import check_value, duration
from methods.protocol import Environment, canonical
from webapp.runs.models import Run
from webapp.runs.queries import Visitor, behind_own, estimates, log_of, may_cancel, place, spec_of
from webapp.runs.times import ALIVE, CANCEL, span
from webapp.runs.web import present, progress
from webapp.runs.web.findings import findings
from webapp.runs.web.state_text import ICONS, title_of, tone_of, took

MANY_SERIES = 3  # beyond, their tables are folded
# Of the machine's state at the end: its name in the protocol, what a page calls it, its unit.
AFTER = (
    ("load", "Load", ""),
    ("cpu_mhz", "CPU clock", " MHz"),
    ("gpu_mhz", "GPU clock", " MHz"),
    ("gpu_celsius", "GPU temperature", " °C"),
    ("gpu_watts", "GPU power", " W"),
    ("gpu_throttled", "GPU held back", ""),
    ("gpu_other_processes", "Others on the GPU", ""),
)


def page_of(run: Run, visitor: Visitor) -> dict[str, Any]:
    """Everything a run's page shows."""
    found = spec_of(run)
    method, benchmark = found or (None, None)
    series = [row.parsed() for row in run.series.all()]
    checks = present.checks_of(run)
    where = place(run)
    behind = behind_own(run, where)
    tone = tone_of(run, where)
    return {
        "run": run,
        "method": method,
        "benchmark": benchmark,
        "title": benchmark.title if benchmark else run.benchmark,
        "where": where,
        "behind_own": behind,
        "standing": title_of(run, where, behind=behind),
        "tone": tone,
        "icon": ICONS[tone],
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
    """How long such runs took, for one that has not ended."""
    if run.ended:
        return ""
    seconds = estimates(run.method, run.benchmark).get((run.preset, run.device))
    return "" if seconds is None else duration(max(1, seconds))


def _environment(run: Run) -> list[tuple[str, str]]:
    """The machine and its software, as name and value."""
    if run.environment is None:
        return []
    found = Environment.model_validate_json(canonical(run.environment.data))
    changed = " with local changes" if found.dirty else ""
    rows = {
        "Hardware": found.hardware,
        "Processor": found.processor if found.processor != found.hardware else "",
        "Cores": f"{found.cores} ({found.threads} threads used)",
        "Memory": _size(found.memory_bytes),
    }
    if gpu := found.gpu:
        limit = "" if gpu.power_limit_watts is None else f"{gpu.power_limit_watts:.0f} W"
        rows |= {"GPU": f"{gpu.name}, {_size(gpu.memory_bytes)}", "Driver": gpu.driver}
        rows |= {"Power limit": limit}
    rows |= {"System": found.platform, **dict(sorted(found.versions.items()))}
    rows |= {"Commit": found.commit and found.commit[:12] + changed}
    return [(name, value) for name, value in rows.items() if value]


def _after(run: Run) -> list[tuple[str, str]]:
    """Clocks and load when it ended: what may have disturbed the numbers."""
    state = (run.result or {}).get("after") or {}
    return [
        (label, check_value(state[name]) + unit)
        for name, label, unit in AFTER
        if state.get(name) is not None
    ]


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
