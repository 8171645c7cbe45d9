"""Layout of a chart: scales, ticks, widths of text, labels that keep apart."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

# A word, or a Chinese character with the marks that may not begin a line; each after its blank.
_WORD = re.compile(r" ?(?:[^ \u2e80-\uffff]+|[\u2e80-\uffff][，。、：；）”]*)")
NARROW, WIDE = frozenset("iljtfrI.,:;'|!()[] ·"), frozenset("mwMW@%—×")


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from ``low`` to ``high`` onto pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    kind: Literal["linear", "log"] = "linear"

    def __call__(self, value: float) -> float:
        """The pixel of a value, kept within the ends."""
        low, high, at = (self._place(v) for v in (self.low, self.high, value))
        share = (at - low) / (high - low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def _place(self, value: float) -> float:
        if self.kind == "linear":
            return value
        return math.log10(value) if value > 0 else -math.inf

    def ticks(self, count: int = 5) -> list[float]:
        """Round values inside the scale, about ``count`` of them."""
        ticks = linear_ticks if self.kind == "linear" else log_ticks
        return ticks(self.low, self.high, count)


def span(values: Sequence[float], kind: str, *, zero: bool = False) -> tuple[float, float]:
    """Ends of a scale that holds ``values`` with some air; never empty, never log of nothing."""
    if kind == "log":
        positive = [value for value in values if value > 0] or [1.0]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        air = max(0.06 * (high - low), 0.04)
        return 10 ** (low - air), 10 ** (high + air)
    low, high = min(values, default=0.0), max(values, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    air = 0.06 * (high - low) or abs(high) * 0.5 or 1.0
    return (low if zero and low == 0 else low - air), (high if zero and high == 0 else high + air)


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Powers of ten, with 2 and 5 between where there is room, or round values in a short span."""
    if high / low < 4:
        return linear_ticks(low, high, count)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    seldom = math.ceil((last - first) / count)
    for factors, step in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), seldom)):
        every = [f * 10.0**k for k in range(first, last + 1, step) for f in factors]
        ticks = [value for value in every if low <= value <= high]
        if len(ticks) <= count + 2:
            break
    return ticks


def short(value: float) -> str:
    """A tick's number: ``16k`` for 16384, ``2M``, ``0.05``; three significant digits."""
    if value == 0:
        return "0"
    if value >= 1024 and value % 1024 == 0 and value < 1024**2:
        return f"{value / 1024:g}k"
    for least, unit, sign in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.4g}"


def text_width(text: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """About how wide a text is drawn, in pixels; rather too much than too little."""
    if mono:
        return len(text) * size * 0.61

    def em(character: str) -> float:
        if character in NARROW:
            return 0.36
        if ord(character) > 0x2E80:
            return 1.0
        return 0.92 if character in WIDE else 0.69 if character.isupper() else 0.6

    return size * (1.13 if bold else 1) * sum(map(em, text))


def shorten(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """``text``, or as much of it as fits ``width`` with an ellipsis."""
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "…", size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrap(text: str, size: float, width: float, *, bold: bool = False) -> list[str]:
    """``text`` in lines no wider than ``width``; a word too long for a line is shortened."""
    lines: list[str] = []
    for word in _WORD.findall(" ".join(text.split())):
        if lines and text_width(lines[-1] + word, size, bold=bold) <= width:
            lines[-1] += word
        else:
            lines.append(shorten(word.strip(), size, width, bold=bold))
    return lines


def keep_apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Moved as little as possible, ``places`` are at least ``gap`` apart and within the ends.

    Neighbours that are too near form a block around their mean; blocks that touch merge (the pool
    adjacent violators algorithm). If all cannot fit, they are spread evenly.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    last = len(order) - 1
    gap = min(gap, (high - low) / max(1, last))
    blocks: list[list[float]] = []  # of place - rank * gap
    for rank, i in enumerate(order):
        blocks.append([places[i] - rank * gap])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    bases = [min(max(fmean(block), low), high - last * gap) for block in blocks for _ in block]
    moved = {i: bases[rank] + rank * gap for rank, i in enumerate(order)}
    return [moved[i] for i in range(len(places))]
