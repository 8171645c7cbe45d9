"""A claim beside a measurement: each word where it belongs, and none without ground."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from methods import registry
from methods.measure.statistics import geometric_interval
from methods.protocol import Axis, Flag, Point, Ratio, Series, Variant
from methods.spec import Answer, Claim, Comparable, Count
from webapp.catalog.measured import compared
from webapp.catalog.verdicts import Word, figure, judge


def claim(value: float | None, quantity: str = "ratio", **fields: Any) -> Claim:
    answer = Answer(benchmark="b", series="s", variant="ours", quantity=quantity)  # type: ignore[arg-type]
    given = {"comparable": Comparable.SAME, "answer": answer, **fields}
    return Claim(id="c", text="t", metric="m", value=value, **given)


def point(low: float, high: float, *, ratio: bool = True, flags: tuple[Flag, ...] = ()) -> Point:
    middle = (low + high) / 2
    found = Ratio(value=middle, low=low, high=high, verdict="faster") if ratio else None
    return Point(
        variant="ours", x=1.0, samples=(middle,), median=middle, q1=middle, q3=middle,
        low=low, high=high, ratio=found, flags=flags,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claimed", "low", "high", "word"),
    [
        (2.0, 2.1, 2.3, Word.REPRODUCED),
        (2.0, 1.96, 2.05, Word.REPRODUCED),
        (2.0, 1.91, 2.05, Word.REPRODUCED),  # its margin is 5 %
        (2.0, 1.89, 2.05, Word.INCONCLUSIVE),
        (2.0, 1.6, 1.89, Word.PARTLY),
        (1.1, 1.076, 1.09, Word.REPRODUCED),  # its margin is a quarter of the gain
        (1.1, 1.02, 1.074, Word.INCONCLUSIVE),
        (1.1, 1.06, 1.074, Word.PARTLY),
        (2.0, 1.5, 1.7, Word.PARTLY),
        (2.0, 1.1, 1.3, Word.NOT),
        (2.0, 0.3, 2.0, Word.INCONCLUSIVE),
        (2.0, 1.1, 1.7, Word.INCONCLUSIVE),
        (2.0, 0.3, 0.5, Word.NOT),
        (1.0, 0.8, 0.9, Word.NOT),  # a claim of no loss has no gain to share
    ],
)
def test_ratios_are_judged_by_what_they_have_above_one(
    claimed: float, low: float, high: float, word: Word
) -> None:
    assert judge(claim(claimed), point(low, high)).word is word


@pytest.mark.parametrize(
    ("direction", "claimed", "low", "high", "word"),
    [
        ("higher", 90.0, 88.0, 91.0, Word.REPRODUCED),
        ("higher", 90.0, 30.0, 91.0, Word.INCONCLUSIVE),
        ("higher", 90.0, 60.0, 65.0, Word.PARTLY),
        ("higher", 90.0, 10.0, 20.0, Word.NOT),
        ("lower", 10.0, 9.0, 9.5, Word.REPRODUCED),
        ("lower", 10.0, 15.0, 16.0, Word.PARTLY),
        ("lower", 10.0, 40.0, 50.0, Word.NOT),
    ],
)
def test_values_are_judged_in_the_claims_direction(
    direction: str, claimed: float, low: float, high: float, word: Word
) -> None:
    judged = judge(claim(claimed, "value", direction=direction), point(low, high, ratio=False))
    assert judged.word is word


def test_a_claim_is_judged_by_its_own_interval_not_by_one_of_many() -> None:
    """A chart of many comparisons draws wide intervals so that all hold; a claim asks for one."""
    ratios = (2.0, 2.02, 1.98, 2.01, 1.99)
    wide = point(1.5, 2.7).model_copy(update={"of": "processes", "runs": (1.0,) * 5})
    assert wide.ratio is not None
    told = wide.model_copy(update={"ratio": wide.ratio.model_copy(update={"runs": ratios})})
    assert judge(claim(2.0), wide).word is Word.INCONCLUSIVE
    assert judge(claim(2.0), told).word is Word.REPRODUCED
    found, exact = figure(claim(2.0), told), geometric_interval(ratios, confidence=0.99)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_doubts_stand_in_the_reason_and_several_decide_nothing() -> None:
    busy = judge(claim(2.0), point(2.1, 2.3, flags=(Flag.BUSY,)))
    assert busy.word is Word.REPRODUCED
    assert busy.reason.endswith(f"; in doubt: {Flag.BUSY}")
    many = (Flag.BUSY, Flag.DRIFT, Flag.VARIATION)
    assert judge(claim(2.0), point(2.1, 2.3, flags=many)).word is Word.INCONCLUSIVE


def test_what_cannot_be_compared_is_never_judged() -> None:
    other = claim(2.0, comparable=Comparable.NOT, reason="other hardware")
    assert judge(other, point(5.0, 6.0)).word is Word.UNTESTABLE
    assert judge(other, point(5.0, 6.0)).reason == "other hardware"
    assert judge(claim(None), point(5.0, 6.0)).word is Word.UNTESTABLE


def test_without_ground_there_is_no_word() -> None:
    assert judge(claim(2.0), None).word is None
    assert judge(claim(2.0), point(2.0, 3.0, ratio=False)).word is None
    assert judge(claim(2.0), point(2.0, 3.0, flags=(Flag.FEW,))).word is None


def test_every_word_has_a_glyph_of_its_own() -> None:
    assert len({word.glyph for word in Word}) == len(Word)


def test_what_is_counted_or_argued_needs_no_measurement() -> None:
    count = Count(low=1.8, high=1.8, without=1.0, working="1.8 times fewer pairs")
    counted = claim(4.0, comparable=Comparable.NOT, answer=None, counted=lambda: count)
    judged = judge(counted, None)
    assert (judged.word, judged.reason) == (Word.REFUTED, "computed: 1.8 times fewer pairs")
    argued = claim(
        4.0, comparable=Comparable.NOT, reason="r", ruling="partly", argument="README.md#why"
    )
    assert (judge(argued, None).word, judge(argued, None).reason) == (Word.PARTLY, "our reasoning")


@pytest.mark.parametrize(
    ("claimed", "low", "high", "without", "word"),
    [
        (1.0, 1.96, 1.96, 2.0, Word.REFUTED),  # a growth of n^1.96 is not linear
        (1.0, 1.0, 1.04, 2.0, Word.REPRODUCED),
        (60.0, 54.6, 54.6, 0.0, Word.PARTLY),
        (0.6, 0.65, 0.79, 0.0, Word.REPRODUCED),
        (4.0, 1.0, 1.0, 1.0, Word.REFUTED),
        (4.0, 1.2, 4.0, 1.0, Word.REFUTED),
    ],
)
def test_a_count_is_judged_by_what_it_has_beyond_none_of_the_method(
    claimed: float, low: float, high: float, without: float, word: Word
) -> None:
    count = Count(low=low, high=high, without=without, working="w")
    judged = claim(claimed, comparable=Comparable.NOT, answer=None, counted=lambda: count)
    assert judge(judged, None).word is word


def test_every_claim_of_sparse_attention_has_an_answer_of_its_kind() -> None:
    words = {one.id: judge(one, None).word for one in registry.get("sparse_attention").claims}
    assert words.pop("speed") is None, "measured, so without a measurement it has none"
    operations = [words[f"operations_{n}"] for n in (512, 1024, 2048, 4096)]
    assert operations == [Word.PARTLY, Word.PARTLY, Word.REFUTED, Word.REFUTED]
    assert Word.UNTESTABLE not in words.values()


def series(*points: Point, direction: str = "higher", scale: str = "linear") -> Series:
    names = dict.fromkeys(point.variant for point in points)
    return Series(
        name="s", title="t", x=Axis(label="x", scale=scale), y=Axis(label="y"), direction=direction,
        variants=tuple(Variant(name=name, label=name) for name in names), points=points,
    )  # fmt: skip


def other(of: Point, **fields: Any) -> Point:
    return of.model_copy(update={"variant": "theirs", **fields})


def test_another_variant_is_compared_seed_by_seed() -> None:
    """Also where an interval of few seeds is so wide that it begins at nothing."""
    mine = point(0.0, 90.0, ratio=False).model_copy(update={"runs": (20.0, 40.0, 40.0)})
    theirs = other(point(0.0, 50.0, ratio=False), runs=(10.0, 20.0, 10.0))
    better = compared(series(mine, theirs), mine, "theirs")
    assert better is not None
    assert better.ratio is not None
    assert better.ratio.value == pytest.approx(16 ** (1 / 3))  # of 2, 2 and 4
    interval = geometric_interval([2.0, 2.0, 4.0])
    assert (better.ratio.low, better.ratio.high) == pytest.approx(
        (interval.low, interval.high), rel=1e-3
    )
    theirs = theirs.model_copy(update={"runs": ()})
    assert compared(series(mine, theirs), mine, "theirs") is None
    mine, theirs = point(8.0, 10.0), other(point(4.0, 5.0))
    ends = compared(series(mine, theirs), mine, "theirs")
    assert ends is not None
    assert ends.ratio is not None
    assert (ends.ratio.low, ends.ratio.high) == (8 / 5, 10 / 4)
    assert ends.ratio.verdict == "better"


@pytest.mark.parametrize("runs", [(), (4.0, 5.0, 4.0)])
def test_fewer_seconds_than_another_variant_are_better(runs: tuple[float, ...]) -> None:
    mine = point(4.0, 5.0, ratio=False).model_copy(update={"runs": runs})
    theirs = other(point(8.0, 10.0, ratio=False), runs=tuple(2 * run for run in runs))
    better = compared(series(mine, theirs, direction="lower"), mine, "theirs")
    assert better is not None
    assert better.ratio is not None
    assert better.ratio.value == pytest.approx(2.0)
    assert better.ratio.verdict == "better"
    worse = compared(series(mine, theirs, direction="lower"), theirs, "ours")
    assert worse is not None
    assert worse.ratio is not None
    assert worse.ratio.value == pytest.approx(0.5)
    assert worse.ratio.verdict == "no difference shown"


@pytest.mark.parametrize("order", list(permutations((256.0, 1024.0, 4096.0))))
def test_without_an_x_the_point_at_the_largest_answers(order: tuple[float, ...]) -> None:
    points = [point(1.0, 2.0).model_copy(update={"x": x}) for x in order]
    answering = series(*points).point_of("ours", None)
    assert answering is not None
    assert answering.x == 4096.0
    assert series(*points).point_of("ours", 256.0) == points[order.index(256.0)]
    assert series(*points).point_of("theirs", None) is None


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"runs": (1e60, 1e-60)}, {"runs": (1e-60, 1e60)}),
        ({"runs": (5e-324, 5e-324)}, {"runs": (1e308, 1e308)}),
        ({"low": 1e-50, "high": 1e50}, {"low": 1e-50, "high": 1e50}),
        ({}, {"value": 0.0}),
    ],
)
def test_numbers_whose_ratio_is_none_are_not_compared(
    mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    """A worker may sign them, and the method's page is a page."""
    measured = point(1.0, 2.0).model_copy(update=mine)
    chart = series(measured, other(point(1.0, 2.0), **theirs))
    assert compared(chart, measured, "theirs") is None
