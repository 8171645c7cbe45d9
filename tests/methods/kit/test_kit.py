"""Code that methods share: checked values, seeds, noise, checkpoints, the training loop."""

import math
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import Field
from torch import nn
from transformers import Qwen3ForCausalLM

from methods.concept_lm.base import tiny_config
from methods.context import Context
from methods.errors import InputError
from methods.kit import frozen
from methods.kit.checkpoint import (
    Checkpoint,
    CheckpointError,
    load_weights,
    read_state,
    save_state,
    state_of,
)
from methods.kit.compare import difference, largest, relative
from methods.kit.config import configuration, read_yaml
from methods.kit.corpus import Corpus, folder
from methods.kit.folders import unreadable
from methods.kit.frozen import load_beside, load_frozen, load_tokenizer
from methods.kit.noise import gumbel, straight_through
from methods.kit.report import Charts
from methods.kit.seeds import randn, seeded
from methods.kit.training import History, Plan, fit


@configuration
class Settings:
    layers: Annotated[int, Field(ge=1)]
    kind: Literal["a", "b"] = "a"
    rate: float = 0.1

    def __post_init__(self):
        if self.kind == "b" and self.layers == 1:
            raise ValueError("kind b needs two layers")


def test_settings_are_checked_whichever_way_they_are_given():
    assert Settings(2, kind="b").kind == "b"
    assert hash(Settings(2)) == hash(Settings(layers=2))
    with pytest.raises(InputError, match=r"layers: .* 1, not 0\nkind: .*'a' or 'b', not 'c'"):
        Settings(0, kind="c")
    with pytest.raises(InputError, match="kind b needs two layers"):
        Settings(1, kind="b")
    with pytest.raises(InputError, match="rate: "):
        Settings(1, rate=math.nan)
    with pytest.raises(InputError, match="depth"):
        Settings(1, depth=3)


@pytest.mark.parametrize(
    ("text", "said"), [("- 1", "no mapping"), ("a: [", "no YAML"), (None, "cannot be read")]
)
def test_a_file_of_settings_that_is_none(tmp_path, text, said):
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_yaml(path)


def test_a_seeded_block_leaves_the_generator_as_it_was():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    with seeded(1):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), wanted)
    with seeded(1):
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(randn(4, seed=2), torch.randn(4, generator=torch.Generator().manual_seed(2)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gumbel_noise_is_gumbel(dtype):
    with seeded(0):
        noise = gumbel(torch.empty(1, dtype=dtype), (200_000,)).double()
    assert noise.isfinite().all()
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.02)
    assert float(noise.var()) == pytest.approx(math.pi**2 / 6, rel=0.03)


def test_straight_through_is_hard_forward_and_soft_backward():
    logits = randn(100, seed=0).requires_grad_()
    soft = logits.sigmoid()
    hard = (soft > 0.5).float()
    made = straight_through(hard, soft)
    assert torch.equal(made, hard)
    (found,) = torch.autograd.grad(made.sum(), logits)
    assert torch.allclose(found, (soft * (1 - soft)).detach())


def test_what_is_relative_is_to_the_wanted_norm():
    """Of (3, 4) a tenth; what is nearly nothing counts as a thousandth."""
    assert relative(torch.tensor([3.3, 4.4]), torch.tensor([3.0, 4.0])) == pytest.approx(0.1)
    assert relative(torch.tensor([2e-4]), torch.tensor([1e-4])) == pytest.approx(0.1)


def test_differences_do_not_hide_nan():
    a = torch.tensor([1.0, 2.0])
    assert difference(a, torch.tensor([1.0, 2.5])) == 0.5
    assert math.isnan(difference(a, torch.tensor([1.0, math.nan])))
    assert largest([1.0, 3.0, 2.0]) == 3.0
    assert math.isnan(largest([1.0, math.nan, 2.0]))


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Parameter(torch.ones(3), requires_grad=False)
        self.slope = nn.Parameter(torch.zeros(3))


def train(path=None, stop=None, about=None, steps=6):
    line, history = Line(), History()
    optimiser = torch.optim.AdamW([line.slope])

    def loss(i):
        if i == stop:
            raise KeyboardInterrupt
        return ((line.slope - torch.rand(3) - line.base) ** 2).sum()

    kept = path and Checkpoint(path, about or {"task": {"rate": 0.1}}, every=2)
    fit(loss, optimiser, Plan(steps, 0.1, seed=3), history, module=line, checkpoint=kept)
    return line, history


def test_a_run_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path):
    path = tmp_path / "run.pt"
    whole, wanted = train()
    with pytest.raises(KeyboardInterrupt):
        train(path, stop=5)
    again, history = train(path)
    assert history == wanted
    assert len(history.loss) == 6
    assert torch.equal(again.slope, whole.slope)
    assert "base" not in torch.load(path)["parts"]["module"]  # frozen weights are not copied


