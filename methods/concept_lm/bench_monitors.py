"""Monitors drawn over the steps of a training, with their normal bands."""

import math

from methods.concept_lm.v3.monitors import BANDS, Trace, measured
from methods.context import Context
from methods.protocol import Axis, Limit, Variant

TITLES = {
    "shuffled": ("Lost under another text's concepts", "nats a token"),
    "masked": ("Lost under no concepts", "nats a token"),
    "random": ("Lost under random concepts", "nats a token"),
    "gain": ("Gain over no concepts", "nats a token"),
    "own": ("Gain of the planner's own plan", "nats a token"),
    "margin": ("Margin of the best candidate", "nats"),
    "flips": ("Plans that changed", "share"),
    "staleness": ("Staleness of kept plans", "nats"),
    "entropy": ("Planner's entropy", "share of ln V"),
    "max_prob": ("Planner's highest probability", "probability"),
    "agreement": ("Soft and hard concepts agree", "cosine"),
    "grad_norm": ("Planner's gradient", "norm"),
    "codes": ("Codes in use", "share"),
}
LOW_IS_GOOD = ("flips", "staleness", "grad_norm")


def draw_monitors(ctx: Context, traces: dict[str, Trace], variants: list[Variant]) -> None:
    """One series for each monitor that was measured, and one for NLL by position.

    Args:
        ctx: where the series go.
        traces: by the name of a variant.
        variants: those to draw; each has its trace.
    """
    steps = float(max(trace.steps[-1] for trace in traces.values()))
    found = {name for trace in traces.values() for stats in trace.stats for name in measured(stats)}
    for name, (title, unit) in TITLES.items():
        if name not in found:
            continue
        low, high = BANDS.get(name, (None, None))
        series = ctx.series(
            f"monitor_{name}",
            title,
            x=Axis(label="step", unit="steps"),
            y=Axis(label=title.lower(), unit=unit),
            direction="lower" if name in LOW_IS_GOOD else "higher",
            variants=variants,
            limits=[
                Limit(label=label, points=((0.0, bound), (steps, bound)))
                for label, bound in (("normal from", low), ("normal to", high))
                if bound is not None
            ],
        )
        for variant in variants:
            trace = traces[variant.name]
            for step, stats in zip(trace.steps, trace.stats, strict=True):
                value = measured(stats).get(name, math.nan)
                if math.isfinite(value):
                    series.add_exact(float(step), {variant.name: value})
    buckets = ctx.series(
        "monitor_buckets",
        "NLL by position",
        x=Axis(label="bucket of positions"),
        y=Axis(label="NLL", unit="nats a token"),
        direction="lower",
        variants=variants,
    )
    for variant in variants:
        for i, value in enumerate(traces[variant.name].stats[-1].buckets):
            buckets.add_exact(float(i), {variant.name: value})
