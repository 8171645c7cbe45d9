"""A series reduced to the one quantity that a chart shows."""

from collections.abc import Iterable
from typing import Literal

from ..params import Say
from ..protocol import Point, Series, Variant
from .layout import short
from .style import RIVALS

Quantity = Literal["value", "ratio"]
Heights = tuple[tuple[float | str, float], ...]  # of a limit, at each x


class Plot:
    """Part of a series with one quantity: points, variants and limits, in drawing order."""

    def __init__(self, series: Series, quantity: Quantity, say: Say = str) -> None:
        self.series, self.quantity, self.say = series, quantity, say
        order = {point.x: place for place, point in enumerate(series.points)}
        numeric = series.x.scale != "category"
        self.points = sorted(
            filter(None, (_dot(point, quantity) for point in series.points)),
            key=lambda dot: dot.x if numeric else order[dot.x],
        )
        drawn = {dot.variant for dot in self.points}
        self.variants = [v for v in series.variants if v.name in drawn]
        self.limits = list(_limits(series, quantity))
        highest = max((dot.high for dot in self.points), default=1.0)
        lowest = min((dot.low for dot in self.points), default=1.0)
        wide = highest > 3 * lowest if quantity == "ratio" else series.y.scale == "log"
        self.kind: Literal["linear", "log"] = "log" if wide and lowest > 0 else "linear"

    def of(self, variant: Variant) -> list[Point]:
        """A variant's points."""
        return [dot for dot in self.points if dot.variant == variant.name]

    @property
    def measure(self) -> str:
        """The measured quantity, with its unit."""
        if self.quantity == "ratio":
            base = next(v for v in self.series.variants if v.name == self.series.baseline)
            verdicts = {point.ratio.verdict for point in self.series.points if point.ratio}
            is_time = not verdicts.isdisjoint({"faster", "slower"})
            text = "times as fast as {}" if is_time else "times as good as {}"
            return self.say(text).format(base.label)
        return self.series.y.title

    @property
    def values(self) -> list[float]:
        """Every number that the scale must hold."""
        values = [value for dot in self.points for value in (dot.low, dot.estimate, dot.high)]
        values += [value for _, points in self.limits for _, value in points]
        return [*values, 1.0] if self.quantity == "ratio" else values

    def tick(self, value: float) -> str:
        """A number of the axis in words."""
        return short(value) + ("×" if self.quantity == "ratio" else "")

    @property
    def better(self) -> str:
        """The direction that is better."""
        higher = self.quantity == "ratio" or self.series.direction == "higher"
        return self.say("higher is better" if higher else "lower is better")

    def text_of(self, value: float) -> str:
        """A value in words, with its unit."""
        if self.quantity == "ratio":
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}×"
        digits = 3 if abs(value) < 1000 else 4
        return f"{short(float(f'{value:.{digits}g}'))} {self.series.y.unit}".strip()

    def colour(self, variant: Variant) -> str:
        """Gold for what is ours, ink for the baseline, calm colours for the others."""
        if variant.ours:
            first = next(v for v in self.series.variants if v.ours)
            return "ours" if first == variant else "ours-2"
        if variant.name == self.series.baseline:
            return "base"
        rivals = [v for v in self.series.variants if not v.ours and v.name != self.series.baseline]
        return f"c{rivals.index(variant) % RIVALS}"

    def classes(self, variant: Variant) -> str:
        """The style's classes for everything drawn of a variant."""
        return f"v-{self.colour(variant)}" + (" ours" if variant.ours else "")

    def shape(self, variant: Variant) -> int:
        """The number of a variant's mark."""
        return self.series.variants.index(variant)


def _dot(point: Point, quantity: Quantity) -> Point | None:
    """The point with the quantity as its estimate and interval; None where it has none."""
    if quantity == "value":
        low, high = min(point.low, point.estimate), max(point.high, point.estimate)
        return point.model_copy(update={"low": low, "high": high})
    if (ratio := point.ratio) is None:
        return None
    return point.model_copy(update={"value": ratio.value, "low": ratio.low, "high": ratio.high})


def _limits(series: Series, quantity: Quantity) -> Iterable[tuple[str, Heights]]:
    """Limits in the quantity drawn; one given as a ratio becomes values by way of the baseline."""
    base = {
        point.x: point.estimate
        for point in series.points
        if point.variant == series.baseline and point.estimate > 0
    }

    def converted(x: float | str, y: float) -> float:
        if series.direction == "lower":  # value = baseline / ratio, and the other way round
            return base[x] / y
        return base[x] * y if quantity == "value" else y / base[x]

    for limit in series.limits:
        points = tuple(series.heights(limit).items())
        if limit.of != quantity:
            points = tuple((x, converted(x, y)) for x, y in points if x in base and y > 0)
        if points:
            yield limit.label, points
