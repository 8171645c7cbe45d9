"""One measurement stands for each series and class of hardware, however many runs follow."""

from __future__ import annotations

import pytest

from methods import registry
from tests.runs import scenes
from webapp.runs.models import Run, StandingMeasurement

pytestmark = pytest.mark.django_db


def measured(preset: str = "full", hardware: str = "CPU, 2 cores", **settings: object) -> Run:
    _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
    params = benchmark.resolve(preset, settings).model_dump(mode="json")
    return scenes.measured(preset=preset, params=params, hardware=hardware)


def standing() -> dict[tuple[str, str], Run]:
    rows = StandingMeasurement.objects.select_related("series__run")
    return {(row.name, row.hardware): row.series.run for row in rows}


def test_runs_with_changed_settings_push_no_preset_away() -> None:
    published = measured()
    for _ in range(5):
        measured(batch=3)
        measured("smoke")
    assert standing() == {("forward", "CPU, 2 cores"): published}
    newer = measured()
    assert standing() == {("forward", "CPU, 2 cores"): newer}


def test_each_class_of_hardware_has_its_own() -> None:
    one, two = measured(), measured(hardware="NVIDIA H200")
    assert standing() == {("forward", "CPU, 2 cores"): one, ("forward", "NVIDIA H200"): two}


def test_changed_settings_stand_where_no_preset_was_measured() -> None:
    smoke = measured("smoke")
    assert standing()["forward", "CPU, 2 cores"] == smoke
    changed = measured(batch=3)
    assert standing()["forward", "CPU, 2 cores"] == changed


def test_of_changed_settings_what_measured_more_points_stands(monkeypatch) -> None:
    whole = measured(seconds=30)
    less = scenes.latency()
    less = less.model_copy(update={"points": less.points[-3:]})  # the longest length alone
    with monkeypatch.context() as patched:
        patched.setattr(scenes, "latency", lambda _: less)
        tried = measured(batch=3)
        assert len(tried.series.get().data["points"]) == 3
        assert standing() == {("forward", "CPU, 2 cores"): whole}
    again = measured(seconds=30)
    assert standing() == {("forward", "CPU, 2 cores"): again}


def test_of_two_runs_of_a_preset_the_later_stands_with_fewer_points_too(monkeypatch) -> None:
    measured()
    fewer = scenes.latency().model_copy(update={"points": scenes.latency().points[:3]})
    monkeypatch.setattr(scenes, "latency", lambda _: fewer)
    later = measured()
    assert standing() == {("forward", "CPU, 2 cores"): later}


def test_a_run_that_is_not_public_never_stands() -> None:
    published = measured()
    scenes.measured(preset="full", params=published.params, hardware="GPU", public=False)
    assert set(standing()) == {("forward", "CPU, 2 cores")}


def test_a_newer_version_of_the_benchmark_stands_before_an_older() -> None:
    newer = scenes.measured(preset="full", params=measured().params, version=7)
    hardware = newer.environment.hardware if newer.environment else ""
    scenes.measured(preset="full", params=newer.params, version=6)
    assert standing()["forward", hardware] == newer


def test_a_quick_run_stands_beside_a_full_one() -> None:
    full, quick = measured(), measured("quick")
    rows = StandingMeasurement.objects.filter(name="forward")
    assert {row.subset: row.series.run for row in rows} == {"": full, "quick": quick}
    later = measured("quick")
    assert rows.get(subset="quick").series.run == later


def test_quick_runs_of_two_mechanisms_or_lengths_stand_side_by_side() -> None:
    for mechanism, length in (("longformer", 1024), ("longformer", 4096), ("big_bird", 1024)):
        _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
        params = benchmark.resolve("quick", {"lengths": [length]}).model_dump(mode="json")
        scenes.measured(preset="quick", params=params, mechanism=mechanism)
    assert StandingMeasurement.objects.filter(name="forward").count() == 3


@pytest.mark.parametrize("changes", [{"seconds": 30}, {"batch": 3}, {"lengths": [1024]}])
def test_a_quick_run_with_changed_settings_pushes_no_unchanged_one_away(
    changes: dict[str, object],
) -> None:
    changed = measured("quick", **changes)
    assert StandingMeasurement.objects.get(name="forward").series.run == changed
    published = measured("quick")
    measured("quick", **changes)
    assert StandingMeasurement.objects.get(name="forward").series.run == published
    newer = measured("quick")
    assert StandingMeasurement.objects.get(name="forward").series.run == newer


def test_of_two_quick_runs_that_a_paper_asked_for_the_later_stands() -> None:
    _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
    params = benchmark.resolve("quick", {"lengths": [1024]}).model_dump(mode="json")
    scenes.measured(preset="quick", params=params, mechanism="longformer")
    later = scenes.measured(preset="quick", params=params, mechanism="longformer")
    assert StandingMeasurement.objects.get(name="forward").series.run == later
