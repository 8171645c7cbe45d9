"""Charts that several benchmarks draw: quality against cost, and monitors over a training."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from methods.concept_lm.baselines import Judgement
from methods.concept_lm.v3.monitors import WORDS, Trace, measured
from methods.context import Context
from methods.kit.report import over_seeds
from methods.protocol import Axis, Limit, Variant


def draw_pareto(
    ctx: Context,
    name: str,
    title: str,
    found: dict[str, list[Judgement]],
    variants: list[Variant],
    *,
    baseline: str,
    caption: str,
) -> None:
    """A series of held-out bits a byte over operations a byte: what each seed found, by variant."""
    series = ctx.series(
        name,
        title,
        x=Axis(label="operations a byte, decoding", unit="operations"),
        y=Axis(label="held-out text", unit="bits a byte", least=0.0),
        direction="lower",
        variants=variants,
        baseline=baseline,
        caption=caption,
    )
    reference = [judged.bits for judged in found[baseline]]
    for variant, judged in found.items():
        cost = sum(one.flops for one in judged) / len(judged)
        bits = [one.bits for one in judged]
        against = None if variant == baseline else reference
        series.add(over_seeds(variant, cost, bits, direction="lower", baseline=against))


def draw_seeds(
    ctx: Context,
    name: str,
    title: str,
    y: Axis,
    variants: list[Variant],
    *,
    found: Mapping[str, Mapping[str, Sequence[float]]],
    along: str,
    direction: Literal["lower", "higher"] = "lower",
    limits: Mapping[str, float] | None = None,
    caption: str = "",
) -> None:
    """A series over categories: what the seeds found, by variant and category.

    `along` names the categories; `limits` are lines at one height over all of them.
    """
    categories = list(next(iter(found.values())))
    series = ctx.series(
        name,
        title,
        x=Axis(label=along, scale="category"),
        y=y,
        direction=direction,
        variants=variants,
        limits=[
            Limit(label=label, points=tuple((category, height) for category in categories))
            for label, height in (limits or {}).items()
        ],
        caption=caption,
    )
    for variant, by_category in found.items():
        for category, values in by_category.items():
            series.add(over_seeds(variant, category, values))


def draw_monitors(ctx: Context, traces: dict[str, Trace], variants: list[Variant]) -> None:
    """One series for each monitor that was measured, and one for NLL by position.

    Args:
        ctx: where the series go.
        traces: by the name of a variant.
        variants: those to draw; each has its trace.
    """
    steps = float(max(trace.steps[-1] for trace in traces.values()))
    found = {name for trace in traces.values() for stats in trace.stats for name in measured(stats)}
    for name, monitor in WORDS["monitors"].items():
        if name not in found:
            continue
        series = ctx.series(
            f"monitor_{name}",
            monitor["title"],
            x=Axis(label="step", unit="steps"),
            y=Axis(label=monitor["title"].lower(), unit=monitor["unit"]),
            direction=monitor.get("direction", "higher"),
            variants=variants,
            limits=[
                Limit(label=label, points=((0.0, bound), (steps, bound)))
                for label, end in (("normal from", "low"), ("normal to", "high"))
                if (bound := monitor.get(end)) is not None
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
