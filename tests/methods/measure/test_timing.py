"""Blocks are interleaved, everything is kept, and what is slower is found slower."""

import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain, count, pairwise, repeat
from typing import Literal

import pytest
import torch

from methods.context import Context
from methods.measure import environment, timing
from methods.measure.timing import Comparison, compare, machine_flags, time_all, warm_up
from methods.params import TimedParams
from methods.protocol import Axis, Flag, MachineState, Progress, Series, Variant


@pytest.fixture
def last(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass by the wall's clock, which stands otherwise: a machine's load moves none."""
    passed = [0.0]
    monkeypatch.setitem(timing._CPU_CLOCKS, "wall", lambda: sum(passed))
    return passed.append


def test_a_call_twice_as_long_is_found_to_be(last: Callable[[float], None]) -> None:
    timings = compare(
        {"long": lambda: last(0.08), "short": lambda: last(0.04)},
        blocks=6,
        samples=2,
        max_warm_up_s=0.2,
    )
    long, short = timings.points(1024, baseline="long")
    assert long.ratio is None
    assert short.ratio is not None
    assert short.ratio.verdict == "insufficient data"  # it is one process
    assert Flag.ONE_PROCESS in short.flags
    assert short.ratio.value == pytest.approx(2)
    assert short.median == pytest.approx(40)  # milliseconds
    assert len(short.samples) == 12
    assert long.median == pytest.approx(80)


@pytest.mark.parametrize("cpu_clock", ["wall", "process"])
@pytest.mark.parametrize("tick", [0.0, 0.01])
def test_a_tiny_call_is_timed_within_bounds_of_the_walls_clock(
    cpu_clock: Literal["wall", "process"], tick: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock of processor time may move in steps that a tiny call never reaches."""
    calls = 0

    def tiny() -> None:
        nonlocal calls
        calls += 1

    def seconds() -> float:  # that the calls take, whatever else the machine does meanwhile
        passed = calls * 1e-7
        return passed // tick * tick if tick else passed

    monkeypatch.setitem(timing._CPU_CLOCKS, cpu_clock, seconds)
    torch.set_num_threads(1)
    timings = compare({"tiny": tiny}, cpu_clock=cpu_clock, blocks=5, max_warm_up_s=0.1)
    assert calls < 50_000_000
    assert all(sample < 1e-5 for block in timings.blocks["tiny"] for sample in block)


def test_a_call_that_only_waits_is_timed_within_bounds_by_processor_time() -> None:
    torch.set_num_threads(1)
    called = Counter()

    def wait() -> None:
        called["wait"] += 1
        time.sleep(0.002)

    timings = compare({"waits": wait}, cpu_clock="process", blocks=5, max_warm_up_s=0.1)
    assert called["wait"] < 2_500  # and not until it had used as much processor time as a sample
    assert all(point.median > 0 for point in timings.points(1, work=1))


def test_work_a_second_is_better_when_higher(last: Callable[[float], None]) -> None:
    timings = compare(
        {"long": lambda: last(0.04), "short": lambda: last(0.02)},
        blocks=5,
        samples=1,
        max_warm_up_s=0.1,
    )
    _, short = timings.points(1, baseline="long", work=100)
    assert short.median == pytest.approx(100 / 0.02)
    assert short.ratio is not None
    assert short.ratio.value == pytest.approx(2)


def test_variants_alternate_within_every_block() -> None:
    called: list[str] = []
    started: list[int] = []

    def call(name: str):
        def run() -> None:
            called.append(name)
            time.sleep(0.001)

        return run

    heard: list[tuple[int, int]] = []
    names = ["a", "b", "c"]
    compare(
        {name: call(name) for name in names},
        blocks=6,
        samples=1,
        min_sample_s=0,
        max_warm_up_s=0,
        on_block=lambda done, of: (heard.append((done, of)), started.append(len(called))),
    )
    assert heard == [(k, 6) for k in range(1, 7)]
    bounds = [6, *started]  # two warm-up calls a variant come first
    blocks = [called[a:b] for a, b in pairwise(bounds)]
    assert all(sorted(block) == sorted(names * 2) for block in blocks)
    orders = [block[::2] for block in blocks]
    assert len({tuple(found) for found in orders}) > 1


def test_a_call_that_lasts_needs_no_call_before_it(monkeypatch, last) -> None:
    """Caches that other variants filled are refilled within a moment of the call."""
    called = Counter()
    monkeypatch.setattr(timing, "REFILLED_S", 0.004)
    waits = {"long": 0.008, "short": 0.001}

    def call(name: str) -> None:
        called[name] += 1
        last(waits[name])

    calls = {name: partial(call, name) for name in waits}
    compare(calls, blocks=5, samples=1, min_sample_s=0, max_warm_up_s=0)
    assert called == {"long": 2 + 5, "short": 2 + 5 * 2}


def test_warm_up_goes_on_until_the_times_are_steady() -> None:
    falling = iter([5.0, 4.0, 3.0, 2.0, 1.5, *[1.0] * 10, 9.0])
    assert warm_up(lambda: next(falling)) == (1.0, True)
    assert next(falling) == 1.0  # the later of the ten before it had one slow call at most
    assert warm_up(iter([*[1.0] * 4, 3.0, *[1.0] * 5]).__next__) == (1.0, True)


def test_short_calls_warm_up_for_a_third_of_a_second_and_not_for_ten_calls() -> None:
    """Ten calls of a millisecond are over before a processor has changed its clock rate."""
    called = 0

    def call() -> float:
        nonlocal called
        called += 1
        return 0.001 if called < 200 else 0.0005

    assert warm_up(call) == (0.0005, True)
    assert called >= 450


def test_scatter_without_a_trend_is_no_unsteady_warm_up() -> None:
    scattered = itertools.cycle([0.01, 0.03, 0.012, 0.02, 0.035, 0.011, 0.028])
    assert warm_up(scattered.__next__)[1]


@pytest.mark.parametrize("change", [0.98, 1.02])
def test_a_trend_is_no_steady_time(change: float) -> None:
    times = (change**n for n in count())
    least, steady = warm_up(lambda: (time.sleep(0.001), next(times))[1], limit_s=0.1)
    assert not steady
    assert least > 0


@pytest.mark.parametrize(("second", "steady"), [(1.04, True), (1.06, False), (0.9, False)])
def test_of_calls_that_take_long_two_must_do(second: float, steady: bool) -> None:
    times = iter([1.0, second])
    assert warm_up(times.__next__, limit_s=0) == (min(1.0, second), steady)


def test_an_unsteady_variant_casts_no_doubt_on_the_others(last: Callable[[float], None]) -> None:
    """Only on itself, and on what is held against it."""
    waits = chain([0.001, 0.01], repeat(0.003))
    timings = compare(
        {"slower": lambda: last(next(waits)), "a": partial(last, 0.003), "b": partial(last, 0.003)},
        blocks=5,
        samples=1,
        min_sample_s=0,
        max_warm_up_s=0,
    )
    assert timings.unsteady == {"slower"}

    def doubted(baseline: str) -> set[str]:
        points = timings.points(1, baseline=baseline)
        return {point.variant for point in points if Flag.UNSTEADY in point.flags}

    assert doubted("a") == {"slower"}
    assert doubted("slower") == {"slower", "a", "b"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"blocks": 4}, "at least 5 blocks"),
        ({"samples": 0}, "nothing to time"),
        ({"variants": {}}, "nothing to time"),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compare(**{"variants": {"a": lambda: None}, **wrong})


