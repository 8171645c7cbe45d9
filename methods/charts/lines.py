"""Variants as lines over a numeric x, each labelled where it ends."""

from collections.abc import Iterable, Sequence
from typing import Literal

from ..protocol import Variant
from . import marks
from .layout import Scale, keep_apart, short, shorten, span, text_width, wrap
from .marks import LINE, MARGIN, SMALL, TEXT, WIDTH
from .plot import Plot

LABEL_GAP = 16.0
MARKS = 16
# Whose it is, if not a limit's, its lines, the end of what it names, and how high it stands.
Label = tuple[Variant | None, Sequence[str], tuple[float, float], float]


def draw_lines(plot: Plot) -> tuple[str, float]:
    """Variants as lines over a numeric x, each labelled at its end."""
    series = plot.series
    names = [(variant.label, _end_value(plot, variant)) for variant in plot.variants]
    names += [(label, "") for label, _ in plot.limits]
    # Names stand at the right, beside the lines' ends; long ones are wrapped.
    room = min(max(text_width(a + b, TEXT, bold=True) for a, b in names) + 14, WIDTH * 0.4)
    texts = [wrap(a + b, TEXT, room + MARGIN - 16, bold=True) for a, b in names]
    gap = LABEL_GAP + LINE * (max(len(lines) for lines in texts) - 1)
    top, bottom = 10.0, max(220.0, len(names) * gap + 30)
    # The axes: y first, since the width of its numbers determines where x begins.
    low, high = span(plot.values, plot.kind)
    y = Scale(low, high, bottom, top, plot.kind)
    y_ticks = y.ticks(6)
    left = MARGIN + max(text_width(plot.tick(t), SMALL, mono=True) for t in y_ticks) + 8
    right = WIDTH - MARGIN - room
    xs = sorted({float(dot.x) for dot in plot.points})
    x_kind: Literal["linear", "log"] = "log" if series.x.scale == "log" else "linear"
    x = Scale(*span(xs, x_kind), left, right, x_kind)
    parts = []
    for tick in y_ticks:
        parts.append(marks.line("rule", left, y(tick), right, y(tick)))
        parts.append(marks.tick_label(plot.tick(tick), left - 7, y(tick) + 4, "end"))
    parts.append(marks.line("axis", left, bottom, right, bottom))
    parts += _x_axis(plot, x, xs if len(xs) <= 10 else x.ticks(6), bottom)
    if plot.quantity == "ratio":
        parts.append(marks.line("one", left, y(1), right, y(1)))
    # The lines, with a mark at each point where there are few, else at the last one.
    ends: list[tuple[float, float]] = []
    for variant in plot.variants:
        placed = [(x(float(dot.x)), y(dot.estimate), dot) for dot in plot.of(variant)]
        ends.append(placed[-1][:2])
        curve = marks.polyline("line", [(a, b) for a, b, _ in placed])
        whiskers = "".join(marks.whisker(a, y(dot.low), y(dot.high)) for a, _, dot in placed)
        shapes = "".join(
            marks.mark(plot.shape(variant), a, b, hollow=bool(dot.flags))
            for a, b, dot in (placed if len(placed) <= MARKS else placed[-1:])
        )
        parts.append(f'<g class="{plot.classes(variant)}">{curve}{whiskers}{shapes}</g>')
    for _, points in plot.limits:
        inside = [(x(float(a)), y(b)) for a, b in sorted(points, key=lambda p: float(p[0]))]
        ends.append(inside[-1])
        parts.append(marks.polyline("limit", inside))
    # Names that would overlap move apart, and a thin line leads to each.
    places = keep_apart([place for _, place in ends], gap, top + gap / 2, bottom + 6 - gap / 2)
    named = [*plot.variants, *[None] * len(plot.limits)]
    parts += _end_labels(plot, zip(named, texts, ends, places, strict=True), right)
    return "".join(parts), bottom + 48


def _end_value(plot: Plot, variant: Variant) -> str:
    """The ratio to print beside the name; values are read off the axis and the table."""
    if plot.quantity == "value":
        return ""
    return " " + plot.text_of(plot.of(variant)[-1].estimate)


def _end_labels(plot: Plot, labels: Iterable[Label], right: float) -> Iterable[str]:
    """Names at their places beside the ends of their lines; a leader where they had to move."""
    for variant, lines, (x, y), place in labels:
        if abs(place - y) > 3 or right - x > 14:
            bend = max(x + 6, right - 3), y
            yield marks.polyline("leader", [(x + 6, y), bend, (right + 9, place)])
        first = place + 4.5 - LINE * (len(lines) - 1) / 2
        name = marks.text_lines("name" if variant else "limit-label", lines, right + 12, first)
        yield f'<g class="{plot.classes(variant)}">{name}</g>' if variant else name


def _x_axis(plot: Plot, x: Scale, ticks: Sequence[float], bottom: float) -> Iterable[str]:
    """Ticks, as many labels as have room, and the axis' name."""
    for tick in ticks:
        yield marks.line("axis", x(tick), bottom, x(tick), bottom + 4)
    yield from marks.tick_labels([(x(tick), short(tick)) for tick in ticks], bottom + 18)
    name = shorten(plot.series.x.title, SMALL, WIDTH - 2 * MARGIN)
    place = f'text-anchor="middle" x="{(x.start + x.end) / 2:.1f}" y="{bottom + 36:.1f}"'
    yield f'<text class="soft" {place}>{marks.escaped(name)}</text>'
