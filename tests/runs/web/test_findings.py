"""The three lines with which a run's page begins."""

import re

import pytest

from methods.protocol import Flag, Point, Variant
from tests.runs import scenes
from webapp.runs.web.present import checks_of, findings, shown
from webapp.runs.web.run_page import MANY_SERIES

pytestmark = pytest.mark.django_db


def lines(run, **changed):
    series = [scenes.latency().model_copy(update=changed)]
    return findings(run, series, checks_of(run))


def test_the_page_begins_with_headline_checks_and_doubts(client) -> None:
    run = scenes.measured()
    run.result["stopped"], run.result["processes"] = "time", 7
    run.save(update_fields=["result"])
    html = client.get(f"/runs/{run.pk}/").content.decode()
    told = lines(run)
    begin = html.index('id="findings"')
    assert begin < html.index('id="measured"')
    assert html.index(f'<p class="answer">{told["Headline"]}</p>') < begin  # in the box at the top
    assert html.count(told["Headline"]) == 1
    for line in (told["Checks"], told["Doubts"]):
        assert line in html[begin:]
    # The method's question is about 4,096 tokens.
    assert "times as fast as" in told["Headline"]
    assert "at 4096 tokens" in told["Headline"]
    assert told["Checks"] == "2 of 2 passed"
    assert "variation at" in told["Doubts"]
    assert told["Doubts"].endswith("7 processes, stopped: time limit reached")


def test_without_doubts_that_is_said() -> None:
    points = tuple(point.model_copy(update={"flags": ()}) for point in scenes.latency().points)
    assert lines(scenes.measured(), points=points)["Doubts"] == "none raised"


def test_the_headline_has_no_doubt_where_any_point_has_none() -> None:
    def flagged(at: float) -> tuple[Point, ...]:
        doubt = {"flags": (Flag.DRIFT,)}
        return tuple(p.model_copy(update=doubt if p.x >= at else {}) for p in points)

    points = scenes.latency().points
    run = scenes.measured()
    of_no_question = {"name": "backward"}
    assert "4096 tokens" in lines(run, points=flagged(8192), **of_no_question)["Headline"]
    # All are in doubt.
    assert "8192 tokens" in lines(run, points=flagged(0), **of_no_question)["Headline"]


def test_a_series_without_a_baseline_has_its_value_as_headline() -> None:
    points = tuple(point.model_copy(update={"ratio": None}) for point in scenes.latency().points)
    told = lines(scenes.measured(), points=points, baseline=None)
    assert "times" not in told["Headline"]
    assert told["Headline"].endswith(" ms.")


def test_too_few_measurements_give_no_factor_in_the_headline() -> None:
    def with_few(point: Point) -> Point:
        ratio = point.ratio and point.ratio.model_copy(update={"verdict": "insufficient data"})
        return point.model_copy(update={"ratio": ratio})

    told = lines(scenes.measured(), points=tuple(map(with_few, scenes.latency().points)))
    assert "times as" not in told["Headline"]
    assert told["Headline"].startswith("Too few runs to compare")


def test_points_at_a_single_place_are_rows_of_one_chart(client) -> None:
    run = scenes.measured()
    row = run.series.get()
    row.data["points"] = [point for point in row.data["points"] if point["x"] == 8192]
    row.save()
    html = client.get(f"/runs/{run.pk}/").content.decode()
    measured = html[html.index('id="measured"') : html.index('id="checks"')]
    assert measured.count('role="img"') == 1, "a quantity is drawn once"
    assert measured.index('class="conclusion"') < measured.index("<svg")
    assert measured.count('scope="row"') == 3


def test_variants_after_the_eighth_are_folded() -> None:
    series = scenes.latency()
    one = series.variants[0]
    names = [f"extra{i}" for i in range(8)]
    extra = tuple(one.model_copy(update={"name": n, "label": n, "ours": False}) for n in names)
    points: list[Point] = list(series.points)
    points += [series.points[0].model_copy(update={"variant": name}) for name in names]
    many = series.model_copy(
        update={"variants": (*series.variants, *extra), "points": tuple(points)}
    )
    assert shown(series)["folded"] == ()
    page = shown(many)
    assert page["folded"]
    # All stand in one forest plot at one length; curves of eight at most are folded.
    assert len(page["pictures"]) == 1
    assert len(page["folded"]) == 1, "the extra ones have no ratio: no curve"