def test_process_time_is_for_one_thread() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ValueError, match="set_num_threads"):
            compare({"a": lambda: None}, cpu_clock="process")
        torch.set_num_threads(1)
        timings = compare(
            {"a": lambda: time.sleep(0.005)},
            cpu_clock="process",
            blocks=5,
            min_sample_s=0,
            max_warm_up_s=0.1,
        )
        assert timings.points(1)[0].median < 4  # sleeping takes no processor time
    finally:
        torch.set_num_threads(threads)


def test_the_machines_readings_raise_doubts() -> None:
    calm = MachineState(gpu_mhz=1900.0, gpu_throttled=False, gpu_other_processes=0)
    assert machine_flags(calm, calm) == ()
    assert machine_flags(MachineState(), MachineState()) == ()
    fallen = calm.model_copy(update={"gpu_mhz": 1500.0})
    assert machine_flags(calm, fallen) == (Flag.THROTTLED,)
    crowded = calm.model_copy(update={"gpu_other_processes": 1, "gpu_throttled": True})
    assert machine_flags(calm, crowded) == (Flag.THROTTLED, Flag.SHARED)


@pytest.mark.parametrize(
    ("after", "flags"),
    [
        ({"cpu_elsewhere": 0.2}, (Flag.BUSY,)),
        ({"cpu_elsewhere": 0.02, "cpu_stolen": 0.001}, ()),
        ({"cpu_stolen": 0.05}, (Flag.STOLEN,)),
        ({"cpu_throttled_s": 0.1}, (Flag.THROTTLED,)),
        ({"cpu_mhz": 1500.0}, (Flag.THROTTLED,)),
        ({"cpu_elsewhere": 0.09, "cpu_stolen": 0.009, "cpu_mhz": 2300.0}, ()),
        ({"cpu_elsewhere": 0.11}, (Flag.BUSY,)),
        ({"cpu_stolen": 0.011}, (Flag.STOLEN,)),
        ({"cpu_mhz": 2200.0}, (Flag.THROTTLED,)),
    ],
)
def test_what_others_took_of_the_processor_raises_doubts(after, flags) -> None:
    before = MachineState(cpu_mhz=2500.0)
    state = MachineState(**{"cpu_mhz": 2500.0, **after})
    assert machine_flags(before, state) == flags


