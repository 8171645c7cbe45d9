"""Standing measurements: which run's series answers for a method on a class of hardware.

Anyone may run anything, so what was asked for decides before when it was measured: a smoke run
replaces no measurement, and one with changed settings none of the preset's. The row is written
when a run is recorded, so that later runs, however many, push none away.
"""

from django.db import transaction

from webapp.runs.models import Run, Series, StandingMeasurement, State
from webapp.runs.queries import spec_of


def rank_of(run: Run) -> StandingMeasurement.Rank:
    """How much a run counts, by what was asked for."""
    found = spec_of(run)
    preset = found[1].presets.get(run.preset) if found else None
    if preset is None or run.preset == "smoke":
        return StandingMeasurement.Rank.SMOKE
    usual = preset.model_dump(mode="json")
    # A parameter may be younger than the run: what the run does not name is as usual.
    changed = {**usual, **run.params} != usual
    return StandingMeasurement.Rank.CHANGED if changed else StandingMeasurement.Rank.PRESET


def update_standing(run: Run) -> None:
    """Let the series of a run that succeeded stand where they count more than what stands there."""
    if not run.public or run.state != State.SUCCEEDED:
        return
    rank = rank_of(run)
    headline = next(iter((run.result or {}).get("series", ())), "")
    for series in run.series.order_by("name"):  # in one order: two runs cannot block each other
        _let_stand(series, run.hardware, rank, headline=series.name == headline)


@transaction.atomic
def _let_stand(
    series: Series, hardware: str, rank: StandingMeasurement.Rank, *, headline: bool
) -> None:
    run = series.run
    values = {"series": series, "rank": rank, "measured_at": run.finished_at, "headline": headline}
    row, is_new = StandingMeasurement.objects.select_for_update().get_or_create(
        method=run.method,
        benchmark=run.benchmark,
        name=series.name,
        hardware=hardware,
        version=run.version,
        defaults=values,
    )
    challenger = StandingMeasurement(version=run.version, **values)
    if not is_new and challenger.weight > row.weight:
        for name, value in values.items():
            setattr(row, name, value)
        row.save()
