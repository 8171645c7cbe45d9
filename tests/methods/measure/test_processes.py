"""Fresh processes that measure: joined, counted, stopped for a reason, and never left behind."""

import math
import shutil
import signal
import subprocess

import psutil
import pytest

from methods.context import Context
from methods.measure import processes
from methods.measure.statistics import exact_point, point, point_of_runs
from methods.params import TimedParams
from methods.protocol import Axis, CheckResult, Failed, Flag, Log, Progress, Result, Series, Variant
from methods.spec import Answer, Claim, Comparable
from tests.methods.conftest import TOYS, command, environment, lines
from tests.processes import wait_for


def run(cli, *settings: str):
    arguments = [part for one in settings for part in ("--set", one)]
    done = cli(
        "run", "toy.timed", "--device", "cpu", "--preset", "smoke", "--json", "-", *arguments
    )
    return done.returncode, [line.body for line in lines(done.stdout)]


def of(kind, bodies):
    return [body for body in bodies if isinstance(body, kind)]


def test_processes_are_joined_into_one_series(cli) -> None:
    code, bodies = run(cli, "processes=5")
    assert code == 0
    (shown,) = of(Series, bodies)
    slow, fast = shown.points
    assert slow.runs == pytest.approx((2.0, 2.2, 2.4, 2.6, 2.8))  # each of its own seed
    assert fast.ratio.runs == pytest.approx((2.0,) * 5)
    assert (fast.ratio.verdict, fast.flags) == ("faster", ())
    assert slow.low < slow.estimate < slow.high
    assert shown.estimator.startswith("geometric mean of 5 processes; 95 %")
    result = bodies[-1]
    assert isinstance(result, Result)
    assert (result.processes, result.stopped) == (5, "narrow")
    assert len(of(CheckResult, bodies)) == result.checks == 1  # once, not once a process
    assert len(of(Log, bodies)) == 1
    told = [body.message for body in of(Progress, bodies)]
    assert told[0].startswith("process 1: ")
    fractions = [body.fraction for body in of(Progress, bodies)]
    assert fractions == sorted(fractions)


def test_three_processes_are_too_few_for_a_verdict(cli) -> None:
    _, bodies = run(cli)
    (shown,) = of(Series, bodies)
    assert shown.points[1].ratio.verdict == "insufficient data"
    assert Flag.FEW in shown.points[1].flags
    assert Flag.ONE_PROCESS not in shown.points[1].flags


def test_processes_share_what_they_compile_where_nothing_may_stand_by_the_sources(
    tmp_path, monkeypatch
) -> None:
    """Each would compile torch and transformers anew, which takes longer than what it measures."""
    toys, scratch = tmp_path / "toys", tmp_path / "scratch"
    shutil.copytree(TOYS, toys, ignore=shutil.ignore_patterns("__pycache__"))
    scratch.mkdir()
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("TMPDIR", str(scratch))
    how = ["--set", "how=compiled", "--preset", "smoke", "--device", "cpu", "--json", "-"]
    done = subprocess.run(
        command("run", "toy.timed", *how), env=environment(toys), capture_output=True, text=True
    )
    *_, result = [line.body for line in lines(done.stdout)]
    assert (done.returncode, result.processes, result.checks) == (0, 3, 2)
    assert not [*toys.rglob("*.pyc")]
    assert not [*scratch.iterdir()]


@pytest.mark.parametrize(("seconds", "processes", "why"), [(0, 2, "time"), (600, 8, "most")])
def test_it_is_said_why_measuring_stopped(cli, seconds, processes, why) -> None:
    code, bodies = run(cli, "how=noisily", f"seconds={seconds}", "processes=2")
    assert (code, bodies[-1].processes, bodies[-1].stopped) == (0, processes, why)


def told(*ratios: float, flags=()) -> list[Series]:
    """The output of one process whose variants are so many times faster than the baseline."""
    points = tuple(
        point(f"v{i}", 1, [[1 / ratio]], direction="lower", baseline=[[1.0]], flags=flags)
        for i, ratio in enumerate(ratios)
    )
    variants = tuple(Variant(name=one.variant, label=one.variant) for one in points)
    axes = {"x": Axis(label="x"), "y": Axis(label="y")}
    return [
        Series(name="s", title="s", direction="lower", variants=variants, points=points, **axes)
    ]


def measured(monkeypatch, ratios, claims=(), **settings) -> tuple[processes.Measured, Series]:
    """`measure` over processes that would tell these ratios, one after another."""
    left = iter(ratios)
    monkeypatch.setattr(processes, "_events", lambda *_: told(*next(left)))
    ctx = Context("cpu", 0, lambda body: None)
    found = processes.measure(ctx, "trial.speed", TimedParams(**settings), claims)
    return found, ctx.release(partial=False)[0]


def test_intervals_are_looked_at_when_a_look_is_due(monkeypatch) -> None:
    """From the sixth process on they would be narrow at 95 %, at which nobody may look so often."""
    steady = [(1.98,), (2.02,), (1.97,), (2.03,), (2.0,), *[(2.0,)] * 15]
    found, series = measured(monkeypatch, steady, precision=0.02)
    assert (found.processes, found.stopped) == (10, "narrow")
    assert "drawn at 98.5 %" in series.estimator


