"""Messages of a benchmark, and when its numbers are released."""

import math

import pytest
from pydantic import ValidationError

from methods.context import Context
from methods.errors import CheckFailedError
from methods.measure.statistics import point
from methods.protocol import (
    MAX_LOG_BYTES,
    Artefact,
    Axis,
    CheckResult,
    Log,
    Progress,
    Series,
    Strict,
    Variant,
)
from methods.spec import Case


def context() -> tuple[Context, list[Strict]]:
    heard: list[Strict] = []
    return Context("cpu", 0, heard.append), heard


def opened(ctx: Context):
    return ctx.series(
        Series(
            name="speed",
            title="Speed",
            x=Axis(label="n"),
            y=Axis(label="time"),
            direction="lower",
            variants=(Variant(name="a", label="A"),),
        )
    )


def test_nothing_is_measured_before_something_was_checked() -> None:
    ctx, _ = context()
    series = opened(ctx)
    with pytest.raises(CheckFailedError, match="checks its results before it measures"):
        series.add(point("a", 1, [[1.0]], direction="lower"))
    ctx.check("sums", 2, 2, "==")
    series.add(point("a", 1, [[1.0]], direction="lower"))
    assert [p.x for p in ctx.release(partial=False)[0].points] == [1.0]


def test_a_point_measured_better_takes_the_place_of_the_first() -> None:
    ctx, _ = context()
    ctx.check("sums", True, True)
    series = opened(ctx)
    series.add(point("a", 1, [[1.0]], direction="lower"), point("a", 2, [[5.0]], direction="lower"))
    series.add(point("a", 1, [[3.0]], direction="lower"))
    found = {p.x: p.median for p in ctx.release(partial=False)[0].points}
    assert found == {1: 3.0, 2: 5.0}


def test_series_are_held_back_until_released() -> None:
    ctx, heard = context()
    ctx.check("sums", True, True)
    opened(ctx).add(point("a", 1, [[1.0]], direction="lower"))
    assert [type(body) for body in heard] == [CheckResult]
    assert ctx.release(partial=True)[0].partial


@pytest.mark.parametrize(
    ("measured", "bound"), [(2.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (False, True)]
)
def test_a_check_that_misses_is_told_and_ends_the_run(measured: float, bound: float) -> None:
    ctx, heard = context()
    with pytest.raises(CheckFailedError, match=r"error \(fp32\): measured"):
        ctx.check("error", measured, bound, label="fp32")
    (body,) = heard
    assert isinstance(body, CheckResult)
    assert not body.passed
    assert ctx.checks == 0


def test_all_cases_up_to_the_first_that_fails_are_told() -> None:
    ctx, heard = context()
    with pytest.raises(CheckFailedError):
        ctx.check_all("bound", [Case(0.0, 1.0), Case(2.0, 1.0), Case(0.0, 1.0)])
    assert [body.passed for body in heard if isinstance(body, CheckResult)] == [True, False]


def test_two_checks_of_one_label_are_two() -> None:
    ctx, told = context()
    for _ in range(2):
        ctx.check_all("at_shape", [Case(0.0, 1.0, label="n = 64")])
    assert [body.label for body in told if isinstance(body, CheckResult)] == [
        "n = 64",
        "n = 64 (2)",
    ]


def test_a_point_that_is_not_finite_is_refused_where_it_is_added() -> None:
    ctx, _ = context()
    ctx.check("sums", 1, 1)
    with pytest.raises(ValueError, match="finite"):
        opened(ctx).add(point("a", 1, [[math.nan]], direction="lower"))
    with pytest.raises(ValidationError):
        ctx.series(
            Series(
                name="other",
                title="Other",
                x=Axis(label="n"),
                y=Axis(label="t"),
                direction="lower",
                variants=(Variant(name="a", label="A"),),
            )
        ).add(point("b", 1, [[1.0]], direction="lower"))


def test_progress_is_said_at_most_twice_a_second_and_at_the_end() -> None:
    ctx, heard = context()
    for done in range(1000):
        ctx.progress(done, 1000)
    ctx.progress(1000, 1000)
    said = [body for body in heard if isinstance(body, Progress)]
    assert len(said) <= 4
    assert said[-1].fraction == 1
    assert said[-1].left == 0


def test_the_log_is_cut_between_characters_and_numbered_by_bytes() -> None:
    ctx, heard = context()
    text = "é€😀" * 3000 + "\x1b[1mend"
    ctx.log(text)
    ctx.log("next")
    pieces = [body for body in heard if isinstance(body, Log)]
    joined = "".join(piece.text for piece in pieces)
    assert joined == "é€😀" * 3000 + "end\nnext\n"
    assert all(len(piece.text.encode()) <= MAX_LOG_BYTES for piece in pieces)
    ends = [piece.offset + len(piece.text.encode()) for piece in pieces]
    assert [piece.offset for piece in pieces] == [0, *ends[:-1]]


def test_an_artefact_is_known_by_its_ending() -> None:
    ctx, heard = context()
    ctx.artefact("a.svg", "<svg/>")
    ctx.artefact("a.png", b"\x89PNG")
    bodies = [body for body in heard if isinstance(body, Artefact)]
    assert [body.media_type for body in bodies] == ["image/svg+xml", "image/png"]
    assert bodies[1].data() == b"\x89PNG"
    with pytest.raises(ValueError, match="ends in one of"):
        ctx.artefact("a.html", "<script>")