def test_a_training_that_has_ended_can_be_extended(tmp_path):
    """At the rates of the longer plan; one that was interrupted keeps its own."""
    path = tmp_path / "run.pt"
    _, before = train(path)
    line, history = train(path, steps=9)
    assert len(history.loss) == 9
    assert history.loss[:6] == before.loss
    again, same = train(path, steps=9)  # there is nothing left to do
    assert same == history
    assert torch.equal(line.slope, again.slope)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut.pt", stop=5)
    with pytest.raises(CheckpointError, match="another plan: steps 6, now 9"):
        train(tmp_path / "cut.pt", steps=9)


def test_checkpoints_that_do_not_fit(tmp_path):
    path = tmp_path / "run.pt"
    train(path)
    with pytest.raises(CheckpointError, match=r"another task: rate 0\.1, now 0\.2"):
        train(path, about={"task": {"rate": 0.2}})
    with pytest.raises(CheckpointError, match="another plan: steps 6, now 5"):
        train(path, steps=5)
    torch.save(torch.load(path) | {"format": 99}, path)
    with pytest.raises(CheckpointError, match="format 99, this code reads 2"):
        train(path)
    train(whole := tmp_path / "whole.pt")
    state = torch.load(whole)
    optimiser = state["parts"]["optimiser"] | {"param_groups": []}
    for damaged in (
        {"history": 3},
        {"parts": 3},
        {"parts": {"module": 3}},
        {"parts": {}},
        {"parts": state["parts"] | {"optimiser": optimiser}},
    ):
        torch.save(state | damaged, whole)
        with pytest.raises(CheckpointError, match=r"whole\.pt is damaged"):
            train(whole)
    save_state(path, {"weights": {}})  # of this format, but what a finished training keeps
    with pytest.raises(CheckpointError, match="made with another task: None, now"):
        train(path)
    for damaged in (b"not a checkpoint", b""):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            train(path)


def test_a_bit_that_flipped_is_seen(tmp_path):
    """Every byte of a weight changes the model without making it unreadable or infinite."""
    path, weight = tmp_path / "weights.pt", torch.arange(1.0, 9.0)
    save_state(path, {"weights": {"weight": weight}})
    whole, bytes_of_weight = path.read_bytes(), weight.numpy().tobytes()
    place = whole.index(bytes_of_weight)
    for offset in range(0, len(bytes_of_weight), 5):
        flipped = bytearray(whole)
        flipped[place + offset] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(CheckpointError, match=r"is not a checkpoint: .* is damaged"):
            read_state(path)
    path.write_bytes(whole)
    assert torch.equal(read_state(path)["weights"]["weight"], weight)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w.pop("slope"), "slope is not in it"),
        (lambda w: w.update(extra=torch.ones(1)), "extra is too much in it"),
        (lambda w: w.update(slope=torch.ones(4)), r"slope is \(4,\) there and \(3,\) here"),
        (lambda w: w.update(slope=torch.full((3,), math.nan)), "slope holds NaN"),
        (
            lambda w: w.update(slope=torch.ones(3, dtype=torch.long)),
            "of another type: slope is torch.int64 there and torch.float32 here",
        ),
    ],
)
def test_weights_that_do_not_fit(change, said):
    weights = dict(state_of(Line()))
    change(weights)
    with pytest.raises(CheckpointError, match=said):
        load_weights(Line(), weights, "x.pt")


def test_frozen_weights_are_not_copied_under_any_of_their_names():
    """A head that is the embedding, as in most small language models."""
    line = Line()
    line.head = nn.Module()
    line.head.weight = line.base
    assert list(state_of(line)) == ["slope"]


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "run.pt"
    save_state(path, {"a": 1})
    for size in (1, 1 << 20):  # what is buffered is written when the file is closed
        (tmp_path / "run.pt.partial").symlink_to("/dev/full")
        with pytest.raises(CheckpointError, match=r"run.pt cannot be written, .* No space left"):
            save_state(path, {"a": torch.zeros(size)})
        assert [one.name for one in tmp_path.iterdir()] == ["run.pt"]
        assert torch.load(path)["a"] == 1
    with pytest.raises(CheckpointError, match="No such file or directory"):
        save_state(tmp_path / "none" / "run.pt", {})


