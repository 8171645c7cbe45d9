"""Measurements in words: bounds, intervals, tensors."""

import math

from assay_common.quantities import number

from ..protocol import Bound, Flag, Point


def check_value(value: float | bool | None) -> str:
    """A bound or what was measured against it, as the table of checks shows it."""
    if value is None or not math.isfinite(value):
        return "not finite"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value, digits=3)


def interval(point: Point) -> str:
    """A 95 % interval in words; what was counted is exact, what was sampled once has none."""
    if point.low < point.high:
        return f"{number(point.low)} – {number(point.high)}"
    if len(point.samples) > 1:
        return number(point.low)
    return "no interval" if Flag.FEW in point.flags else "exact"


def tensor(bound: Bound) -> str:
    """Describe what a line bound: ``scores (8, 2, 16) float32, 0.12 to 1.4``."""
    sizes = ", ".join(map(str, bound.shape)) + ("," if len(bound.shape) == 1 else "")
    text = f"{bound.name} ({sizes}) {bound.dtype}"
    if bound.low is not None and bound.high is not None:
        text += f", {number(bound.low)} to {number(bound.high)}"
    if bound.others:
        text += f", +{bound.others} other shape{'s' if bound.others > 1 else ''}"
    return text
