"""Every benchmark runs from the command line's own runner, in its smallest form."""

from pathlib import Path

import pytest
import torch

from methods.protocol import Artefact, CheckResult, Failed, Result, Series
from methods.token_pruning import bench_latency, checks
from methods.token_pruning.checks import example
from methods.token_pruning.spec import METHOD
from methods.token_pruning.stream import Stream
from tests.methods.running import run_here

SMALLEST = {
    "tradeoff": {"base_steps": 1, "steps": 1},
    "training": {"base_steps": 1, "steps": 1},
    "latency": {"model": "a folder", "max_warm_up_s": 0},
}


@pytest.mark.parametrize("slug", SMALLEST)
def test_a_benchmark_checks_then_shows_series(slug: str, tmp_path: Path) -> None:
    given = dict(SMALLEST[slug])
    if "model" in given:  # as real weights are given
        example("cpu").save_pretrained(tmp_path)
        given["model"] = str(tmp_path)
    code, events = run_here(f"token_pruning.{slug}", given)
    assert code == 0, [event for event in events if isinstance(event, Failed)]
    assert isinstance(events[-1], Result)
    series = [event for event in events if isinstance(event, Series)]
    first = next(i for i, event in enumerate(events) if isinstance(event, Series))
    assert any(isinstance(event, CheckResult) for event in events[:first])
    assert any(point.ratio for one in series for point in one.points)
    for claim in METHOD.claims:
        if claim.answer and claim.answer.benchmark == slug:
            found = next(one for one in series if one.name == claim.answer.series)
            assert claim.answer.x in {point.x for point in found.points}
    if slug == "tradeoff":
        kept = next(event for event in events if isinstance(event, Artefact))
        assert kept.content.startswith("<svg")


@pytest.mark.parametrize("slug", SMALLEST)
def test_a_model_that_is_not_there(slug: str, tmp_path: Path) -> None:
    code, events = run_here(f"token_pruning.{slug}", {"model": str(tmp_path / "none")})
    assert code == 2
    assert isinstance(events[-1], Failed)
    assert "give a folder with config.json" in events[-1].message


def test_the_gate_of_latency_sees_rows_far_down_that_are_wrong(monkeypatch) -> None:
    llava, right = example("cpu"), checks.step
    stages = {"plain": [], "pruned": checks.pruner_of(llava).stages()}

    def wrong(llava, token, cache):
        logits = right(llava, token, cache)
        return torch.cat((logits[:4], 1.01 * logits[4:]))

    monkeypatch.setattr(checks, "step", wrong)

    def failed(rows):
        cases = bench_latency.at_shape(llava, checks.prompt_of(llava, rows), stages)
        return [case.label for case in cases if not case.passed]

    assert failed(4) == []
    assert len(failed(6)) == 2


def test_the_gate_of_latency_sees_a_pruned_reading_that_is_wrong(monkeypatch) -> None:
    """Decoding after it is wrong alike, and says nothing."""
    llava = example("cpu")
    stages = {"plain": [], "pruned": checks.pruner_of(llava).stages()}

    def failed():
        cases = bench_latency.at_shape(llava, checks.prompt_of(llava, 4), stages)
        return [case.label for case in cases if not case.passed]

    def mixed(self, index):
        moved = right(self, index)
        moved.hidden[:, 3:6] = moved.hidden[:, 3:6].flip(1)
        return moved

    assert failed() == []
    right = Stream.keep_visual
    monkeypatch.setattr(Stream, "keep_visual", mixed)
    assert failed() == ["pruned, 4 rows"]
