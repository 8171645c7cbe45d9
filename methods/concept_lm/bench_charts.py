"""What several benchmarks draw: quality against cost, and monitors over a training."""

import math
from collections.abc import Mapping, Sequence

from methods.concept_lm.baselines import Judgement
from methods.concept_lm.v3.monitors import Trace, measured
from methods.kit.report import Charts
from methods.protocol import Limit


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
    for declared in charts.told["series"]:
        monitor = declared.removeprefix("monitor_")
        if monitor == declared or not any(monitor in stats for _, _, stats in rows):
            continue
        told = charts.words(declared)
        limits = [
            Limit(label=label, points=((0.0, told[end]), (last, told[end])))
            for label, end in (("normal from", "low"), ("normal to", "high"))
            if end in told
        ]
        series = charts.open(declared, variants=variants, limits=limits)
        for name, step, stats in rows:
            if math.isfinite(stats.get(monitor, math.nan)):
                series.add_exact(step, {name: stats[monitor]})
    buckets = charts.open("monitor_buckets", variants=variants)
    for name, trace in traces.items():
        for i, value in enumerate(trace.stats[-1].buckets):
            buckets.add_exact(float(i), {name: value})
