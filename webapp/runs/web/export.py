"""A run as a file: JSON with everything, CSV with one line a measured point."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.urls import reverse

from webapp.runs.models import Run
from webapp.runs.web import present

COLUMNS = (
    *("run", "method", "benchmark", "version", "preset", "seed", "hardware"),
    *("series", "direction", "x_label", "x_unit", "x", "variant", "ours", "unit"),
    *("median", "low", "high", "q1", "q3", "samples"),
    *("baseline", "ratio", "ratio_low", "ratio_high", "verdict", "flags", "partial"),
)


ASKED = ("method", "benchmark", "version", "preset", "params", "seed", "device")
CAME = ("state", "ended", "failure", "reason", "attempt", "imported", "limit_seconds")
MOMENTS = ("queued_at", "started_at", "finished_at")


def status(run: Run) -> dict[str, Any]:
    """Where a run stands, without what it measured."""
    return {
        "id": str(run.pk),
        "url": reverse("runs:run", args=[run.pk]),
        **{name: getattr(run, name) for name in (*ASKED, *CAME)},
        **{name: _time(getattr(run, name)) for name in MOMENTS},
        "worker": run.worker.name if run.worker else None,
        "progress": run.progress or None,
    }


def results(run: Run) -> dict[str, Any]:
    """Everything: where it stands, on what it ran, its checks and series, how to repeat it."""
    return {
        **status(run),
        "command": present.command(run),
        "hardware": run.environment.hardware if run.environment else None,
        "environment": run.environment.data if run.environment else None,
        "result": run.result,
        "checks": [check.data for check in run.checks.all()],
        "series": [series.data for series in run.series.all()],
        "artefacts": [
            {
                "name": one.name,
                "media_type": one.media_type,
                "sha256": one.sha256,
                "url": reverse("runs:artefact", args=[run.pk, one.name]),
            }
            for one in run.artefacts.defer("content")
        ],
    }


def table(run: Run) -> str:
    """Every point of every series as CSV."""
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    lines.writeheader()
    lines.writerows(_lines(run))
    return text.getvalue()


def _lines(run: Run) -> Iterator[dict[str, object]]:
    # Spreadsheets run what begins with = or +: text that others wrote is made inert.
    names = ("method", "benchmark", "version", "preset", "seed")
    common: dict[str, object] = {name: getattr(run, name) for name in names}
    common["run"] = run.pk
    common["hardware"] = _inert(run.environment.hardware) if run.environment else ""
    for row in run.series.all():
        series = row.parsed()
        ours = {variant.name for variant in series.variants if variant.ours}
        for point in series.points:
            line = common | {
                "series": series.name,
                "direction": series.direction,
                "x_label": _inert(series.x.label),
                "x_unit": _inert(series.x.unit),
                "x": _inert(point.x) if isinstance(point.x, str) else point.x,
                "variant": point.variant,
                "ours": "yes" if point.variant in ours else "no",
                "unit": _inert(series.y.unit),
                **point.model_dump(include={"median", "low", "high", "q1", "q3"}),
                "samples": len(point.samples),
                "baseline": series.baseline or "",
                "flags": " ".join(point.flags),
                "partial": "yes" if series.partial else "no",
            }
            if ratio := point.ratio:
                line |= {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
                line["verdict"] = ratio.verdict
            yield line


def _inert(text: str) -> str:
    """A worker's text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text


def _time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
