"""Results of a run for pages: charts, tables, checks, parameters, the command."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.utils.translation import gettext, gettext_noop, ngettext

from assay_common.quantities import number
from methods import charts, protocol
from methods.protocol import Point, Series
from methods.spec import Benchmark
from webapp.core.durations import duration
from webapp.runs.intervals import unbeaten, unmeasured
from webapp.runs.models import Check, Device, Run, RunFailure, State
from webapp.runs.queries import QueuePosition, benchmark_of, method_of
from webapp.runs.texts import flag_label, translate_spec
from webapp.runs.web.forms import written


def shown(series: protocol.Series, benchmark: Benchmark | None = None) -> dict[str, Any]:
    """A series with its conclusion and its charts, of which the first shows all at one place."""
    quantity: charts.Quantity = "ratio" if any(point.ratio for point in series.points) else "value"
    first, *further = charts.parts(series)
    of_ours = tuple(variant.name for variant in series.variants if variant.ours)[:1]
    drawn = {"series": series, "conclusion": _sentence(series, of_ours, None, benchmark)}
    if not further:
        return drawn | {"pictures": _pictures(first, quantity), "folded": ()}
    # More variants than lines can be told apart: their curves are for those who ask.
    curves = () if len({point.x for point in series.points}) == 1 else (first, *further)
    folded = [
        picture
        for place, part in enumerate(curves, 1)
        for picture in _pictures(part, quantity, f"{place}-")
    ]
    return drawn | {
        "pictures": _pictures(charts.forest(series), quantity, "all-"),
        "folded": tuple(folded),
    }


def _pictures(series: Series, quantity: charts.Quantity, ident: str = "") -> tuple[str, ...]:
    """Return the chart of a series, if any; `ident` sets its id apart from those of other parts."""
    try:
        name = f"{ident}{series.name}-{quantity}"
        return (charts.draw(series, quantity, standalone=False, ident=name, say=translate_spec),)
    except ValueError:  # a part may hold the baseline alone
        return ()


def x_text(x: float | str) -> str:
    """An x value as text."""
    return x if isinstance(x, str) else number(x)


def checks_of(run: Run) -> list[tuple[str, Check]]:
    """The checks of the current attempt with their titles, those that missed their bound first."""
    method = method_of(run)
    titles = {check.name: check.title for check in method.checks} if method else {}
    titles.setdefault("at_shape", gettext("At the sizes of this run"))
    checks = sorted(run.checks.all(), key=attrgetter("passed"))
    return [(titles.get(check.name, check.name.replace("_", " ")), check) for check in checks]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a run; `changed` where it differs from the preset."""

    name: str
    value: str
    unit: str
    changed: bool


def parameters_of(run: Run, preset: str = "") -> list[Parameter]:
    """The run's parameters; marked are those that differ from `preset`, by default its own."""
    benchmark = benchmark_of(run)
    infos = {info.name: info for info in benchmark.parameters()} if benchmark else {}
    usual: dict[str, Any] = {}
    if benchmark and (name := preset or run.preset) in benchmark.presets:
        usual = benchmark.preset(name, run.device).model_dump(mode="json")
    return [
        Parameter(
            name=name,
            value=written(value),
            unit=infos[name].unit if name in infos else "",
            changed=bool(usual) and usual.get(name) != value,
        )
        for name, value in run.params.items()
    ]


def command(run: Run) -> str:
    """The command that repeats the run anywhere: it names every parameter and the seed."""
    device = "cuda" if run.device == Device.GPU else "cpu"
    lines = ["python -m methods run", f"{run.method}.{run.benchmark}"]
    if run.preset:
        lines.append(f"--preset {run.preset}")
    for name, value in run.params.items():
        lines.append(f"--set {shlex.quote(f'{name}={written(value)}')}")
    lines.append(f"--seed {run.seed} --device {device}")
    return " \\\n  ".join(lines)


# A run's state in one line: title, icon and tone. `runs/state_explained.html` explains it.


# The icon of each tone, since colour is never the only sign.
ICONS = {
    "waiting": "waiting",
    "running": "stale",
    "good": "complete",
    "fair": "doubt",
    "bad": "failed",
    "none": "empty",
}
TONES: dict[str, str] = {  # by state; all others are "waiting"
    State.RUNNING: "running",
    State.SUCCEEDED: "good",
    State.FAILED: "bad",
    State.TIMED_OUT: "bad",
    State.CANCELLED: "none",
}
FAILURES = dict(RunFailure.choices) | {
    RunFailure.WORKER_LOST: "the worker was lost, twice",
    RunFailure.KILLED: "it was killed",
}


