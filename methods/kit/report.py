"""What a benchmark of quality tells: how far its trainings are, and what its seeds found."""

from __future__ import annotations

from collections.abc import Callable

from methods.context import Context
from methods.measure.statistics import over_seeds

__all__ = ["Stages", "over_seeds"]


class Stages:
    """Progress over several stages, each of so many steps."""

    def __init__(self, ctx: Context, total: int) -> None:
        self._ctx, self._total, self._done = ctx, total, 0

    def begin(self, steps: int, what: str) -> Callable[..., None]:
        """A stage of `steps` begins; the function's first argument is how many of them are done."""
        before, self._done = self._done, self._done + steps
        return lambda step, *_: self._ctx.progress(before + step, self._total, what)