def test_a_checkpoint_of_another_device_is_read(tmp_path, monkeypatch):
    """A model trained on a GPU is trained on, or used, without one."""
    path = tmp_path / "run.pt"
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:7")
    save_state(path, {"a": torch.ones(2)})
    assert read_state(path)["a"].device.type == "cpu"


def test_an_image_of_which_half_is_there_cannot_be_read(tmp_path):
    """A JPEG's head is all that opening it needs."""
    pixels = np.random.default_rng(0).integers(0, 255, (300, 200, 3), dtype=np.uint8)
    for name in ("whole.jpg", "small.png", "grey.jpg"):
        image = Image.fromarray(pixels if name[0] != "s" else pixels[:9, :9])
        (image.convert("L") if name[0] == "g" else image).save(tmp_path / name)
        assert unreadable(tmp_path / name) == ""
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        assert unreadable(tmp_path / name) == f"{name} is no image that can be read"
    assert unreadable(tmp_path / "none.jpg") == "none.jpg is not there"
    assert unreadable(tmp_path) == f"{tmp_path.name} is no image that can be read"


def test_an_image_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    Image.new("RGB", (20, 20)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert unreadable(tmp_path / "bomb.png") == "bomb.png is no image that can be read"


def test_damaged_files_beside_a_configuration(tmp_path):
    """The many exceptions that libraries raise for half a file become one clear message."""
    config = tiny_config(d=32, layers=1, d_ff=32, heads=2, kv_heads=1)
    Qwen3ForCausalLM(config).save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"weights of .* cannot be read"):
        load_frozen(Qwen3ForCausalLM, tmp_path)
    for text in ("{", '{"a": 1}', "[]"):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(InputError, match="has no tokenizer beside its weights"):
            load_beside(str(tmp_path), "tokenizer")


def test_a_tokenizer_has_no_more_words_than_its_weights(monkeypatch):
    monkeypatch.setattr(frozen, "load_beside", lambda *_: range(300))
    with pytest.raises(InputError, match="'here' has 300 words, its weights 256"):
        load_tokenizer("here", 256)
    assert load_tokenizer("here", 300) == range(300)


def test_a_loss_that_is_no_number():
    line = Line()
    optimiser = torch.optim.SGD([line.slope])
    with pytest.raises(InputError, match="the loss is nan at step 4"):
        fit(
            lambda i: line.slope.sum() * (math.nan if i == 4 else 1.0),
            optimiser, Plan(9), History(), module=line,
        )  # fmt: skip


def test_rates_rise_and_fall_and_groups_have_their_speed():
    plan = Plan(20, 2.0, warm_up=4)
    assert [plan.rate_at(i) for i in (0, 3, 4)] == [0.5, 2.0, 2.0]
    assert plan.rate_at(12) == pytest.approx(1.1)
    assert plan.rate_at(8) == pytest.approx(2 * (0.1 + 0.9 * (1 + 0.5**0.5) / 2))  # a cosine
    for values in ({"steps": 0}, {"steps": 1, "rate": 0}, {"steps": 1, "clip": 0}):
        with pytest.raises(InputError, match=f"{list(values)[-1]}: Input should be greater than"):
            Plan(**values)
    model = nn.Linear(1, 1)
    groups = [{"params": [model.weight]}, {"params": [model.bias], "speed": 10.0}]
    optimiser = torch.optim.SGD(groups, lr=0.0)
    begun = [p.detach().clone() for p in model.parameters()]
    history = fit(
        lambda i: model(torch.ones(1)).sum(), optimiser, Plan(2, 0.1, warm_up=0, clip=2.0, least=1),
        History(), module=model,
    )  # fmt: skip
    assert history.grad_norm == pytest.approx([2**0.5] * 2)
    moved = [float(old - new.detach()) for old, new in zip(begun, model.parameters(), strict=True)]
    assert moved == pytest.approx([0.2, 2.0])


