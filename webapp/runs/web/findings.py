"""A summary of a run in three lines: the headline, the checks, the doubts."""

from collections import Counter
from collections.abc import Iterable, Sequence

from django.utils.translation import gettext, gettext_noop

from assay_common.quantities import number
from methods.protocol import Series
from webapp.runs.controls import controls_of, unbeaten
from webapp.runs.models import Check, Run

STOPPED = {
    "narrow": gettext_noop("it ended when every interval was narrow enough"),
    "time": gettext_noop("it ended when its time was up"),
    "most": gettext_noop("it ended after the maximum number of processes"),
}
NOTHING = gettext_noop(
    "none: this preset only shows that everything runs. Its numbers are of the smallest sizes and "
    "too short to mean anything."
)


def findings(
    run: Run, series: Sequence[Series], checks: Sequence[tuple[str, Check]]
) -> dict[str, str]:
    """The lines that a run's page begins with, by name."""
    lines = {
        "Headline": headline(run, series),
        "Checks": _checks(checks),
        "Doubts": _doubts(run, series),
    }
    return {name: line for name, line in lines.items() if line}


def headline(run: Run, series: Iterable[Series]) -> str:
    """The headline of the first series that has a variant of ours; a smoke run has none."""
    if run.preset == "smoke":
        return gettext(NOTHING)
    controls = controls_of(run.method, run.benchmark)
    return next(filter(None, (_headline(one, controls) for one in series)), "")


def _headline(series: Series, controls: tuple[str, ...]) -> str:
    """The first variant of ours, compared with the baseline: at its last x without a doubt."""
    names = {variant.name: variant.label for variant in series.variants}
    ours = [variant.name for variant in series.variants if variant.ours]
    points = [point for point in series.points if point.variant in ours[:1]]
    if not points:
        return ""
    points = [point for point in points if not point.flags] or points
    last = max(points, key=lambda point: 0.0 if isinstance(point.x, str) else point.x)
    value = f"{number(last.estimate)} {series.y.unit}".strip()
    finding = f"{series.title}, {series.x.at(last.x)}: {names[last.variant]} {value}"
    if last.ratio is None or series.baseline is None:
        return finding
    ratio = last.ratio
    if ratio.verdict == "insufficient data":
        return f"{finding}: {gettext(ratio.verdict)}"
    timed = ratio.verdict in {"faster", "slower"}
    fast = gettext("%(times)s times as fast as %(baseline)s")
    compared = fast if timed else gettext("%(times)s times as good as %(baseline)s")
    words = {"times": f"{ratio.value:.2f}", "baseline": names[series.baseline]}
    between = f" ({ratio.low:.2f} – {ratio.high:.2f})" if ratio.low < ratio.high else ""
    said = f"{finding}, {compared % words}{between}: {gettext(ratio.verdict)}"
    control = unbeaten(series, last, controls) if ratio.verdict in {"faster", "better"} else None
    if control is None:
        return said
    # Else a reader takes for the mechanism's gain what its control gets as well.
    return said + gettext("; not better than its control: %(control)s") % {"control": control.label}


def _checks(checks: Sequence[tuple[str, Check]]) -> str:
    missed = [title for title, check in checks if not check.passed]
    if not checks:
        return ""
    if not missed:
        return gettext("%(number)d of %(number)d passed") % {"number": len(checks)}
    words = {"missed": len(missed), "number": len(checks), "first": missed[0]}
    return gettext("%(missed)d of %(number)d missed their bound: %(first)s") % words


def _doubts(run: Run, series: Sequence[Series]) -> str:
    """Flags by the number of points that have them, and why measuring stopped."""
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    counts = Counter(flag for point in points for flag in point.flags)
    each = gettext("%(flag)s at %(count)d of %(number)d points")
    parts = [
        each % {"flag": gettext(flag), "count": count, "number": len(points)}
        for flag, count in counts.most_common()
    ]
    result = run.result or {}
    line = "; ".join(parts) or gettext("none raised")
    if why := STOPPED.get(result.get("stopped", "")):
        words = {"number": result.get("processes"), "why": gettext(why)}
        line += gettext(". Measured in %(number)s processes: %(why)s") % words
    return line
