"""Intervals cover, verdicts do not cry wolf: on distributions with known answers."""

import math

import numpy as np
import pytest

from methods.measure.statistics import (
    exact_point,
    mean_interval,
    noise_flags,
    paired_ratio,
    point,
    student_quantile,
    verdict,
)
from methods.protocol import Flag

RUNS = 1000


def runs(blocks: int, noise: str, ratio: float):
    """Simulated measurements: shared drift, noise a block and a sample, and what ``noise`` adds."""
    rng = np.random.default_rng(20260101 + blocks)
    for _ in range(RUNS):
        drift = np.cumsum(rng.normal(0, 0.03, blocks))[:, None]  # (blocks, 1)
        pair = []
        for _ in range(2):
            logs = drift + rng.normal(0, 0.02, (blocks, 1)) + rng.normal(0, 0.05, (blocks, 5))
            if noise == "spikes":
                logs += (rng.random((blocks, 5)) < 0.1) * rng.exponential(0.7, (blocks, 5))
            if noise == "skewed":
                logs += rng.exponential(0.1, (blocks, 1))
            pair.append(np.exp(logs))
        yield pair[0] / ratio, pair[1]


@pytest.mark.parametrize("noise", ["normal", "spikes", "skewed"])
@pytest.mark.parametrize("blocks", [5, 10, 20])
def test_the_interval_covers_the_true_ratio_in_93_of_100_runs(blocks: int, noise: str) -> None:
    true, covered = 1.3, 0
    for ours, baseline in runs(blocks, noise, true):
        interval = paired_ratio(ours, baseline, "lower")
        covered += interval.low <= true <= interval.high
    assert covered >= 0.93 * RUNS


@pytest.mark.parametrize("noise", ["normal", "spikes", "skewed"])
@pytest.mark.parametrize("blocks", [5, 10, 20])
def test_equal_variants_are_called_different_in_at_most_6_of_100_runs(
    blocks: int, noise: str
) -> None:
    verdicts = [
        verdict(paired_ratio(ours, baseline, "lower"), blocks)
        for ours, baseline in runs(blocks, noise, 1.0)
    ]
    assert sum(said != "no difference shown" for said in verdicts) <= 0.06 * RUNS


@pytest.mark.parametrize("blocks", [5, 10])
def test_a_true_difference_is_seen(blocks: int) -> None:
    """Two in ten faster, against noise of 4 % a block: an interval that covers all is no use."""
    said = [
        verdict(paired_ratio(ours, baseline, "lower"), blocks)
        for ours, baseline in runs(blocks, "normal", 1.2)
    ]
    assert said.count("faster") >= 0.95 * RUNS
    assert "slower" not in said


def test_shared_drift_cancels() -> None:
    drift = np.exp(np.linspace(0, 1, 10))[:, None]
    interval = paired_ratio(2 * drift, 3 * drift, "lower")
    assert interval.low == pytest.approx(1.5)
    assert interval.high == pytest.approx(1.5)


def test_a_ratio_above_one_is_better_whichever_way_is_better() -> None:
    assert paired_ratio([[2.0]] * 5, [[6.0]] * 5, "lower").value == pytest.approx(3)
    assert paired_ratio([[6.0]] * 5, [[2.0]] * 5, "higher").value == pytest.approx(3)
    assert paired_ratio([[0.0]] * 5, [[2.0]] * 5, "higher") is None
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_ratio([[1.0]] * 5, [[2.0]] * 6, "lower")


@pytest.mark.parametrize(
    ("degrees", "tabled"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)],
)
def test_students_quantile_is_the_tables(degrees: int, tabled: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(tabled, abs=5e-5)


def test_an_interval_is_the_same_each_time_and_needs_values() -> None:
    values = [1.0, 2.0, 4.0, 3.0, 2.5]
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval([2.0]).low == 2.0
    for wrong in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            mean_interval(wrong)


def test_a_point_keeps_all_samples_and_says_too_few() -> None:
    found = point("a", 4096, [[1.0, 3.0], [2.0, 2.0]], direction="lower", baseline=[[4.0]] * 2)
    assert (found.samples, found.median, found.q1, found.q3) == ((1, 3, 2, 2), 2, 1.75, 2.25)
    assert found.flags == (Flag.FEW,)
    assert found.ratio is not None
    assert found.ratio.verdict == "insufficient data"


def test_quality_over_three_seeds_speaks_of_better_and_worse() -> None:
    found = point(
        "a",
        "off the anchors",
        [[0.91], [0.90], [0.92]],
        direction="higher",
        baseline=[[0.40], [0.41], [0.39]],
        min_blocks=3,
        words="better/worse",
        noise=False,
    )
    assert found.ratio is not None
    assert found.ratio.verdict == "better"
    assert found.flags == ()


def test_values_that_may_be_zero_have_an_interval_too() -> None:
    found = point("a", 1, [[0.0], [0.1], [0.0], [0.1], [0.0]], direction="higher")
    assert found.low < 0.04 < found.high


def test_doubts_are_raised_by_what_causes_them() -> None:
    rng = np.random.default_rng(0)
    calm = [[1 + 0.005 * rng.standard_normal() for _ in range(3)] for _ in range(10)]
    assert noise_flags(calm) == ()
    assert noise_flags([[1.0], [1.4], [1.0], [1.4], [1.0], [1.4]]) == (Flag.VARIATION,)
    assert noise_flags([[1.0]] * 5 + [[1.08]] * 5) == (Flag.DRIFT,)
    assert noise_flags(calm[:4]) == (Flag.FEW,)


def test_what_is_counted_is_exact() -> None:
    found = exact_point("a", 1024, 500, direction="lower", baseline=1000)
    assert (found.median, found.low, found.high) == (500, 500, 500)
    assert found.ratio is not None
    assert (found.ratio.value, found.ratio.verdict) == (2.0, "better")


def test_quality_over_seeds_has_the_interval_of_its_mean_within_what_it_can_be() -> None:
    seeds = [[30.0], [350.0], [386.0]]
    plain = point("ours", "x", seeds, direction="higher", min_blocks=3, noise=False)
    told = mean_interval([30.0, 350.0, 386.0])
    assert (plain.low, plain.high) == (told.low, told.high)
    assert plain.low < 0
    assert plain.high > 600
    cut = point("o", "x", seeds, direction="higher", min_blocks=3, noise=False, within=(0, 600))
    assert (cut.low, cut.high) == (0.0, 600.0)
