"""Reports of a benchmark: progress of its trainings, and the series that its method declares."""

import tomllib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..context import Context, OpenSeries
from ..measure.statistics import over_seeds
from ..protocol import Axis, Limit, Series, Variant

Table = Mapping[tuple[str, Any], Sequence[float]]  # (variant, x): a value of each seed


class Charts:
    """Series whose words are data, in the `charts.toml` of a method, opened in a run.

    `[series.NAME]` holds title, caption, the axes `x` and `y`, direction and baseline; `variants`
    there names the list in `[variants]` that it shows, `like` a series that has what is missing.
    `name` is the series' own where two benchmarks have one of the same.
    Words in braces are given where it is opened.
    """

    def __init__(self, ctx: Context, module: str) -> None:
        """Those declared beside a module, which gives its `__file__`."""
        self.ctx = ctx
        self.declared = tomllib.loads(Path(module).with_name("charts.toml").read_text("utf-8"))

    def variants(self, listed: str, shown: Container[str] | None = None) -> list[Variant]:
        """A list of `[variants]`, or those of its variants that are `shown`."""
        listed_here = [Variant(**variant) for variant in self.declared["variants"][listed]]
        return [variant for variant in listed_here if shown is None or variant.name in shown]

    def words(self, name: str) -> Mapping[str, Any]:
        """All that is declared of a series."""
        declared: Mapping[str, Any] = self.declared["series"][name]
        return {**self.words(declared["like"]), **declared} if "like" in declared else declared

    def open(
        self,
        name: str,
        shown: Container[str] | None = None,
        *,
        variants: Iterable[Variant] | None = None,
        limits: Iterable[Limit] = (),
        most: float | None = None,
        **words: object,
    ) -> OpenSeries:
        """The series called `name`, with the variants of its list that are `shown`.

        `variants` stand in the place of the list, `words` in that of braces; `most` is what the
        quantity can be at most.
        """
        declared = self.words(name)
        every = self.variants(declared["variants"], shown) if variants is None else variants
        empty = Series(
            name=declared.get("name", name),
            title=declared["title"].format(**words),
            x=Axis(**declared["x"]),
            y=Axis(**{"most": most, **declared["y"]}),
            direction=declared["direction"],
            variants=tuple(every),
            baseline=declared.get("baseline", "").format(**words) or None,
            limits=tuple(limits),
            caption=declared.get("caption", "").format(**words),
        )
        return self.ctx.series(empty)

    def seeds(
        self,
        name: str,
        table: Table,
        limits: Mapping[str, float | Callable[[Any], float]] | None = None,
        **options: Any,
    ) -> None:
        """The series called `name` with what seeds found; `limits` are heights, or take x.

        `options` are those of `open`. A variant is compared with the baseline's seeds at its x, or
        with the only ones where the baseline stands at one x alone.
        """
        declared = self.words(name)
        xs = dict.fromkeys(x for _, x in table)
        lines = [
            Limit(label=label, points=tuple((x, at(x) if callable(at) else at) for x in xs))
            for label, at in (limits or {}).items()
        ]
        series = self.open(name, {variant for variant, _ in table}, limits=lines, **options)
        baseline, direction = declared.get("baseline", "").format(**options), declared["direction"]
        theirs = {x: values for (variant, x), values in table.items() if variant == baseline}
        only = next(iter(theirs.values())) if len(theirs) == 1 else None
        for (variant, x), values in table.items():
            against = None if variant == baseline else theirs.get(x, only)
            series.add(over_seeds(variant, x, values, direction=direction, baseline=against))


class Stages:
    """Progress over several stages, each of so many steps."""

    def __init__(self, ctx: Context, total: int) -> None:
        self._ctx, self._total, self._done = ctx, total, 0

    def begin(self, steps: int, what: str) -> Callable[..., None]:
        """A stage of `steps` begins; the function's first argument is how many of them are done."""
        before, self._done = self._done, self._done + steps
        return lambda step, *_: self._ctx.progress(before + step, self._total, what)
