"""A run for programs: JSON as a file and in the API, CSV with a line for each measured point.

The JSON schemas read a run's attribute of the same name, or use their `resolve_` function.
"""

import csv
import io
from collections.abc import Iterator
from operator import attrgetter
from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import ModelSchema
from pydantic import BeforeValidator, Field

from webapp.runs.models import Artefact, Run
from webapp.runs.web import present

COLUMNS = (
    *("run", "method", "benchmark", "version", "preset", "seed", "hardware", "series", "direction"),
    *("x_label", "x_unit", "x", "variant", "ours", "unit", "estimate", "low", "high"),
    *("samples", "median", "q1", "q3", "baseline", "ratio", "ratio_low", "ratio_high", "verdict"),
    *("flags", "partial"),
)
FIGURES = ("estimate", "low", "high", "median", "q1", "q3")  # the estimate's interval; samples
Data = Annotated[dict[str, Any], BeforeValidator(attrgetter("data"))]  # the row's `data`


class RunStatus(ModelSchema):
    """Status of a run. States are queued, dispatched, running, cancelling; and, ended:
    succeeded, failed, timed_out, cancelled."""

    url: str = Field(alias="get_absolute_url", description="The run's page.")
    params: dict[str, Any]
    ended: bool
    worker: str | None = Field(None, alias="worker.name")
    progress: Annotated[dict[str, Any] | None, BeforeValidator(lambda latest: latest or None)]

    class Meta:
        model = Run
        fields = (
            *("id", "method", "benchmark", "version", "preset", "seed", "device"),
            *("state", "failure", "reason", "attempt", "imported", "limit_seconds"),
            *("queued_at", "started_at", "finished_at"),
        )


class ArtefactSchema(ModelSchema):
    """A file that a benchmark made, and its address."""

    url: str = Field(alias="get_absolute_url")

    class Meta:
        model = Artefact
        fields = ("name", "media_type", "sha256")


class RunResults(RunStatus):
    """Everything of a run: what it measured, on what, and the command that repeats it."""

    command: str
    hardware: str | None = Field(None, alias="environment.hardware")
    environment: dict[str, Any] | None = Field(None, alias="environment.data")
    result: dict[str, Any] | None
    checks: list[Data]
    series: list[Data]
    artefacts: list[ArtefactSchema]

    @staticmethod
    def resolve_command(run: Run) -> str:
        """The command line of the run, as its page shows it."""
        return present.command(run)

    @staticmethod
    def resolve_artefacts(run: Run) -> QuerySet[Artefact]:
        """The artefacts without their content."""
        return run.artefacts.defer("content")


def table(run: Run) -> str:
    """Every point of every series as CSV; only the header if nothing was measured."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(_lines(run))
    return text.getvalue()


def _lines(run: Run) -> Iterator[dict[str, object]]:
    names = ("method", "benchmark", "version", "preset", "seed")
    common: dict[str, object] = {"run": run.pk, **{name: getattr(run, name) for name in names}}
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
                **{name: getattr(point, name) for name in FIGURES},
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
    """A worker's text, quoted if a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@"} else text
