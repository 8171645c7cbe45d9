"""Runs side by side: values on one class of hardware, ratios across."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.runs import scenes
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def compare(client: Client, *runs: Run) -> str:
    response = client.get("/compare", {"runs": ",".join(str(run.pk) for run in runs)})
    return response.content.decode()


def test_one_class_of_hardware_shows_values_and_how_they_differ(client: Client) -> None:
    html = compare(client, scenes.measured(), scenes.measured(factor=2.0))
    assert "0.50× (0.47 – 0.53)" in html
    hardware = scenes.measured().hardware
    assert f"All on {hardware}." in html
    assert html.count(f"<td>{hardware}</td>") == 2
    assert "Ratios only" not in html
    assert "51.06" in html


def test_the_same_numbers_show_no_difference(client: Client) -> None:
    html = compare(client, scenes.measured(), scenes.measured())
    assert "1.00× (0.94 – 1.06), no difference shown" in html


def test_another_class_shows_ratios_alone(client: Client) -> None:
    runs = scenes.measured(), scenes.measured(hardware="NVIDIA H200")
    html = compare(client, *runs)
    assert "Ratios only" in html
    baseline = scenes.latency().compared_with
    assert f"<caption>times better than {baseline}</caption>" in html
    chinese = Client(headers={"accept-language": "zh-hans"})
    assert f"<caption>相对 {baseline} 的倍数</caption>" in compare(chinese, *runs)
    assert "5.01×" in html
    assert "51.06" not in html  # no value in milliseconds beside another machine's
    assert '<svg class="assay-chart"' in html
    assert "all pairs skipped" not in html  # the first machine's limit


def test_versions_with_another_axis_have_no_drawing_together(client: Client) -> None:
    older, newer = scenes.measured(version=1), scenes.measured(version=2)
    row = older.series.get()
    row.data["x"]["scale"] = "category"
    for point in row.data["points"]:
        point["x"] = f"{point['x']:g} tokens"
    row.data["limits"] = []
    row.save()
    assert "8192 tokens" in compare(client, older, newer)
    html = compare(client, newer, older)
    assert "The benchmark has changed between these runs" in html
    assert "8192 tokens" in html
    assert '<svg class="assay-chart"' not in html


def test_what_cannot_be_compared_is_said(client: Client) -> None:
    run = scenes.measured()
    assert "at least two runs" in compare(client, run)
    assert "different benchmarks" in compare(client, run, scenes.measured(benchmark="memory"))
    assert "no results to compare" in compare(client, run, scenes.under_way())
    assert "not the id of a run" in client.get("/compare?runs=a,b").content.decode()
    assert client.get("/compare?runs=a,b").status_code == 400
    assert client.get("/compare").status_code == 200
