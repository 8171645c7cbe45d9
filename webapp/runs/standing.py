"""Standing measurements: the series that counts for a method on a hardware class.

Anyone may run anything, so the settings count before the date: a smoke run never replaces another
measurement, one with changed settings never a preset as it is, nor one that measured more points.
Quick runs stand beside the others, in rows of their own. A row is written when a run is recorded,
so any number of later runs leaves it in place.
"""

from datetime import datetime

from django.db import transaction

from methods.spec import Benchmark
from webapp.runs.models import Run, Series, StandingMeasurement, State
from webapp.runs.queries import benchmark_of

Rank = StandingMeasurement.Rank


def update_standing(run: Run) -> None:
    """Replace standing measurements by those series of a successful run that outrank them."""
    if not run.public or run.state != State.SUCCEEDED:
        return
    headline = next(iter((run.result or {}).get("series", ())), "")
    for series in run.series.order_by("name"):  # always in one order, to avoid deadlocks
        _update_row(series, headline=series.name == headline)


@transaction.atomic
def _update_row(series: Series, *, headline: bool) -> None:
    run = series.run
    benchmark = benchmark_of(run)
    rank = _rank(run, benchmark)
    values = {"series": series, "rank": rank, "measured_at": run.finished_at, "headline": headline}
    row, is_new = StandingMeasurement.objects.select_for_update().get_or_create(
        method=run.method,
        benchmark=run.benchmark,
        name=series.name,
        hardware=run.hardware,
        version=run.version,
        subset=_subset(run, benchmark),
        defaults=values,
    )
    challenger = StandingMeasurement(version=run.version, **values)
    if not is_new and _precedence(challenger, benchmark) > _precedence(row, benchmark):
        StandingMeasurement.objects.filter(pk=row.pk).update(**values)


def _rank(run: Run, benchmark: Benchmark | None) -> StandingMeasurement.Rank:
    if benchmark is None or run.preset not in benchmark.presets or run.preset == "smoke":
        return Rank.SMOKE
    # The quick preset measures less than the full one.
    return Rank.PRESET if run.preset != "quick" and _is_preset(run, benchmark) else Rank.CHANGED


def _subset(run: Run, benchmark: Benchmark | None) -> str:
    """Return the part of its benchmark that a quick run measures; "" for any other run."""
    if run.preset != "quick":
        return ""
    sizes = run.params.get(benchmark.sizes.parameter) if benchmark and benchmark.sizes else None
    shown = ",".join(map(str, sizes)) if run.mechanism and isinstance(sizes, list) else ""
    return f"quick {run.mechanism} {shown}".strip()[:200]


def _precedence(
    row: StandingMeasurement, benchmark: Benchmark | None
) -> tuple[int, bool, int, datetime]:
    """Return the sort key of two measurements in one row's place: the larger one stands."""
    run = row.series.run
    # A paper's page chooses the settings of its quick runs, and they are part of the subset.
    unchanged = _is_preset(run, benchmark) or (run.preset == "quick" and bool(run.mechanism))
    # Settings are often changed to measure less, such as a single length.
    points = 0 if unchanged else len(row.series.data["points"])
    return -row.rank, unchanged, points, row.measured_at


def _is_preset(run: Run, benchmark: Benchmark | None) -> bool:
    if benchmark is None or run.preset not in benchmark.presets:
        return False
    usual = benchmark.preset(run.preset, run.device).model_dump(mode="json")
    # A parameter may be newer than the run: one that the run lacks is unchanged.
    return {**usual, **run.params} == usual
