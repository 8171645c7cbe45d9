"""The run that represents a method: its settings decide before its date."""

from __future__ import annotations

import pytest

from methods import registry
from tests.runs import scenes
from webapp.catalog.queries import Carried
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def run(factor: float, preset: str = "full", **settings: object) -> Run:
    _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
    params = benchmark.resolve(preset, settings).model_dump(mode="json")
    return scenes.measured(factor=factor, preset=preset, params=params)


def shown() -> Run:
    (measurement,) = Carried(registry.get(scenes.METHOD)).measurements
    return measurement.run


def test_the_newest_of_a_kind_stands() -> None:
    run(1.0)
    second = run(2.0)
    assert shown() == second


def test_a_smoke_run_replaces_no_measurement() -> None:
    run(1.0, "smoke")
    assert Carried(registry.get(scenes.METHOD)).measurements == [], "too short to mean anything"
    standard = run(2.0)
    run(3.0, "smoke")
    assert shown() == standard


def test_any_number_of_smoke_runs_hides_no_measurement() -> None:
    standard = run(1.0)
    for factor in range(2, 5):
        run(factor, "smoke")
    assert shown() == standard


def test_other_settings_replace_no_preset() -> None:
    other = run(1.0, batch=2)
    run(2.0, "smoke")
    assert shown() == other
    standard = run(3.0)
    run(4.0, batch=2)
    assert shown() == standard


def test_a_parameter_younger_than_a_run_is_as_the_preset_says() -> None:
    standard = run(1.0)
    Run.objects.filter(pk=standard.pk).update(
        params={name: value for name, value in standard.params.items() if name != "batch"}
    )
    run(2.0, batch=2)
    assert shown() == standard


def test_every_class_of_hardware_has_its_own() -> None:
    here = run(1.0)
    _, benchmark = registry.find(f"{scenes.METHOD}.{scenes.BENCHMARK}")
    params = benchmark.resolve("full").model_dump(mode="json")
    there = scenes.measured(hardware="NVIDIA H200", preset="full", params=params)
    found = {m.row.hardware: m.run for m in Carried(registry.get(scenes.METHOD)).measurements}
    assert found == {scenes.ENVIRONMENT.hardware: here, "NVIDIA H200": there}