def title_of(run: Run, where: QueuePosition | None, *, behind: bool) -> str:
    """The state of `run` in a few words; `where` is its place in the queue."""
    if where:
        queued = gettext("Queued again") if run.attempt else gettext("Queued")
        waiting = _waiting_for(where, behind=behind)
        return gettext("%(queued)s, %(waiting)s") % {"queued": queued, "waiting": waiting}
    if run.state == State.RUNNING:
        named = gettext("Running on worker %(worker)s") % {"worker": run.worker}
        return named if run.worker else gettext("Running")
    if run.state == State.SUCCEEDED:
        succeeded = gettext("Succeeded in %(time)s") % {"time": took(run)}
        return "Published result" if run.imported else succeeded
    if run.state == State.FAILED:
        return f"Failed: {FAILURES[run.failure or 'error']}"
    if run.state == State.CANCELLED:
        after = gettext("Cancelled after %(time)s") % {"time": took(run)}
        return after if run.started_at else "Cancelled before it started"
    return run.get_state_display().capitalize()


def _waiting_for(where: QueuePosition, *, behind: bool) -> str:
    if not where.workers:
        return gettext("no connected worker can run this")
    if where.ahead:
        message = ngettext("%(number)d run before it", "%(number)d runs before it", where.ahead)
        return message % {"number": where.ahead}
    return gettext("behind another run of yours") if behind else gettext("next in line")


def look_of(run: Run, where: QueuePosition | None, series: Sequence[Series] = ()) -> dict[str, str]:
    """The tone and icon of a run's state.

    A run that no worker can serve is not simply "waiting", nor is one "good" whose every
    comparison is in doubt.
    """
    tone = TONES.get(run.state, "waiting")
    compared = [point for chart in series for point in chart.points if point.ratio]
    is_doubtful = bool(compared) and all(point.flags for point in compared)
    if (where and not where.workers) or (tone == "good" and is_doubtful):
        tone = "fair"
    return {"tone": tone, "icon": ICONS[tone]}


def took(run: Run) -> str:
    """Return a run's duration, as `41 s`; "" if it never started or has not ended."""
    if run.started_at is None or run.finished_at is None:
        return ""
    return duration((run.finished_at - run.started_at).total_seconds())


# A summary of a run in three lines: the headline, the checks, the doubts.