def test_a_busy_neighbour_is_seen() -> None:
    """Another process burns the one processor that both may use, while we sleep."""
    burn = "print('burns', flush=True)\nwhile True: pass"
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE) as neighbour:
            try:
                assert neighbour.stdout is not None
                neighbour.stdout.readline()
                since = environment.CpuTimes.now()
                if since is None:
                    pytest.fail("this system does not tell processor times")
                time.sleep(1.0)
                state = environment.machine_state(since=since)
            finally:
                neighbour.kill()
    finally:
        os.sched_setaffinity(0, allowed)
    assert state.cpu_elsewhere is not None
    assert state.cpu_elsewhere > 0.1


def test_comparisons_are_timed_in_turn_with_progress_of_their_own() -> None:
    events: list[object] = []
    ctx = Context("cpu", 0, events.append)
    ctx.check("one", 1, 1)
    series = ctx.series(
        Series(
            name="s",
            title="Sleep",
            x=Axis(label="n", unit="things"),
            y=Axis(label="time", unit="ms"),
            direction="lower",
            variants=(Variant(name="a", label="a"), Variant(name="b", label="b")),
            baseline="a",
        )
    )
    built: list[int] = []

    def build(n: int):
        built.append(n)
        return {"a": lambda: time.sleep(0.002), "b": lambda: time.sleep(0.001)}

    shown_twice = [(series, 3.0)]  # of the second
    calls = [Comparison(series, 1.0, partial(build, 1))]
    calls.append(Comparison(series, 2.0, partial(build, 2), also=shown_twice))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # on one, sleeping would take no time
    try:
        time_all(ctx, iter(calls), TimedParams(max_warm_up_s=0), baseline="a")
    finally:
        torch.set_num_threads(threads)
    assert built == [1, 2]
    (shown,) = ctx.release(partial=False)
    assert {(point.variant, point.x) for point in shown.points} == {
        (name, x) for name in "ab" for x in (1.0, 2.0, 3.0)
    }
    at = {(point.variant, point.x): point.samples for point in shown.points}
    assert at["a", 3.0] == at["a", 2.0] != at["a", 1.0]
    done = [event for event in events if isinstance(event, Progress)]
    assert done[-1].fraction == 1
    assert done[0].message == "Sleep, 1 thing"


@pytest.mark.parametrize(
    ("unit", "least", "most"),
    [("s", 0.002, 0.2), ("ms", 2.0, 200.0), ("µs", 2e3, 2e5), ("\u03bcs", 2e3, 2e5)],
)
def test_times_are_in_the_unit_of_their_series(unit: str, least: float, most: float) -> None:
    ctx = Context("cpu", 0, lambda event: None)
    ctx.check("right", 0.0, 0.0)
    series = ctx.series(Series(
        name="times", title="Sleep", x=Axis(label="things"), y=Axis(label="time", unit=unit),
        direction="lower", variants=(Variant(name="a", label="a"),),
    ))  # fmt: skip
    one = Comparison(series, 1.0, lambda: {"a": lambda: time.sleep(0.002)})
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # on one, sleeping would take no time
    try:
        time_all(ctx, [one], TimedParams(max_warm_up_s=0), baseline="a")
    finally:
        torch.set_num_threads(threads)
    (shown,) = ctx.release(partial=False)
    assert least <= shown.points[0].median < most


def test_a_series_that_is_of_no_time_is_refused() -> None:
    timings = compare({"a": lambda: None}, blocks=5, samples=1, max_warm_up_s=0)
    with pytest.raises(ValueError, match="s, ms, µs or ns"):
        timings.points(1, unit="MiB")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_larger_product_takes_longer_on_the_gpu() -> None:
    a, b = (torch.randn(n, n, device="cuda") for n in (4096, 2048))
    timings = compare({"large": lambda: a @ a, "small": lambda: b @ b}, device="cuda")
    _, small = timings.points(1, baseline="large")
    assert small.ratio is not None
    assert small.ratio.value > 1
