"""Measured numbers and times as people read them, on a terminal and on a page."""

import math

from ..protocol import Bound, Flag, Point


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def number(value: float, digits: int = 4) -> str:
    """A measured number as people read it: four significant digits, thousands kept whole."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        if float(value).is_integer():
            return f"{value:.0f}"
        if abs(value) < 1:
            return f"{value:.{digits}g}"
        return f"{value:.{max(0, digits - len(str(int(abs(value)))))}f}"
    return f"{value:.{digits - 1}e}"


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
    """What a line bound, in words: ``scores (8, 2, 16) float32, 0.12 to 1.4``."""
    sizes = ", ".join(map(str, bound.shape)) + ("," if len(bound.shape) == 1 else "")
    text = f"{bound.name} ({sizes}) {bound.dtype}"
    if bound.low is not None and bound.high is not None:
        text += f", {number(bound.low)} to {number(bound.high)}"
    if bound.others:
        text += f", +{bound.others} other shape{'s' if bound.others > 1 else ''}"
    return text