def test_a_gradient_that_is_too_long_is_cut() -> None:
    line = Line()
    optimiser = torch.optim.SGD([line.slope], lr=0.0)
    plan = Plan(1, 1.0, warm_up=0, clip=0.5, least=1)
    history = fit(lambda i: 40 * line.slope.sum(), optimiser, plan, History(), module=line)
    assert history.grad_norm == pytest.approx([40 * 3**0.5])
    assert float(line.slope.detach().norm()) == pytest.approx(0.5, rel=1e-3)


def test_each_step_has_numbers_of_its_own_and_of_its_seed() -> None:
    drawn: list[float] = []
    for seed in (0, 0, 1):
        line = Line().eval()

        def loss(_: int, line: Line = line) -> torch.Tensor:
            assert line.training
            drawn.append(float(torch.rand(())))
            return line.slope.sum()

        optimiser = torch.optim.SGD([line.slope], lr=0.0)
        fit(loss, optimiser, Plan(3, seed=seed), History(), module=line)
        assert not line.training
    assert drawn[:3] == drawn[3:6]
    assert len(set(drawn)) == 6


def test_batches_are_of_their_seed_and_what_is_judged_is_spread() -> None:
    corpus = Corpus(torch.arange(250).byte(), torch.arange(101).byte(), "")
    drawn = [corpus.batch(step, 4, 8, seed) for step in (0, 1) for seed in (0, 1)]
    assert len({tuple(batch[:, 0].tolist()) for batch in drawn}) == 4
    assert corpus.judged(5, 20)[:, 0].tolist() == [0, 20, 40, 60, 80]


def test_a_text_that_cannot_be_read_is_named(tmp_path, monkeypatch) -> None:
    (tmp_path / "secret.txt").write_text("x" * 100)

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(InputError, match=r"secret\.txt cannot be read: .*Permission denied"):
        folder(str(tmp_path))


CHARTS = """
[variants]
toys = [
  {name = "old", label = "an old toy"},
  {name = "new", label = "a new one", ours = true},
  {name = "lost", label = "one that is not shown"},
]
[series.right]
title = "Right after {steps} steps"
x = {label = "task", scale = "category"}
y = {label = "right", unit = "%"}
direction = "lower"
baseline = "old"
variants = "toys"
[series.wrong]
like = "right"
title = "Wrong"
"""


def test_series_are_declared(tmp_path):
    (tmp_path / "charts.toml").write_text(CHARTS)
    ctx = Context("cpu", 0, lambda event: None)
    ctx.check("oracle", 0.0, 0.0)
    charts = Charts(ctx, str(tmp_path / "bench.py"))
    table = {("old", "a"): [2.0, 4.0, 8.0], ("new", "a"): [1.0, 2.0, 4.0], ("new", "b"): [2.0] * 3}
    charts.seeds("right", table, limits={"none": 0.0, "some": len}, steps=3)
    charts.open("wrong", ["new", "old"]).add_exact("a", {"new": 1.0})
    right, wrong = ctx.release(partial=False)
    assert right.title == "Right after 3 steps"
    assert [limit.points for limit in right.limits] == [
        (("a", 0.0), ("b", 0.0)), (("a", 1.0), ("b", 1.0))
    ]  # fmt: skip
    times = {(p.variant, p.x): p.ratio and p.ratio.runs for p in right.points}
    assert times["old", "a"] is None
    assert times["new", "a"] == (2.0, 2.0, 2.0)  # half as much, where lower is better
    assert times["new", "b"] == (1.0, 2.0, 4.0)  # against the baseline's only place
    assert (wrong.title, wrong.y) == ("Wrong", right.y)
    assert [variant.name for variant in wrong.variants] == ["old", "new"]


def test_seeds_are_compared_with_those_of_the_baseline_at_the_same_place(tmp_path):
    (tmp_path / "charts.toml").write_text(CHARTS)
    ctx = Context("cpu", 0, lambda event: None)
    ctx.check("oracle", 0.0, 0.0)
    table = {("old", "a"): [2.0] * 3, ("old", "b"): [8.0] * 3, ("old", "c"): [5.0] * 3}
    table |= {("new", "a"): [1.0] * 3, ("new", "b"): [1.0] * 3, ("new", "d"): [1.0] * 3}
    Charts(ctx, str(tmp_path / "bench.py")).seeds("right", table, steps=3)
    (series,) = ctx.release(partial=False)
    times = {p.x: p.ratio and p.ratio.value for p in series.points if p.variant == "new"}
    assert times == {"a": pytest.approx(2.0), "b": pytest.approx(8.0), "d": None}