def test_measuring_goes_on_until_a_claim_s_own_margin_is_resolved(monkeypatch) -> None:
    """Narrow enough for `precision`, but 1.1 times holds from 1.075 on."""
    answer = Answer(benchmark="speed", series="s", variant="v0", quantity="ratio")
    same = {"metric": "m", "comparable": Comparable.SAME, "answer": answer}
    asked = [Claim(id="c", text="t", value=1.1, **same)]
    ratios = [(1.08 + 0.01 * (-1) ** n,) for n in range(20)]
    assert measured(monkeypatch, ratios)[0].processes == 5
    assert measured(monkeypatch, ratios, asked)[0].processes == 20
    clear = [(1.12 + 0.01 * (-1) ** n,) for n in range(20)]
    assert measured(monkeypatch, clear, asked)[0].processes == 5


@pytest.mark.parametrize("order", [(1.0, 2.0), (2.0, 1.0)])
def test_the_largest_x_answers_a_claim_in_whatever_order_it_was_measured(order) -> None:
    """At 2 it is decided that 1.1 times holds, at 1 it is not."""
    answer = Answer(benchmark="speed", series="s", variant="v0", quantity="ratio")
    same = {"metric": "m", "comparable": Comparable.SAME, "answer": answer}
    ratios = {1.0: (1.02, 1.12, 1.05, 1.1, 1.08), 2.0: (1.3, 1.31, 1.3, 1.29, 1.3)}
    points = tuple(
        point_of_runs("v0", x, [1.0], [1.0] * 5, ratios[x], of="processes") for x in order
    )
    series = told(1.0)[0].model_copy(update={"points": points})
    claim = Claim(id="c", text="t", value=1.1, **same)
    assert processes.resolved([series], [claim], 0.99)


def test_measuring_goes_on_while_any_ratio_is_wide(monkeypatch) -> None:
    ratios = [(2.0, 1.5 + i % 2) for i in range(20)]
    found, _ = measured(monkeypatch, ratios)
    assert (found.processes, found.stopped) == (20, "most")


@pytest.mark.parametrize(("spent", "why"), [(490, ""), (510, "time")])
def test_no_process_begins_that_would_end_too_late(spent, why) -> None:
    assert processes._last(TimedParams(seconds=600), 5, spent) == why


def test_the_widest_interval_is_half_of_itself_to_either_side() -> None:
    one = told(2.0, 3.0)[0]
    ratios = [point.ratio.model_copy(update={"low": 1.9, "high": 2.1}) for point in one.points]
    ratios[1] = ratios[1].model_copy(update={"low": 2.8, "high": 3.4})
    pairs = zip(one.points, ratios, strict=True)
    points = tuple(point.model_copy(update={"ratio": ratio}) for point, ratio in pairs)
    found = processes.widest([one.model_copy(update={"points": points})])
    assert found == pytest.approx(math.log(3.4 / 2.8) / 2)


def test_a_process_is_the_median_of_its_blocks() -> None:
    """Blocks with medians of 1, 60 and 80; the median of all samples is 50."""
    blocks = [[1.0, 1.0, 50.0], [2.0, 60.0, 70.0], [3.0, 80.0, 90.0]]
    alone = point("v0", 1, blocks, direction="lower")
    series = told(2.0)[0].model_copy(update={"points": (alone,)})
    (joined,) = processes.join([[series]] * 3)
    assert joined.points[0].runs == pytest.approx((60.0,) * 3)
    assert joined.points[0].median == 50


def test_what_the_first_process_counted_alone_stands() -> None:
    counted = told(2.0)[0].model_copy(update={"name": "bytes"})
    point = exact_point("v0", 1, 7.0, direction="lower")
    bytes_ = counted.model_copy(update={"points": (point,)})
    joined = processes.join([[*told(2.0), bytes_], told(2.1), told(1.9)])
    assert {one.name: len(one.points[0].runs) for one in joined} == {"s": 3, "bytes": 0}
    assert joined[1].points == (point,)


@pytest.mark.parametrize(("raised", "stands"), [(1, False), (2, True)])
def test_a_doubt_stands_where_more_than_a_quarter_raise_it(raised, stands) -> None:
    runs = [told(2.0, flags=[Flag.BUSY] * (i < raised)) for i in range(5)]
    (series,) = processes.join(runs)
    assert (Flag.BUSY in series.points[0].flags) is stands


@pytest.mark.parametrize(
    ("how", "ended", "said"),
    [
        ("killed", (3, "killed", True), "ended without a result"),
        ("raising", (3, "error", True), "the method's own error"),
        ("wrong", (1, "check", False), "late: measured nan"),
    ],
)
def test_a_process_that_fails_ends_the_run_as_it_ended(cli, how, ended, said) -> None:
    code, bodies = run(cli, f"how={how}")
    failed = bodies[-1]
    assert isinstance(failed, Failed)
    assert (code, failed.kind, failed.partial) == ended
    assert said in failed.message
    assert bool(of(Series, bodies)) is ended[2]


def test_an_interrupted_run_leaves_no_process_behind(tmp_path) -> None:
    arguments = (
        "run",
        "toy.timed",
        "--device",
        "cpu",
        "--preset",
        "smoke",
        "--json",
        "-",
        "--set",
        "how=endless",
    )
    with subprocess.Popen(
        command(*arguments), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        seen = next(line for line in process.stdout if "process" in line and '"log"' in line)
        child = int(lines(seen)[0].body.text.split()[1])
        assert psutil.pid_exists(child)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    wait_for(lambda: not psutil.pid_exists(child), "its end")
    assert process.returncode == 130
