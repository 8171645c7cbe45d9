"""What a benchmark of quality tells: how far its trainings are, and what its seeds found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from methods.context import Context, OpenSeries
from methods.measure.statistics import over_seeds

__all__ = ["Stages", "add_seeds", "over_seeds"]


def add_seeds(
    series: OpenSeries,
    table: Mapping[tuple[str, Any], Sequence[float]],
    baseline: str | None = None,
) -> None:
    """A point for each variant and x of a table: its seeds, against the baseline's at that x."""
    for (variant, x), values in table.items():
        against = None if baseline in (None, variant) else table[baseline, x]
        series.add(over_seeds(variant, x, values, baseline=against))


class Stages:
    """Progress over several stages, each of so many steps."""

    def __init__(self, ctx: Context, total: int) -> None:
        self._ctx, self._total, self._done = ctx, total, 0

    def begin(self, steps: int, what: str) -> Callable[..., None]:
        """A stage of `steps` begins; the function's first argument is how many of them are done."""
        before, self._done = self._done, self._done + steps
        return lambda step, *_: self._ctx.progress(before + step, self._total, what)
