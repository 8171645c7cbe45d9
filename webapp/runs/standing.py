"""Standing measurements: which run's series counts for a method on a hardware class.

Anyone may run anything, so the settings count before the date: a smoke run never replaces another
measurement, a quick run or one with changed settings never one of a larger preset, nor one that
measured more points.
The row is written when a run is recorded, so any number of later runs leaves it in place.
"""

from datetime import datetime

from django.db import transaction

from webapp.runs.models import Run, Series, StandingMeasurement, State
from webapp.runs.queries import spec_of


def rank_of(run: Run) -> StandingMeasurement.Rank:
    """The rank of a run, by its settings."""
    found = spec_of(run)
    preset = found[1].presets.get(run.preset) if found else None
    if preset is None or run.preset == "smoke":
        return StandingMeasurement.Rank.SMOKE
    if run.preset == "quick":  # it measures less than the standard preset
        return StandingMeasurement.Rank.CHANGED
    usual = preset.model_dump(mode="json")
    # A parameter may be newer than the run: one that the run lacks is unchanged.
    changed = {**usual, **run.params} != usual
    return StandingMeasurement.Rank.CHANGED if changed else StandingMeasurement.Rank.PRESET


def update_standing(run: Run) -> None:
    """Replace standing measurements by those series of a successful run that outrank them."""
    if not run.public or run.state != State.SUCCEEDED:
        return
    rank = rank_of(run)
    headline = next(iter((run.result or {}).get("series", ())), "")
    for series in run.series.order_by("name"):  # always in one order, to avoid deadlocks
        _let_stand(series, rank, headline=series.name == headline)


@transaction.atomic
def _let_stand(series: Series, rank: StandingMeasurement.Rank, *, headline: bool) -> None:
    run = series.run
    values = {"series": series, "rank": rank, "measured_at": run.finished_at, "headline": headline}
    row, is_new = StandingMeasurement.objects.select_for_update().get_or_create(
        method=run.method,
        benchmark=run.benchmark,
        name=series.name,
        hardware=run.hardware,
        version=run.version,
        defaults=values,
    )
    challenger = StandingMeasurement(version=run.version, **values)
    if not is_new and _precedence(challenger) > _precedence(row):
        StandingMeasurement.objects.filter(pk=row.pk).update(**values)


def _precedence(row: StandingMeasurement) -> tuple[int, int, datetime]:
    """Sort key of two measurements of a version: the larger one stands."""
    # Settings are often changed to measure less, such as a single length.
    points = len(row.series.data["points"]) if row.rank == StandingMeasurement.Rank.CHANGED else 0
    return -row.rank, points, row.measured_at
