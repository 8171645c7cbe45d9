"""Intervals cover, verdicts do not cry wolf: on distributions with known answers."""

import itertools
import math

import numpy as np
import pytest

from methods.measure.processes import confidence_at
from methods.measure.statistics import (
    Interval,
    block_ratio,
    exact_point,
    geometric_interval,
    hold_together,
    mean_interval,
    noise_flags,
    over_seeds,
    point,
    point_of_runs,
    verdict,
    with_intervals,
)
from methods.protocol import Axis, Flag, Series, Variant
from tests.methods.measure.coverage import (
    INDEPENDENT,
    MACHINES,
    Word,
    processes,
    simulate,
    verdicts,
)


def series(points, **axis):
    names = dict.fromkeys(point.variant for point in points)
    return Series(
        name="s",
        title="S",
        x=Axis(label="x"),
        y=Axis(label="y", **axis),
        direction="lower",
        variants=tuple(Variant(name=name, label=name) for name in names),
        points=tuple(points),
    )


@pytest.mark.parametrize("machine", INDEPENDENT, ids=lambda machine: machine.name)
def test_five_processes_cover_the_true_ratio(machine) -> None:
    """`tests.methods.measure.coverage` prints the whole table; here 300 charts of a comparison."""
    covered = simulate(machine, charts=300, comparisons=1, stopping=False, ratio=1.3, seed=1)
    assert covered >= 0.91  # 93 % less twice the error of 300


@pytest.mark.parametrize("machine", INDEPENDENT, ids=lambda machine: machine.name)
def test_stopping_when_intervals_are_narrow_costs_no_coverage(machine) -> None:
    covered = simulate(machine, charts=300, comparisons=1, stopping=True, ratio=1.0, seed=3)
    assert covered >= 0.95  # looking at plain intervals covers 0.92


def test_the_errors_of_all_looks_are_those_of_one() -> None:
    due = {runs: confidence_at(runs, 5, last=runs == 20) for runs in range(5, 21)}
    seen = {runs: sure for runs, sure in due.items() if sure is not None}
    assert list(seen) == [5, 10, 20]
    assert sum(1 - sure for sure in seen.values()) == pytest.approx(0.05)
    assert min(seen[5], seen[10]) > 0.95
    # One look that is the last has all of it, at whatever number the time ends.
    assert confidence_at(5, 5, last=True) == pytest.approx(0.95)
    assert confidence_at(5, 5, last=False) == pytest.approx(0.99)
    assert confidence_at(7, 5, last=False) is None
    assert confidence_at(7, 5, last=True) == pytest.approx(0.96)


def test_a_chart_of_many_equal_variants_shows_no_false_difference() -> None:
    shares = [
        simulate(machine, charts=40, comparisons=20, stopping=False, ratio=1.0, seed=2)
        for machine in (MACHINES[0], MACHINES[5])
    ]
    assert min(shares) >= 0.875


