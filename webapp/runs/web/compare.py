"""Compares runs of one benchmark.

Values are compared only on one hardware class and one version of the benchmark; otherwise only
ratios are, each to the baseline that was measured in the same run.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from methods import charts, protocol
from webapp.runs.models import Run, State
from webapp.runs.queries import benchmark_of
from webapp.runs.texts import in_language, said
from webapp.runs.web import present

MAX_RUNS = 6
LETTERS = "ABCDEF"


class CannotCompareError(ValueError):
    """These runs cannot be compared; the message says why and what to choose."""


def compare_runs(runs: QuerySet[Run], wanted: str) -> dict[str, Any]:
    """The context of the page for the runs whose ids `wanted` lists, separated by commas.

    `only_ratios` is the reason if no values are shown, else "". Raises CannotCompareError.
    """
    chosen = _find(runs, wanted)
    reason = _only_ratios(chosen)
    benchmark = benchmark_of(chosen[0])
    series = [
        {row.name: in_language(row.parsed()) for row in run.series.all() if row.data}
        for run in chosen
    ]
    names = [name for name in series[0] if sum(name in of_run for of_run in series) > 1]
    return {
        "title": said(benchmark.title) if benchmark else chosen[0].benchmark,
        "sides": list(zip(LETTERS, chosen, map(_settings, chosen), strict=False)),
        "only_ratios": reason,
        "tables": [_table([of_run.get(name) for of_run in series], bool(reason)) for name in names],
    }


def _find(runs: QuerySet[Run], wanted: str) -> list[Run]:
    words = list(dict.fromkeys(word.strip() for word in wanted.split(",") if word.strip()))
    if len(words) < 2:
        raise CannotCompareError(_("Choose at least two runs of one benchmark."))
    if len(words) > MAX_RUNS:
        raise CannotCompareError(_("Choose at most %d runs.") % MAX_RUNS)
    try:
        keys = [UUID(word) for word in words]
    except ValueError:
        raise CannotCompareError(_("One of these is not the id of a run.")) from None
    by_key = runs.select_related("environment", "worker").in_bulk(keys)
    if missing := [str(key) for key in keys if key not in by_key]:
        raise CannotCompareError(_("There is no run %s.") % missing[0])
    chosen = [by_key[key] for key in keys]
    kinds = {(run.method, run.benchmark) for run in chosen}
    if len(kinds) > 1:
        names = " and ".join(sorted(f"{method}.{benchmark}" for method, benchmark in kinds))
        raise CannotCompareError(_("These are runs of different benchmarks: %s.") % names)
    if unfinished := [run for run in chosen if run.state != State.SUCCEEDED]:
        wrong = _("Run %s has not succeeded, so it has no results to compare.")
        raise CannotCompareError(wrong % str(unfinished[0].pk)[:8])
    return chosen


def _settings(run: Run) -> str:
    return ", ".join(f"{p.name}={p.value}" for p in present.parameters_of(run) if p.changed)


def _only_ratios(runs: Sequence[Run]) -> str:
    if len({run.hardware for run in runs}) > 1:
        return _(
            "These runs were measured on different classes of hardware, so only ratios are shown: "
            "each says how many times better than the baseline of the same run."
        )
    if len({run.version for run in runs}) > 1:
        return _(
            "The benchmark has changed between these runs, so only ratios are shown: each to the "
            "baseline of the same run."
        )
    return ""


def _table(of_runs: Sequence[protocol.Series | None], ratios: bool) -> dict[str, Any]:
    """One series over all runs: a line for each variant and x, with a point of each run."""
    first = next(series for series in of_runs if series)
    variants = {v.name: v for series in of_runs if series for v in series.variants}
    points = [
        {(p.variant, p.x): p for p in series.points if p.ratio or not ratios} if series else {}
        for series in of_runs
    ]
    places = list(dict.fromkeys(place for of_run in points for place in of_run))
    places.sort(key=lambda place: list(variants).index(place[0]))
    return {
        "series": first,
        "measure": _("times better than %s") % _baseline(first) if ratios else first.y.title,
        "picture": _picture(of_runs, ratios),
        "lines": [
            {
                "x": x,
                "variant": variants[name],
                "cells": _cells([of_run.get((name, x)) for of_run in points], first.direction),
            }
            for name, x in places
        ],
    }


def _cells(
    points: Sequence[protocol.Point | None], direction: str
) -> list[tuple[str, protocol.Point | None, str]]:
    """Each run's letter and point, and how many times better it is than run A's."""
    reference, *others = points
    against = [
        _against(point, reference, direction) if point and reference else "" for point in others
    ]
    return list(zip(LETTERS, points, ["", *against], strict=False))


def _against(point: protocol.Point, reference: protocol.Point, direction: str) -> str:
    """How many times better than run A, with the widest interval that both intervals allow.

    The two were not measured interleaved, so their blocks cannot be paired.
    """
    if min(point.low, point.estimate, reference.low, reference.estimate) <= 0:
        return ""
    ours, theirs = (reference, point) if direction == "lower" else (point, reference)
    value = ours.estimate / theirs.estimate
    low, high = ours.low / theirs.high, ours.high / theirs.low
    if low == high:
        return f"{value:.2f}×"
    word = "" if low > 1 or high < 1 else _(", ") + _("no difference shown")
    return f"{value:.2f}× ({low:.2f} – {high:.2f}){word}"


def _picture(of_runs: Sequence[protocol.Series | None], ratios: bool) -> str:
    """A chart of the runs' own variants; "" if there is nothing to draw."""
    first = next(series for series in of_runs if series)
    variants, points = [], []
    for letter, series in zip(LETTERS, of_runs, strict=False):
        # There is only room for the method itself, not for its baselines.
        own = [v for v in series.variants if v.ours] or series.variants[:1] if series else []
        for variant in own:
            name, label = f"{letter.lower()}_{variant.name}", f"{letter}: {variant.label}"
            changed = {"name": name, "label": label, "ours": letter == LETTERS[0]}
            variants.append(variant.model_copy(update=changed))
            points += [
                point.model_copy(update={"variant": name})
                for point in (series.points if series else ())
                if point.variant == variant.name
            ]
    baseline = protocol.Variant(name="baseline", label=_baseline(first))
    merged = first.model_copy(
        update={
            "variants": (*variants, baseline),
            "points": tuple(points),
            "baseline": baseline.name if ratios else None,
            "limits": (),  # a run's limits do not apply to the others
            "partial": False,
        }
    )
    quantity: charts.Quantity = "ratio" if ratios else "value"
    try:
        return charts.draw(
            merged, quantity, standalone=False, ident=f"compare-{first.name}", say=said
        )
    except (ValueError, TypeError):  # x values of two versions that do not fit on one axis
        return ""


def _baseline(series: protocol.Series) -> str:
    return series.compared_with or _("its baseline")