STOPPED = {
    "narrow": gettext_noop("stopped: precise enough"),
    "time": gettext_noop("stopped: time limit reached"),
    "most": gettext_noop("stopped: process limit reached"),
}
NOTHING = gettext_noop(
    "none: this run only shows that everything works. Its sizes are too small to measure anything."
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
    """Return the sentence that answers the question of a run; "" for a smoke run.

    It is about the variant of the mechanism that a paper asked for, the variant of the method's
    question, or the first of ours that was measured, controls last.
    """
    if run.preset == "smoke":
        return gettext(NOTHING)
    method, benchmark = method_of(run), benchmark_of(run)
    charts_by_name = {chart.name: chart for chart in series}
    question = method.question if method else None
    questions: list[tuple[Series, tuple[str, ...], float | str | None]] = []
    if method and run.mechanism:
        measured = [m.measured.get(run.benchmark, ()) for m in method.mechanisms]
        names = [m.slug for m in method.mechanisms]
        variants = dict(zip(names, measured, strict=True)).get(run.mechanism, ())
        questions = [(chart, variants[:1], None) for chart in charts_by_name.values()]
    elif question and question.benchmark == run.benchmark and question.series in charts_by_name:
        questions = [(charts_by_name[question.series], (question.variant,), question.x)]
    controls = benchmark.controls if benchmark else ()
    for chart in charts_by_name.values():
        measured_variants = {point.variant for point in chart.points}
        ours = (v.name for v in chart.variants if v.ours and v.name in measured_variants)
        questions.append((chart, tuple(sorted(ours, key=controls.__contains__))[:1], None))
    return next(filter(None, (_sentence(*question, benchmark) for question in questions)), "")


def _sentence(
    series: Series, variants: Sequence[str], x: float | str | None, benchmark: Benchmark | None
) -> str:
    """A variant compared with the baseline, at `x` or at its last x without a doubt."""
    names = {variant.name: _in_sentence(variant.label) for variant in series.variants}
    points = [point for point in series.points if point.variant in variants]
    if isinstance(x, str):
        x = translate_spec(x)  # as in the series
    points = [point for point in points if point.x == x] or points
    points = [point for point in points if not point.flags] or points
    if not points:
        return ""
    last = max(points, key=lambda point: 0.0 if isinstance(point.x, str) else point.x)
    values = {
        "variant": names[last.variant],
        "quantity": series.y.label,
        "x": series.x.at(last.x),
        "value": f"{number(last.estimate)} {series.y.unit}".strip(),
    }
    by_category = series.x.scale == "category"
    if last.ratio is None or series.baseline is None:
        if by_category:
            return gettext("%(variant)s, %(x)s: %(quantity)s %(value)s.") % values
        return gettext("%(variant)s at %(x)s: %(quantity)s %(value)s.") % values
    ratio = last.ratio
    values |= {"times": f"{ratio.value:.2f}", "baseline": names[series.baseline]}
    if ratio.verdict == "insufficient data":
        few = gettext("Too few runs to compare %(variant)s with %(baseline)s at %(x)s.")
        return few % values
    if ratio.verdict == "no difference shown" and by_category:
        line = gettext("No difference in %(quantity)s shown: %(variant)s and %(baseline)s, %(x)s")
    elif ratio.verdict == "no difference shown":
        line = gettext("No difference in %(quantity)s shown: %(variant)s and %(baseline)s at %(x)s")
    elif ratio.verdict in {"faster", "slower"}:
        line = gettext("%(variant)s is %(times)s times as fast as %(baseline)s at %(x)s")
    elif by_category:
        line = gettext(
            "%(variant)s is %(times)s times as good as %(baseline)s in %(quantity)s, %(x)s"
        )
    elif series.y.label == "size" and ratio.verdict == "better":
        line = gettext("%(variant)s is %(times)s times smaller than %(baseline)s at %(x)s")
    else:
        line = gettext(
            "%(variant)s is %(times)s times as good as %(baseline)s in %(quantity)s at %(x)s"
        )
    line %= values
    if ratio.low < ratio.high:
        between = gettext(" (95\u00a0%% interval %(low)s to %(high)s)")
        line += between % {"low": f"{ratio.low:.2f}", "high": f"{ratio.high:.2f}"}
    return line + _against_controls(series, last, benchmark)


def _against_controls(series: Series, point: Point, benchmark: Benchmark | None) -> str:
    """Return the end of the sentence, naming a control that the gain does not beat.

    Without it a reader would credit the mechanism with a gain that its control reaches as well.
    """
    if not point.ratio or point.ratio.verdict not in {"faster", "better"}:
        return gettext(".")
    if control := unbeaten(series, point, benchmark):
        line = gettext(", but not shown to be better than its control, %(control)s.")
    elif control := unmeasured(series, point, benchmark):
        line = gettext(". Its control, %(control)s, was not measured.")
    else:
        return gettext(".")
    return line % {"control": _in_sentence(control.label)}


def _in_sentence(label: str) -> str:
    """Return a label with what follows its comma in parentheses: "the base (same buffers)"."""
    name, comma, detail = label.partition(", ")
    return f"{name} ({detail})" if comma else label


def _checks(checks: Sequence[tuple[str, Check]]) -> str:
    missed = [title for title, check in checks if not check.passed]
    if not checks:
        return ""
    if not missed:
        return gettext("%(number)d of %(number)d passed") % {"number": len(checks)}
    values = {"missed": len(missed), "number": len(checks), "first": missed[0]}
    return gettext("%(missed)d of %(number)d missed their bound: %(first)s") % values


def _doubts(run: Run, series: Sequence[Series]) -> str:
    """Flags by the number of points that have them, and why measuring stopped."""
    points = [point for chart in series for point in chart.points]
    if not points:
        return ""
    counts = Counter(flag for point in points for flag in point.flags)
    each = gettext("%(flag)s at %(count)d of %(number)d points")
    parts = [
        each % {"flag": flag_label(flag), "count": count, "number": len(points)}
        for flag, count in counts.most_common()
    ]
    result = run.result or {}
    line = gettext("; ").join(parts) or gettext("none raised")
    if why := STOPPED.get(result.get("stopped", "")):
        values = {"number": result.get("processes"), "why": gettext(why)}
        line += gettext(". %(number)s processes, %(why)s") % values
    return line