def test_a_true_difference_is_seen() -> None:
    """Two in ten faster, with 3 % of a process: an interval that covers all is no use."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(200):
        runs = list(itertools.islice(processes(MACHINES[5], rng, 1.2), 5))
        seen += geometric_interval(runs).low > 1
    assert seen >= 190


def test_shared_drift_and_a_spike_cancel() -> None:
    drift = np.exp(np.linspace(0, 1, 10))[:, None]
    assert block_ratio(2 * drift, 3 * drift, "lower") == pytest.approx(1.5)
    ours = 2 * drift
    ours[3] *= 50
    assert block_ratio(ours, 3 * drift, "lower") == pytest.approx(1.5)


def test_a_ratio_above_one_is_better_whichever_way_is_better() -> None:
    assert block_ratio([[2.0]] * 5, [[6.0]] * 5, "lower") == pytest.approx(3)
    assert block_ratio([[6.0]] * 5, [[2.0]] * 5, "higher") == pytest.approx(3)
    assert block_ratio([[0.0]] * 5, [[2.0]] * 5, "higher") is None
    with pytest.raises(ValueError, match="cannot be paired"):
        block_ratio([[1.0]] * 5, [[2.0]] * 6, "lower")


def test_an_interval_needs_values_and_widens_with_comparisons() -> None:
    assert mean_interval([2.0]).low == 2.0
    alone, among = mean_interval([1.0, 2.0, 4.0, 3.0]), mean_interval([1.0, 2.0, 4.0, 3.0], 40)
    assert among.low < alone.low < alone.value < alone.high < among.high
    # Bonferroni's, which Sidak's is just inside of: t(3) at 1 - 0.05 / 80.
    assert (among.high - among.value) / (alone.high - alone.value) == pytest.approx(3.75, abs=0.02)
    for wrong in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            mean_interval(wrong)


def test_one_process_is_one_observation() -> None:
    found = point("a", 4096, [[1.0, 3.0], [2.0, 2.0]], direction="lower", baseline=[[4.0]] * 2)
    assert (found.samples, found.median, found.q1, found.q3) == ((1, 3, 2, 2), 2, 1.75, 2.25)
    assert {Flag.FEW, Flag.ONE_PROCESS} <= set(found.flags)
    assert (found.runs, found.estimate) == ((2.0,), 2.0)
    assert found.ratio.runs == (2.0,)
    assert found.ratio.verdict == "insufficient data"


def test_five_processes_make_a_verdict() -> None:
    runs = [1.0, 1.1, 0.9, 1.05, 0.95]
    found = with_intervals(
        point_of_runs("a", 1, runs, runs, [2.0, 2.1, 1.9, 2.0, 2.0], of="processes")
    )
    assert found.flags == ()
    assert found.ratio.verdict == "faster"
    assert found.estimate == pytest.approx(math.exp(np.log(runs).mean()))
    assert found.low < found.estimate < found.high
    four = with_intervals(point_of_runs("a", 1, runs[:4], runs[:4], [2.0] * 4, of="processes"))
    assert (four.ratio.verdict, four.flags) == ("insufficient data", (Flag.FEW,))


@pytest.mark.parametrize(
    ("low", "high", "timed", "word"),
    [
        (1.01, 2.0, True, "faster"),
        (0.99, 2.0, True, "no difference shown"),
        (0.5, 1.01, False, "no difference shown"),
        (0.5, 0.99, True, "slower"),
        (0.5, 0.99, False, "worse"),
        (1.01, 2.0, False, "better"),
    ],
)
def test_a_verdict_is_what_both_ends_of_the_interval_say(low, high, timed, word) -> None:
    assert verdict(Interval(1.2, low, high), enough=True, timed=timed) == word
    assert verdict(Interval(1.2, low, high), enough=False, timed=timed) == "insufficient data"


def test_quality_over_three_seeds_speaks_of_better_and_worse() -> None:
    found = over_seeds("a", "off", [0.91, 0.90, 0.92], baseline=[0.40, 0.41, 0.39])
    assert found.ratio is not None
    assert found.ratio.verdict == "better"
    assert found.ratio.value == pytest.approx(2.275, rel=0.01)
    assert found.flags == ()
    assert over_seeds("a", "off", [0.91, 0.92]).flags == (Flag.FEW,)
    lower = over_seeds("a", "off", [1.0, 1.1, 0.9], baseline=[2.0, 2.2, 1.8], direction="lower")
    assert lower.ratio.value == pytest.approx(2.0)


def test_values_that_may_be_zero_have_an_interval_but_no_ratio() -> None:
    found = over_seeds("a", 1, [0.0, 0.1, 0.0, 0.1, 0.0], baseline=[1.0] * 5)
    assert found.low < 0.04 < found.high
    assert found.ratio is None


def test_one_seed_is_one() -> None:
    shown = hold_together(series([over_seeds("a", 1, [30.0])]))
    assert shown.estimator == "mean of 1 seed"


def test_intervals_of_a_chart_hold_together_and_stay_within_what_can_be() -> None:
    seeds = [30.0, 350.0, 386.0]
    points = [over_seeds(f"v{i}", 1, seeds, baseline=[100.0, 110.0, 120.0]) for i in range(8)]
    shown = hold_together(series(points, least=0.0, most=600.0))
    assert shown.estimator == "mean of 3 seeds; 95 % intervals (Student) of 8 that hold together"
    assert {(one.low, one.high) for one in shown.points} == {(0.0, 600.0)}
    wanted = geometric_interval(points[0].ratio.runs, 8)
    assert shown.points[0].ratio.low == pytest.approx(wanted.low)
    assert wanted.low < points[0].ratio.low  # wider than one alone
    assert hold_together(shown) == shown
    surer = hold_together(shown, 0.99)
    assert surer.points[0].ratio.low < wanted.low
    assert surer.estimator.endswith("drawn at 99 % since narrow ones end measuring")


def test_a_baseline_is_no_comparison() -> None:
    """One ratio with a standard error of 0.0353553 in its logarithm; t(4) at 95 % is 2.7764."""
    ratios = [math.exp(log) for log in (-0.1, -0.05, 0.0, 0.05, 0.1)]
    baseline = point_of_runs("base", 1, [1.0] * 5, [1.0] * 5, [], of="processes")
    ours = point_of_runs("ours", 1, ratios, ratios, ratios, of="processes")
    shown = hold_together(series([baseline, ours])).points[1]
    assert shown.ratio.high == pytest.approx(math.exp(2.7764 * 0.0353553), rel=1e-4)


def test_doubts_are_raised_by_what_causes_them() -> None:
    rng = np.random.default_rng(0)
    calm = [[1 + 0.005 * rng.standard_normal() for _ in range(3)] for _ in range(10)]
    assert noise_flags(calm) == set()
    assert noise_flags([[1.0], [1.4], [1.0], [1.4], [1.0], [1.4]]) == {Flag.VARIATION}
    assert noise_flags([[1.0]] * 5 + [[1.08]] * 5) == {Flag.DRIFT}


@pytest.mark.parametrize(
    ("medians", "raised"),
    [
        ([1.0, 1.09] * 3, set()),
        ([1.0, 1.12] * 3, {Flag.VARIATION}),
        ([1.0] * 5 + [1.045] * 5, set()),
        ([1.0] * 5 + [1.06] * 5, {Flag.DRIFT}),
        # The halves are 7 % apart, but their medians come and go.
        ([1.0, 1.0, 1.0, 1.08, 1.08, 1.08, 1.08, 1.0, 1.0, 1.08], set()),
    ],
)
def test_doubts_begin_at_their_limits(medians, raised) -> None:
    assert noise_flags([[one] for one in medians]) == raised


def test_what_is_counted_is_exact() -> None:
    more = exact_point("a", 1024, 500, direction="higher", baseline=1000)
    assert (more.ratio.value, more.ratio.verdict) == (0.5, "worse")
    found = exact_point("a", 1024, 500, direction="lower", baseline=1000)
    assert (found.median, found.estimate, found.low, found.high) == (500, 500, 500, 500)
    assert found.ratio is not None
    assert (found.ratio.value, found.ratio.verdict) == (2.0, "better")
    assert hold_together(series([found])).estimator == ""


@pytest.mark.parametrize("claimed", [1.1, 1.5, 4.0])
def test_true_claims_are_reproduced_and_those_of_twice_the_gain_are_not(claimed: float) -> None:
    """The aims of docs/measuring.md, at a process deviation of 3 %."""
    true, half, false = (verdicts(MACHINES[5], claimed, of, charts=60) for of in (1.0, 0.5, 0.0))
    assert true[Word.PARTLY] + true[Word.NOT] <= 1
    assert claimed < 1.5 or true[Word.REPRODUCED] >= 0.8 * 60
    assert half[Word.REPRODUCED] == false[Word.REPRODUCED] == 0
    assert false[Word.NOT] >= 0.8 * 60
