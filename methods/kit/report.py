"""What a benchmark of quality tells: how far its trainings are, and what its seeds found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from methods.context import Context
from methods.measure.statistics import point
from methods.protocol import Point
from methods.spec import Direction


class Stages:
    """Progress over several stages, each of so many steps."""

    def __init__(self, ctx: Context, total: int) -> None:
        self._ctx, self._total, self._done = ctx, total, 0

    def begin(self, steps: int, what: str) -> Callable[..., None]:
        """A stage of `steps` begins; the function's first argument is how many of them are done."""
        before, self._done = self._done, self._done + steps
        return lambda step, *_: self._ctx.progress(before + step, self._total, what)


def over_seeds(
    variant: str,
    x: str | float,
    values: Sequence[float],
    *,
    direction: Direction = "higher",
    baseline: Sequence[float] | None = None,
    within: tuple[float, float] | None = None,
) -> Point:
    """The mean of one value a seed, compared seed by seed with the baseline's."""
    return point(
        variant,
        x,
        [[value] for value in values],
        direction=direction,
        baseline=None if baseline is None else [[value] for value in baseline],
        min_blocks=3,
        words="better/worse",
        noise=False,
        within=within,
    )
