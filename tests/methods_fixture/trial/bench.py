"""The benchmarks of the trial method."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from methods.context import Context
from methods.protocol import Axis, Point, Series, Variant


def sleep(context: Context, params) -> None:
    """Sleep in steps and report how long each took."""
    series = begin(context)
    if params.words:
        context.log(params.words)
    for step in range(params.steps):
        started = time.perf_counter()
        time.sleep(params.seconds / params.steps)
        took = time.perf_counter() - started
        spread = dict.fromkeys(("median", "q1", "q3", "low", "high"), took)
        series.add(Point(variant="clock", x=float(step), samples=(took,), **spread))
        context.progress(step + 1, params.steps, f"step {step + 1}")


def begin(context: Context):
    context.check("clock_runs", time.perf_counter() > 0, True, "==")
    return context.series(
        Series(
            name="latency",
            title="How long a sleep takes",
            x=Axis(label="step"),
            y=Axis(label="time", unit="s"),
            direction="lower",
            variants=(Variant(name="clock", label="clock", ours=True),),
        )
    )


def misbehave(context: Context, params) -> None:
    begin(context)
    FAULTS[params.how](context, params.seconds)


def ignores_term(_context: Context, seconds: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(seconds)


def forks_grandchildren(context: Context, seconds: float) -> None:
    """Leave sleepers behind: one in a session of its own, one orphaned, one that forks on."""
    for own_session in (True, False):
        if os.fork() == 0:
            if own_session:
                os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(seconds)
            os._exit(0)
    context.log("forked")
    measure_one(context)
    time.sleep(1.0)  # a test that stops the reaper must come before the end that it waits for


def measure_one(context: Context) -> None:
    spread = dict.fromkeys(("median", "q1", "q3", "low", "high"), 1.0)
    context._series["latency"].add(Point(variant="clock", x=0.0, samples=(1.0,), **spread))


def fills_log(context: Context, _seconds: float) -> None:
    for line in range(15_000):  # more than a mebibyte
        print(f"\x1b[31mline {line}\x1b[0m \x07" + "x" * 80)  # goes to standard error
    measure_one(context)


def writes_garbage(context: Context, _seconds: float) -> None:
    for garbage in (
        b"not json\n",
        b"{}\n",
        b'{"v": 1, "seq": 0, "kind": "result", "body": {"duration": "NaN"}}\n',
        b'{"v": 9, "kind": "started"}\n',
        b"\xff\xfe\x00 binary \x80\n",
        b"[" * 2_000 + b"\n",
        b"half a line",
        b"\n",
    ):
        os.write(1, garbage)
    measure_one(context)


def exits_silently(_context: Context, _seconds: float) -> None:
    os._exit(0)


def eats_memory(_context: Context, seconds: float) -> None:
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 20) * 16))


def prints_environment(context: Context, _seconds: float) -> None:
    """Everything a curious benchmark can read of its surroundings."""
    context.log("\n".join(f"{name}={value}" for name, value in os.environ.items()))
    for process in sorted(Path("/proc").glob("[0-9]*")):
        try:
            seen = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if os.getppid() == int(process.name):
            context.log(seen.replace(b"\0", b"\n").decode(errors="replace"))
    measure_one(context)


def raises(_context: Context, _seconds: float) -> None:
    raise ArithmeticError("the sum does not add up <script>alert(1)</script>")


def crashes(_context: Context, _seconds: float) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def sends_too_much(context: Context, _seconds: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes to its result before it is ended
    for number in range(20):
        context.artefact(f"big{number}.txt", "x" * 900_000)
    measure_one(context)


def claims_another_check(context: Context, _seconds: float) -> None:
    context.checks += 1
    measure_one(context)


def endless_line(context: Context, _seconds: float) -> None:
    for _ in range(64):
        os.write(1, b"x" * (1 << 17))
    os.write(1, b"\n")
    measure_one(context)


def writes_elsewhere(context: Context, _seconds: float) -> None:
    """Say where it can write: beside its own directory, in the checkout, in the worker's home."""
    places = {
        "its own directory": Path("tmp/written"),
        "the checkout": Path(__file__).with_name("written"),
        "beside its directory": Path("../written"),
        "the worker": Path("/proc", str(os.getppid()), "root", "written-by-a-benchmark"),
    }
    for name, place in places.items():
        try:
            place.write_text("written")
        except OSError as error:
            context.log(f"{name}: {type(error).__name__}")
        else:
            context.log(f"{name}: written")
            place.unlink()
    context.log(f"as user {os.geteuid()}")
    measure_one(context)


FAULTS: dict[str, Callable[[Context, float], None]] = {
    function.__name__: function
    for function in (
        ignores_term,
        forks_grandchildren,
        fills_log,
        writes_garbage,
        exits_silently,
        eats_memory,
        prints_environment,
        raises,
        crashes,
        sends_too_much,
        claims_another_check,
        endless_line,
        writes_elsewhere,
    )
}
assert sys.platform == "linux"