@pytest.mark.parametrize(("count", "opened"), [(MANY_SERIES, True), (MANY_SERIES + 1, False)])
def test_tables_of_many_series_are_folded(client, count: int, opened: bool) -> None:
    run = scenes.measured()
    row = run.series.get()
    for number in range(1, count):
        row.pk, row.name = None, f"more{number}"
        row.save()
    html = client.get(f"/runs/{run.pk}/").content.decode()
    assert ("<details open>" in html) is opened


def test_a_smoke_run_has_no_headline_and_folds_its_numbers(client) -> None:
    run = scenes.measured(preset="smoke")
    assert "only shows that everything works" in lines(run)["Headline"]
    html = client.get(f"/runs/{run.pk}/").content.decode()
    measured = html[html.index('id="measured"') :]
    assert "times as fast as" not in html[: html.index('id="measured"')]
    assert measured.index("Numbers of this test run") < measured.index("<svg")
    assert (
        "Numbers of this test run"
        not in client.get(f"/runs/{scenes.measured().pk}/").content.decode()
    )


CONTROL = Variant(name="dense_kernel", label="Dense causal, our kernel")


def test_a_control_that_was_not_measured_gives_no_verdict() -> None:
    variants = (*scenes.latency().variants, CONTROL)
    headline = lines(scenes.measured(), variants=variants)["Headline"]
    assert headline.endswith("Its control, Dense causal (our kernel), was not measured.")
    assert "not better" not in headline


@pytest.mark.parametrize(
    ("speed", "said"), [(0.5, ""), (9.0, "not shown to be better than its control")]
)
def test_a_control_that_was_measured_decides(speed: float, said: str) -> None:
    points = scenes.latency().points
    control = tuple(
        point.model_copy(
            update={"variant": CONTROL.name, "ratio": None}
            | {name: getattr(point, name) / speed for name in ("median", "low", "high")}
        )
        for point in points
        if point.variant == "sdpa"
    )
    series = {"variants": (*scenes.latency().variants, CONTROL), "points": (*points, *control)}
    headline = lines(scenes.measured(), **series)["Headline"]
    assert said in headline
    assert "not measured" not in headline


def test_a_gain_that_no_control_has_is_said_without_more() -> None:
    assert "control" not in lines(scenes.measured())["Headline"]


def test_a_size_and_a_category_are_worded_as_such() -> None:
    """Not "times as good in size", nor "at held out"."""
    series = scenes.latency()
    better = {"verdict": "better"}
    points = tuple(
        point.model_copy(update={"ratio": point.ratio and point.ratio.model_copy(update=better)})
        for point in series.points
    )
    size = series.y.model_copy(update={"label": "size"})
    headline = lines(scenes.measured(), points=points, y=size)["Headline"]
    assert " times smaller than dense (SDPA) at " in headline
    category = series.x.model_copy(update={"scale": "category"})
    last = [point for point in points if point.x == points[-1].x]
    points = tuple(point.model_copy(update={"x": "held out"}) for point in last)
    headline = lines(scenes.measured(), points=points, x=category)["Headline"]
    assert ", held out" in headline
    assert "at held out" not in headline
    equal = tuple(
        point.model_copy(
            update={
                "ratio": point.ratio
                and point.ratio.model_copy(update={"verdict": "no difference shown"})
            }
        )
        for point in points
    )
    headline = lines(scenes.measured(), points=equal, x=category)["Headline"]
    assert headline.startswith("No difference in time shown: ")
    assert ", held out (95\N{NO-BREAK SPACE}% interval" in headline


def test_a_run_whose_every_comparison_is_in_doubt_has_no_tick(client) -> None:
    run = scenes.measured()
    row = run.series.get()

    def standing() -> str:
        return client.get(f"/runs/{run.pk}/").content.decode().partition('class="standing ')[2][:4]

    assert standing() == "good"
    compared = [point for point in row.data["points"] if point["ratio"]]
    for point in compared:
        point["flags"] = ["busy machine"]
    row.save()
    assert standing() == "fair"
    compared[0]["flags"] = []
    row.save()
    assert standing() == "good", "one comparison is beyond doubt"


def test_durations_are_in_the_language_of_the_page(client) -> None:
    run = scenes.measured()
    page = client.get(f"/runs/{run.pk}/", headers={"Accept-Language": "zh-hans"}).content.decode()
    assert re.search(r"用时 (\d+ 分 )?\d+ 秒", page)
