"""What several benchmarks draw: quality against cost, and monitors over a training."""

import math
from collections.abc import Mapping, Sequence

from methods.concept_lm.baselines import Judgement
from methods.concept_lm.v3.monitors import WORDS, Trace, measured
from methods.kit.report import Charts
from methods.protocol import Axis, Limit


def front(found: Mapping[str, Sequence[Judgement]]) -> dict[tuple[str, float], list[float]]:
    """Held-out bits a byte of each seed, by variant and operations a byte."""
    return {
        (name, sum(one.flops for one in judged) / len(judged)): [one.bits for one in judged]
        for name, judged in found.items()
    }


def draw_monitors(charts: Charts, traces: dict[str, Trace], listed: str) -> None:
    """A series for each monitor that was measured in `traces`, by variant; and NLL by position."""
    variants = charts.variants(listed, traces)
    rows = [
        (name, float(step), measured(stats))
        for name, trace in traces.items()
        for step, stats in zip(trace.steps, trace.stats, strict=True)
    ]
    last = max(step for _, step, _ in rows)
    for monitor, told in WORDS["monitors"].items():
        found = [(name, step, stats[monitor]) for name, step, stats in rows if monitor in stats]
        if not found:
            continue
        series = charts.ctx.series(
            f"monitor_{monitor}",
            told["title"],
            x=Axis(label="step", unit="steps"),
            y=Axis(label=told["title"].lower(), unit=told["unit"]),
            direction=told.get("direction", "higher"),
            variants=variants,
            limits=[
                Limit(label=label, points=((0.0, told[end]), (last, told[end])))
                for label, end in (("normal from", "low"), ("normal to", "high"))
                if end in told
            ],
        )
        for name, step, value in found:
            if math.isfinite(value):
                series.add_exact(step, {name: value})
    buckets = charts.open("monitor_buckets", variants=variants)
    for name, trace in traces.items():
        for i, value in enumerate(trace.stats[-1].buckets):
            buckets.add_exact(float(i), {name: value})
