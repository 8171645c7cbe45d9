"""What a figure must beat before it says anything for a mechanism: its benchmark's controls."""

from methods import registry
from methods.protocol import Point, Series, Variant
from webapp.runs import intervals


def controls_of(method: str, benchmark: str) -> tuple[str, ...]:
    """The variants of a benchmark that leave the mechanism out; () where it is no longer known."""
    if method not in registry.slugs():
        return ()
    benchmarks = {one.slug: one for one in registry.get(method).benchmarks}
    return benchmarks[benchmark].controls if benchmark in benchmarks else ()


def unbeaten(series: Series, point: Point, controls: tuple[str, ...]) -> Variant | None:
    """The first control of a chart that a point is not shown to be better than; None with none.

    Compared at the point's x, or with a control that stands at one x alone: it costs what it costs.
    A control that has nothing to compare with is not beaten.
    """
    for variant in series.variants:
        if variant.name in controls and variant.name != point.variant:
            theirs = [one for one in series.points if one.variant == variant.name]
            at = [one for one in theirs if one.x == point.x] or (theirs if len(theirs) == 1 else [])
            if not at or not _is_better(series, point, at[0]):
                return variant
    return None


def _is_better(series: Series, point: Point, control: Point) -> bool:
    """Whether the whole interval of the ratio lies on the better side of 1."""
    ratio = intervals.between(point, control)
    if ratio is None:
        return False
    _, low, high = ratio
    return low > 1 if series.direction == "higher" else high < 1
