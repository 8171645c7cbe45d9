"""Results of a run for pages: charts, tables, checks, parameters, the command."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from assay_common.quantities import number
from methods import charts, protocol
from webapp.runs.models import Check, Device, Run
from webapp.runs.queries import spec_of
from webapp.runs.web.forms import written


def shown(series: protocol.Series) -> dict[str, Any]:
    """A series with its charts."""
    first, *further = charts.parts(series)
    return {
        "series": series,
        "pictures": tuple(_pictures(first)),
        "folded": tuple(  # the variants after the eighth
            picture
            for place, part in enumerate(further)
            for picture in _pictures(part, f"{place + 2}-")
        ),
    }


def _pictures(series: protocol.Series, ident: str = "") -> Iterator[str]:
    """Its charts; `ident` keeps their ids apart from those of other parts.

    There are none of points at a single place: a table shows these in less room.
    """
    if len({point.x for point in series.points}) < 2:
        return
    yield charts.draw(series, standalone=False, ident=f"{ident}{series.name}-value")
    if any(point.ratio for point in series.points):
        yield charts.draw(series, "ratio", standalone=False, ident=f"{ident}{series.name}-ratio")


def place(x: float | str) -> str:
    """An x value as text."""
    return x if isinstance(x, str) else number(x)


def checks_of(run: Run) -> list[tuple[str, Check]]:
    """The checks of the current attempt with their titles, those that missed their bound first."""
    found = spec_of(run)
    titles = {check.name: check.title for check in found[0].checks} if found else {}
    checks = sorted(run.checks.all(), key=attrgetter("passed"))
    return [(titles.get(check.name, check.name.replace("_", " ")), check) for check in checks]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a run; `changed` where it differs from the preset."""

    name: str
    value: str
    unit: str
    changed: bool


def parameters_of(run: Run, preset: str = "") -> list[Parameter]:
    """The run's parameters; marked are those that differ from `preset`, by default its own."""
    found = spec_of(run)
    infos = {info.name: info for info in found[1].parameters()} if found else {}
    compared = found[1].presets.get(preset or run.preset) if found else None
    usual = compared.model_dump(mode="json") if compared else {}
    return [
        Parameter(
            name=name,
            value=written(value),
            unit=infos[name].unit if name in infos else "",
            changed=bool(usual) and usual.get(name) != value,
        )
        for name, value in run.params.items()
    ]


def command(run: Run) -> str:
    """The command that repeats the run anywhere: it names every parameter and the seed."""
    device = "cuda" if run.device == Device.GPU else "cpu"
    lines = ["python -m methods run", f"{run.method}.{run.benchmark}"]
    if run.preset:
        lines.append(f"--preset {run.preset}")
    for name, value in run.params.items():
        lines.append(f"--set {shlex.quote(f'{name}={written(value)}')}")
    lines.append(f"--seed {run.seed} --device {device}")
    return " \\\n  ".join(lines)
