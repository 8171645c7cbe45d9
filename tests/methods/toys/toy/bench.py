"""The toy's benchmarks."""

import os
import signal
import time
from pathlib import Path

from methods.measure.statistics import point, point_of_runs
from methods.protocol import Axis, Series, Variant


def begin(ctx):
    ctx.check("sums", 1 + 1, 2, "==")
    return ctx.series(
        Series(
            name="speed",
            title="Speed of nothing",
            x=Axis(label="n", scale="log"),
            y=Axis(label="time", unit="ms", scale="log"),
            direction="lower",
            variants=(
                Variant(name="slow", label="slow"),
                Variant(name="fast", label="ours", ours=True),
            ),
            baseline="slow",
        )
    )


def add(series, n):
    slow, fast = [2.0 * n, 2.1 * n] * 3, [1.0 * n] * 6  # as of six processes
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    series.add(
        point_of_runs("slow", n, slow, slow, [], of="processes"),
        point_of_runs("fast", n, fast, fast, ratios, of="processes"),
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
        Series(
            name="s",
            title="s",
            x=Axis(label="x"),
            y=Axis(label="y"),
            direction="lower",
            variants=(Variant(name="a", label="a"),),
        )
    )
    series.add(point("a", 1, [[1.0]], direction="lower"))


def silent(ctx, params):
    ctx.check("sums", 2, 2)


def endless(ctx, params):
    add(begin(ctx), 1)
    ctx.log("measuring")
    time.sleep(3600)


def exhausted(ctx, params):
    add(begin(ctx), 1)
    import torch

    torch.empty(2**50, dtype=torch.int8)


def late(ctx, params):
    import torch

    add(begin(ctx), torch.initial_seed())


def petabyte(params, device):
    return 2**50 * params.n


def hungry(ctx, params):
    ctx.log("never reached")


def gpu_only(ctx, params):
    ctx.log("never reached")


def timed(ctx, params):
    """The variant's ratio is 2 in every process; the times differ from process to process."""
    print("a library that talks on standard output")
    series = begin(ctx)
    speed = 1.0 + ctx.seed / 10
    slow, fast = [[2.0 * speed]] * 6, [[1.0 * speed]] * 6
    if params.how == "noisily":
        fast = [[speed * (1 + 0.5 * (ctx.seed % 2))]] * 6
    if params.how == "killed" and ctx.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if params.how == "raising" and ctx.seed == 1:
        raise ArithmeticError("the method's own error")
    if params.how == "wrong":
        ctx.check("late", float("nan"), 1.0)
    if params.how == "compiled":
        ctx.check("compiled", Path(__spec__.cached).is_file(), True)
    if params.how == "endless":
        ctx.log(f"process {os.getpid()}")
        time.sleep(3600)
    ctx.progress(1, 2, "half")
    ctx.log(f"process {os.getpid()}")
    series.add(
        point("slow", 1, slow, direction="lower"),
        point("fast", 1, fast, direction="lower", baseline=slow),
    )
