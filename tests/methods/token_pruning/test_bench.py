"""Every benchmark runs from the command line's own runner, in its smallest form."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from methods import registry
from methods.context import Context
from methods.protocol import Artefact, CheckResult, Failed, Result, Series
from methods.token_pruning import bench, checks, scenes, toy
from methods.token_pruning.accounting import LLAVA_7B
from methods.token_pruning.checks import example
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.core import read
from methods.token_pruning.llava import load_llava, sized
from methods.token_pruning.spec import METHOD
from methods.token_pruning.stream import Stream
from methods.token_pruning.training import History
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


def test_one_loss_is_trained_alone_beside_the_task() -> None:
    code, events = run_here(
        "token_pruning.training", SMALLEST["training"] | {"only": "adversarial"}
    )
    assert code == 0
    series = {event.name: event for event in events if isinstance(event, Series)}
    final = {point.variant for point in series["final"].points}
    assert final == {"chance", "unpruned", "none", "adversarial"}
    assert {point.variant for point in series["judge"].points} == {"adversarial"}


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
        cases = bench.at_shape(llava, checks.prompt_of(llava, rows), stages)
        return [case.label for case in cases if not case.passed]

    assert failed(4) == []
    assert len(failed(6)) == 2


def test_the_gate_of_latency_sees_a_pruned_reading_that_is_wrong(monkeypatch) -> None:
    """Decoding after it is wrong alike, and says nothing."""
    llava = example("cpu")
    stages = {"plain": [], "pruned": checks.pruner_of(llava).stages()}

    def failed():
        cases = bench.at_shape(llava, checks.prompt_of(llava, 4), stages)
        return [case.label for case in cases if not case.passed]

    def mixed(self, index):
        moved = right(self, index)
        moved.hidden[:, 3:6] = moved.hidden[:, 3:6].flip(1)
        return moved

    assert failed() == []
    right = Stream.keep_visual
    monkeypatch.setattr(Stream, "keep_visual", mixed)
    assert failed() == ["pruned, 4 rows"]


@pytest.mark.parametrize("slug", ["tradeoff", "training"])
def test_seeds_are_counted_from_the_run_s(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def trained(seed: int, *_: object, **__: object) -> None:
        seen.append(seed)
        raise InterruptedError

    monkeypatch.setattr(toy, "trained", trained)
    ctx = Context("cpu", 7, lambda event: None, repeated=True)
    _, benchmark = registry.find(f"token_pruning.{slug}")
    with pytest.raises(InterruptedError):
        registry.load("token_pruning", benchmark.entry)(ctx, benchmark.resolve("smoke"))
    assert seen == [7]


def test_an_exam_is_of_its_seed_and_none_of_what_was_trained_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llava, draws = load_llava(sized("scenes")), []
    exams = [toy.Exam(llava, 8, seed) for seed in (0, 0, 1)]
    shown = [exam.drawn.pixels for exam in exams]
    assert torch.equal(shown[0], shown[1])
    assert not torch.equal(shown[0], shown[2])
    batches = [toy.batches(seed, 1)(step).pixels for seed in (0, 1) for step in (0, 1)]
    every = torch.cat([shown[0], shown[2], *batches])
    assert len(every.flatten(1).unique(dim=0)) == 6
    monkeypatch.setattr(
        toy, "read", lambda *_, generator, **__: (draws.append(generator.initial_seed()), exam)[1]
    )
    exam = SimpleNamespace(logits=torch.zeros(8, 1, scenes.VOCAB))
    for draw in (0, 3):
        exams[0].accuracy((), draw)
    assert draws == [0, 3]


def test_chance_is_the_mean_of_its_draws() -> None:
    exam = SimpleNamespace(accuracy=lambda stages, draw: (draw + 1) / 10)
    for name, right in (("random_both", 20), ("cdpruner", 10)):
        values: list[float] = []
        bench._note(values, name, exam, [], 3)  # type: ignore[arg-type]
        assert values == [pytest.approx(right)]


def test_curves_are_means_over_so_many_steps() -> None:
    histories = [History(accuracy=[0.0, 0.5, 1.0, 1.0, 0.2], task=[5.0, 4, 3, 2, 1])] * 2
    found = bench._curve({"mse": histories}, "accuracy", 2)
    assert found == {("mse", 2.0): [25, 25], ("mse", 4.0): [100, 100], ("mse", 5.0): [20, 20]}
    assert bench._curve({"mse": histories}, "task", 5) == {("mse", 5.0): [3, 3]}


@torch.no_grad()
def test_decoding_that_is_timed_goes_back_to_where_it_began() -> None:
    llava = example("cpu")
    prompt = checks.prompt_of(llava, 2, padding=(0, 3))
    cache = read(llava, prompt, checks.pruner_of(llava).stages(), cached=True).cache
    assert cache is not None
    before = cache.bytes(), [bias.shape for bias in cache.bias if bias is not None]
    position = cache.position.clone()
    bench._decode(llava, cache, prompt.ids[:, -1:], 3)
    assert before == (cache.bytes(), [bias.shape for bias in cache.bias if bias is not None])
    assert torch.equal(position, cache.position)


def test_the_timed_schedule_is_the_source_s_in_proportion() -> None:
    text = SimpleNamespace(num_hidden_layers=32, hidden_size=4096)
    vision = SimpleNamespace(image_size=336, patch_size=14)
    config = SimpleNamespace(text_config=text, vision_config=vision)
    found = bench.schedule(SimpleNamespace(config=config))
    source = PruningConfig()
    assert (found.pruning_layers, found.keep_tokens) == (source.pruning_layers, source.keep_tokens)
    assert found.d_internal == source.d_internal


def test_what_operations_allow_stands_beside_what_is_timed() -> None:
    """At LLaVA-7B's sizes: 2.11 times with the tower, 2.21 without it, 2.2 by tokens."""
    _, benchmark = registry.find("token_pruning.latency")
    ctx = Context("cpu", 0, lambda event: None)
    made = bench._series(ctx, LLAVA_7B, PruningConfig(), benchmark.resolve("smoke", {"text": 100}))
    limits = {name: one.snapshot(partial=True).limits for name, one in made.items()}
    found = {name: round(lines[0].points[0][1], 2) for name, lines in limits.items() if lines}
    assert found == {"first": 2.11, "prefill": 2.21, "kv_bytes": 2.2}


def test_the_gate_of_latency_holds_in_half_precision() -> None:
    """As on a GPU: what hides a token must be a number of that type."""
    llava = example("cpu").bfloat16()
    stages = {"plain": [], "pruned": checks.pruner_of(llava).bfloat16().stages()}
    cases = list(bench.at_shape(llava, checks.prompt_of(llava, 2), stages))
    assert {case.passed for case in cases} == {True}
