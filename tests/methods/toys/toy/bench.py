"""The toy's benchmarks."""

import time

import torch

from methods.measure.statistics import point
from methods.protocol import Axis, Variant


def begin(ctx):
    ctx.check("sums", 1 + 1, 2, "==")
    return ctx.series(
        "speed",
        "Speed of nothing",
        x=Axis(label="n", scale="log"),
        y=Axis(label="time", unit="ms", scale="log"),
        direction="lower",
        variants=[
            Variant(name="slow", label="slow"),
            Variant(name="fast", label="ours", ours=True),
        ],
        baseline="slow",
    )


def add(series, n):
    slow, fast = [[2.0 * n], [2.1 * n]] * 3, [[1.0 * n]] * 6
    series.add(
        point("slow", n, slow, direction="lower"),
        point("fast", n, fast, direction="lower", baseline=slow),
    )


def right(ctx, params):
    print("a library that talks on standard output")
    series = begin(ctx)
    for n in range(1, params.n + 1):
        ctx.progress(n, params.n, f"n = {n}")
        ctx.log(f"at {n}")
        add(series, n)
    ctx.artefact("note.txt", "hello")


def wrong(ctx, params):
    add(begin(ctx), 1)
    ctx.check("late", float("nan"), 1.0)


def raising(ctx, params):
    add(begin(ctx), 1)
    raise ArithmeticError("the method's own error")


def unchecked(ctx, params):
    series = ctx.series(
        "s",
        "s",
        x=Axis(label="x"),
        y=Axis(label="y"),
        direction="lower",
        variants=[Variant(name="a", label="a")],
    )
    series.add(point("a", 1, [[1.0]], direction="lower"))


def silent(ctx, params):
    ctx.check("sums", 2, 2)


def endless(ctx, params):
    add(begin(ctx), 1)
    ctx.log("measuring")
    time.sleep(120)


def exhausted(ctx, params):
    add(begin(ctx), 1)
    torch.empty(2**50, dtype=torch.int8)


def petabyte(params, device):
    return 2**50 * params.n


def hungry(ctx, params):
    ctx.log("never reached")


def gpu_only(ctx, params):
    ctx.log("never reached")
