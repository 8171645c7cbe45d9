"""Variants as dots in rows under the words of a categorical x, each with its value."""

from collections.abc import Iterable

from ..protocol import Point, Variant
from . import marks
from .layout import Scale, shorten, span, text_width, wrap
from .marks import LINE, MARGIN, SMALL, TEXT, WIDTH
from .plot import Plot

ROW = 20.0


def draw_rows(plot: Plot) -> tuple[str, float]:
    """The rows and their axis as SVG, and the height they take."""
    groups = list(dict.fromkeys(dot.x for dot in plot.points))
    single = len(plot.variants) == 1 and len(groups) > 1
    x = _scale(
        plot, [plot.series.x.at(g) for g in groups] if single else [v.label for v in plot.variants]
    )
    rows: list[str] = []
    y = 16.0
    for group in groups:
        if not single:
            where = plot.series.x.at(group)
            name = marks.escaped(shorten(where, SMALL, WIDTH - 2 * MARGIN))
            rows.append(f'<text class="soft" x="{MARGIN:g}" y="{y + 4:g}">{name}</text>')
            y += ROW
        first = y
        dots = {dot.variant: dot for dot in plot.points if dot.x == group}
        for variant in plot.variants:
            if variant.name in dots:
                label = plot.series.x.at(group) if single else variant.label
                lines = wrap(label, TEXT, x.start - MARGIN - 6, bold=True)
                y += LINE * (len(lines) - 1) / 2
                rows.append(_row(plot, variant, dots[variant.name], x, y=y, lines=lines))
                y += ROW + LINE * (len(lines) - 1) / 2
        rows += _limits(plot, group, x, first - 9, y - 11)
        y += 0 if single else 8
    bottom = y - 4
    height = bottom + 28
    parts = [*_axis(plot, x, bottom), *rows]
    if plot.limits:
        note = plot.say("dashed: {}").format(", ".join(label for label, _ in plot.limits))
        note = marks.escaped(shorten(note, SMALL, WIDTH - 2 * MARGIN))
        parts.append(f'<text class="limit-label" x="{MARGIN:g}" y="{height + 6:g}">{note}</text>')
        height += 18
    return "".join(parts), height


def _scale(plot: Plot, labels: list[str]) -> Scale:
    """The x scale between the labels on the left and the values on the right."""
    left = max(text_width(label, TEXT, bold=True) for label in labels) + 10
    widest = max(text_width(plot.text_of(dot.estimate), SMALL, mono=True) for dot in plot.points)
    ends = span(plot.values, plot.kind, zero=plot.quantity == "value")
    return Scale(*ends, MARGIN + min(left, WIDTH * 0.4), WIDTH - MARGIN - widest - 12, plot.kind)


def _axis(plot: Plot, x: Scale, bottom: float) -> Iterable[str]:
    ticks = x.ticks(5)
    for tick in ticks:
        yield marks.line("rule", x(tick), 4, x(tick), bottom)
    yield from marks.tick_labels([(x(tick), plot.tick(tick)) for tick in ticks], bottom + 17)
    if plot.quantity == "ratio":
        yield marks.line("one", x(1), 4, x(1), bottom)
    yield marks.line("axis", x.start, bottom, x.end, bottom)


def _limits(plot: Plot, group: float | str, x: Scale, top: float, bottom: float) -> Iterable[str]:
    for label, points in plot.limits:
        for place, value in points:
            if place == group:
                stroke = marks.line("limit", x(value), top, x(value), bottom)
                yield f"<g><title>{marks.escaped(label)}</title>{stroke}</g>"


def _row(plot: Plot, variant: Variant, dot: Point, x: Scale, *, y: float, lines: list[str]) -> str:
    """One dot with its name, its interval, its value and, where lengths mean something, a stem."""
    centre, low, high = x(dot.estimate), x(dot.low), x(dot.high)
    stem = ""
    if plot.quantity == "ratio" or plot.kind == "linear":
        stem = marks.line("stem", x(1 if plot.quantity == "ratio" else 0), y, centre, y)
    interval = ""
    if high - low > 0.5:
        interval = f'<path class="whisker" d="M{low:.1f} {y - 3:g}v6m0-3H{high:.1f}m0-3v6"/>'
    name = marks.text_lines("name", lines, MARGIN, y + 4.5 - LINE * (len(lines) - 1) / 2)
    return (
        f'<g class="{plot.classes(variant)}">'
        f"{name}{stem}{interval}"
        f"{marks.mark(plot.shape(variant), centre, y, hollow=bool(dot.flags))}"
        f"{marks.tick_label(plot.text_of(dot.estimate), WIDTH - MARGIN, y + 4, 'end')}</g>"
    )
