"""Series to SVG: the command line and the site draw with the same pen.

``draw`` makes a picture that stands alone: light and dark by the reader's preference or by
``data-theme`` on the picture or on any element around it. A page whose content security policy
forbids inline styles asks for ``standalone=False`` and serves ``STYLE`` in its own stylesheet.

Lines are labelled where they end, so there is no legend; intervals are drawn as whiskers; a number
in doubt has a hollow mark; a limit is dashed. The picture is 480 units wide, with text that can
still be read when it is scaled down to 360 pixels.
"""

import re
from collections import Counter

from ..params import Say
from ..protocol import Series
from .layout import short, wrap
from .lines import draw_lines
from .marks import MARGIN, SMALL, TITLE, WIDTH, escaped
from .plot import Plot, Quantity
from .rows import draw_rows
from .style import STYLE
from .words import check_value, interval, tensor

MAX_VARIANTS = 8  # of one chart


def draw(
    series: Series,
    quantity: Quantity = "value",
    *,
    standalone: bool = True,
    ident: str = "",
    say: Say = str,
) -> str:
    """The series as an SVG element: its values, or its ratios to the baseline.

    ``ident`` must be unique on the page when a series is drawn twice there; ``say`` translates the
    chart's own words. Raises ValueError when there is nothing to draw.
    """
    plot = Plot(series, quantity, say)
    if not plot.points:
        raise ValueError(f"the series {series.name!r} has no {quantity} to draw")
    in_rows = series.x.scale == "category" or len({dot.x for dot in plot.points}) == 1
    body, height = draw_rows(plot) if in_rows else draw_lines(plot)
    head, top = _head(plot)
    ident = re.sub(r"[^a-z0-9-]", "-", (ident or f"{series.name}-{quantity}").lower())
    style = f"<style>{STYLE}</style>" if standalone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="assay-chart" role="img" '
        f'viewBox="0 0 {WIDTH:g} {height + top:.0f}" '
        f'aria-labelledby="{ident}-title {ident}-desc">'
        f'<title id="{ident}-title">{escaped(series.title)}</title>'
        f'<desc id="{ident}-desc">{escaped(describe(plot))}</desc>{style}'
        f'<rect class="sheet" width="{WIDTH:g}" height="{height + top:.0f}"/>'
        f'{head}<g transform="translate(0 {top:g})">{body}</g></svg>'
    )


def draw_all(series: Series) -> dict[str, str]:
    """Every picture of a series by file name: its values and, with a baseline, its ratios."""
    pictures = {}
    for place, part in enumerate(parts(series)):
        name = f"{series.name}-{place + 1}" if place else series.name
        if part.points:
            pictures[name] = draw(part, ident=f"{name}-value")
        if any(point.ratio for point in part.points):
            pictures[f"{name}-ratio"] = draw(part, "ratio", ident=f"{name}-ratio")
    return pictures


def parts(series: Series) -> list[Series]:
    """The series in charts of eight variants at most: the baseline and ours first, in each."""
    drawn = {point.variant for point in series.points}
    base = drawn & {series.baseline}
    rest = [variant for variant in series.variants if variant.name in drawn - base]
    rest.sort(key=lambda variant: not variant.ours)
    room = MAX_VARIANTS - len(base)
    charts = []
    for first in range(0, max(1, len(rest)), room):
        chosen = base | {variant.name for variant in rest[first : first + room]}
        points = tuple(point for point in series.points if point.variant in chosen)
        charts.append(series.model_copy(update={"points": points}))
    return charts


def forest(series: Series) -> Series:
    """Every variant at one place: the largest x at which most were measured."""
    places = Counter(point.x for point in series.points)
    order = {point.x: place for place, point in enumerate(series.points)}
    numeric = series.x.scale != "category"
    place = max(places, key=lambda x: (places[x], x if numeric else order[x]))
    points = tuple(point for point in series.points if point.x == place)
    return series.model_copy(update={"points": points})


def describe(plot: Plot) -> str:
    """The chart in words, for those who do not see it."""
    series = plot.series
    parts = [f"{plot.measure}; {plot.better}."]
    for variant in plot.variants:
        last = plot.of(variant)[-1]
        where = last.x if isinstance(last.x, str) else f"{series.x.label} {short(last.x)}"
        parts.append(
            plot.say("{}: {} at {}.").format(variant.label, plot.text_of(last.estimate), where)
        )
    parts += [plot.say("Limit: {}.").format(label) for label, _ in plot.limits]
    if series.partial:
        parts.append(plot.say("Partial: the run did not end."))
    return " ".join(parts)


def _head(plot: Plot) -> tuple[str, float]:
    """Title, what is measured and which way is better; and the height they take."""
    parts, y = [], MARGIN + TITLE - 2
    for line in wrap(plot.series.title, TITLE, WIDTH - 2 * MARGIN, bold=True)[:3]:
        parts.append(f'<text class="title" x="{MARGIN:g}" y="{y:g}">{escaped(line)}</text>')
        y += TITLE * 1.25
    notes = [f"{plot.measure} · {plot.better}"]
    if plot.series.partial:
        notes.append(f"△ {plot.say('partial: the run did not end')}")
    if any(dot.flags for dot in plot.points):
        notes.append(f"○ {plot.say('hollow mark: doubtful, see the table')}")
    for note in notes:
        for line in wrap(note, SMALL, WIDTH - 2 * MARGIN)[:2]:
            parts.append(f'<text class="soft" x="{MARGIN:g}" y="{y:g}">{escaped(line)}</text>')
            y += SMALL * 1.35
    return "".join(parts), y - 2
