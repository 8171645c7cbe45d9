"""Jobs that a worker refuses, even if a site has signed them."""

from __future__ import annotations

import pytest

from methods import registry
from methods.worker import app
from tests.methods.worker.jobs import JOB


def job(**params: object):
    _, benchmark = registry.find("token_pruning.latency")
    named = {"method": "token_pruning", "benchmark": "latency", "version": benchmark.version}
    return JOB.model_copy(update={**named, "params": params})


def allow(monkeypatch: pytest.MonkeyPatch, *models: str) -> None:
    monkeypatch.setattr(app, "SETTINGS", app.SETTINGS.model_copy(update={"models": models}))


def test_it_measures_the_models_that_its_operator_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, "someone/a-model")
    assert app.refusal(job(model="someone/a-model")) == ""
    assert app.refusal(job()) == ""


@pytest.mark.parametrize("value", ["someone/other", "/etc", "../../home", "https://host/x"])
def test_it_refuses_every_other_model(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    allow(monkeypatch, "someone/a-model")
    assert "ASSAY_MODELS" in app.refusal(job(model=value))


@pytest.mark.parametrize("value", ["/etc", "../../home", "someone/a-model"])
def test_it_refuses_a_folder_of_its_machine(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    allow(monkeypatch, "someone/a-model")
    assert "folder" in app.refusal(job(folder=value))


@pytest.mark.parametrize("apart", [-1, 1])
def test_it_refuses_another_version_of_a_benchmark(apart: int) -> None:
    other = job().model_copy(update={"version": job().version + apart})
    assert f"version {job().version}" in app.refusal(other)
