"""Loading, bad input, training with and without interruption."""

import math
from dataclasses import replace

import pytest
import torch

from methods.errors import InputError
from methods.kit.checkpoint import Checkpoint, CheckpointError, save_state
from methods.kit.rows import take
from methods.token_pruning import scenes, toy
from methods.token_pruning.checks import TINY, answered, example, prompt_of, pruner_of
from methods.token_pruning.choice import BEFORE, Stage, top
from methods.token_pruning.config import PruningConfig, faithful
from methods.token_pruning.core import read, soft_gate
from methods.token_pruning.generate import generate
from methods.token_pruning.llava import load_llava, sized
from methods.token_pruning.model import Pruner, SimpleMerger, load_pruner
from methods.token_pruning.selectors import REGISTRY
from methods.token_pruning.stream import Prompt
from methods.token_pruning.training import Trainer, train


@pytest.fixture(scope="module")
def llava():
    return example("cpu")


def test_a_saved_model_is_pruned_like_the_one_in_memory(llava, tmp_path):
    llava.save_pretrained(tmp_path)
    again = load_llava(tmp_path)
    prompt = prompt_of(llava)
    ours, theirs = (read(m, prompt, pruner_of(m).stages()).logits for m in (llava, again))
    assert torch.equal(ours, theirs)
    assert not any(p.requires_grad for p in again.parameters())


def test_no_model_here(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=r"no LLaVA at .*give a folder with config.json"):
        load_llava(tmp_path / "none")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(InputError, match="'gpt2'; this method prunes llava"):
        load_llava(tmp_path)


def test_a_model_without_weights_or_with_nan(llava, tmp_path):
    llava.config.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"weights of .* cannot be read"):
        load_llava(tmp_path)
    damaged = example("cpu")
    with torch.no_grad():
        damaged.lm_head.weight[0, 0] = math.nan
    damaged.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"lm_head\.weight holds NaN"):
        load_llava(tmp_path)


def test_prompts_and_images_that_do_not_fit(llava):
    prompt = prompt_of(llava)
    with pytest.raises(InputError, match=r"images have shape \(2, 3, 16, 16\)"):
        read(llava, replace(prompt, pixels=prompt.pixels[..., :16, :16]))
    with pytest.raises(InputError, match=r"rows hold \[15\] image placeholders"):
        read(llava, replace(prompt, ids=prompt.ids[:, 3:], mask=None))
    with pytest.raises(InputError, match="token ids lie in"):
        read(llava, replace(prompt, ids=prompt.ids + 60))
    with pytest.raises(InputError, match=r"ids integers; not .* torch.float32"):
        read(llava, replace(prompt, ids=prompt.ids.float()))
    with pytest.raises(InputError, match="not empty"):
        read(llava, replace(prompt, ids=prompt.ids[:, :0], mask=None))


def test_masks_of_integers_are_read_as_those_of_truth_values(llava):
    """As a processor's attention_mask comes."""
    prompt, pruner = prompt_of(llava, 2, padding=(0, 3)), pruner_of(llava)
    asked = prompt.mask & (torch.arange(prompt.ids.shape[1]) > 20)
    plain = replace(prompt, asked=asked)
    whole = replace(prompt, asked=asked.long(), mask=prompt.mask.long())
    found, wanted = (read(llava, one, pruner.stages()) for one in (whole, plain))
    assert torch.equal(found.logits, wanted.logits)
    assert torch.equal(generate(llava, whole, [], 3), generate(llava, plain, [], 3))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([(4, 4)], "no pruning layer 4: the model has layers 0 to 3"),
        ([(1, 17)], "a budget of 17 visual tokens; 16 are there"),
        ([(1, 4), (2, 5)], "a budget of 5 visual tokens; 4 are there"),
        ([(2, 4), (1, 3)], "must rise"),
        ([(1, 0)], "a budget of 0"),
    ],
)
def test_stages_that_do_not_fit(llava, stages, message):
    plan = [Stage(layer, keep, REGISTRY["random"]) for layer, keep in stages]
    with pytest.raises(InputError, match=message):
        read(llava, prompt_of(llava), plan)


def test_pruners_that_do_not_fit(llava, tmp_path):
    with pytest.raises(InputError, match="no pruning layer 9: the model"):
        Pruner(llava, replace(TINY, pruning_layers=(1, 2, 9)))
    pruner = pruner_of(llava)
    path = tmp_path / "pruner.pt"
    pruner.save(path)
    pruner_of(llava, seed=1).restore(path)
    with pytest.raises(CheckpointError, match=r"of another shape: heads\.1"):
        pruner_of(llava, replace(TINY, d_internal=8)).restore(path)
    with pytest.raises(CheckpointError, match="is of another model"):
        pruner_of(llava, replace(TINY, merger_type="none")).restore(path)
    with torch.no_grad():
        pruner.heads["1"].vision.bias[0] = math.nan
    pruner.save(path)
    with pytest.raises(CheckpointError, match="holds NaN"):
        pruner_of(llava).restore(path)
    path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        pruner_of(llava).restore(path)
    for config in ({}, {"config": [1]}):
        save_state(path, config)
        with pytest.raises(CheckpointError, match=r"is not what Pruner\.save wrote"):
            load_pruner(llava, path)
    with pytest.raises(InputError, match="no number"):
        top(torch.tensor([[1.0, math.nan]]), 1)


def test_writing_after_pruning(llava):
    prompt = prompt_of(llava, 2, padding=(0, 3))
    text = generate(llava, prompt, pruner_of(llava).stages(), 5)
    assert text.shape == (2, 5)
    with pytest.raises(InputError, match="room for 1 to"):
        generate(llava, prompt, [], 10_000)


def learner(llava, loss="adversarial"):
    return pruner_of(llava, replace(TINY, loss=loss, merger_lr=1e-3, pruner_lr=1e-3))


def weights(pruner):
    return torch.cat([p.detach().flatten() for p in pruner.parameters()])


@pytest.mark.parametrize("loss", ["adversarial", "mse", "none", "attention"])
def test_resuming_changes_nothing(llava, tmp_path, loss):
    prompt, kept = answered(llava), Checkpoint(tmp_path / "run.pt", every=2)
    whole = learner(llava, loss)
    before = weights(whole).clone()
    train(whole, lambda _: prompt, 4)
    assert not torch.equal(before, weights(whole))

    def interrupt(step, _history):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(learner(llava, loss), lambda _: prompt, 4, checkpoint=kept, on_step=interrupt)
    again = learner(llava, loss)
    history = train(again, lambda _: prompt, 4, checkpoint=kept)
    assert len(history.loss) == 4
    assert torch.equal(weights(whole), weights(again))


def test_checkpoints_of_another_run(llava, tmp_path):
    prompt, kept = answered(llava), Checkpoint(tmp_path / "run.pt")
    train(learner(llava), lambda _: prompt, 1, checkpoint=kept)
    with pytest.raises(CheckpointError, match=r"made with another plan: .*seed 0, now 1"):
        train(learner(llava), lambda _: prompt, 1, 1, checkpoint=kept)
    with pytest.raises(CheckpointError, match="made with another config: loss 'adversarial', now"):
        train(learner(llava, "mse"), lambda _: prompt, 1, checkpoint=kept)


def test_what_cannot_be_trained(llava):
    nothing = replace(TINY, merger_type="none", pruning_layers=(), keep_tokens=())
    with pytest.raises(InputError, match="nothing to train"):
        Trainer(pruner_of(llava, nothing), 1)
    with pytest.raises(InputError, match="no targets"):
        train(learner(llava), lambda _: prompt_of(llava), 1)


def test_the_faithful_variant_runs_and_drops_late(llava):
    values = vars(TINY) | {"scored_merge": False, "gate": "scale", "drop": "after"}
    pruner = pruner_of(llava, faithful(**values))
    found = read(llava, prompt_of(llava), pruner.stages())
    assert found.counts == [14, 14, 12, 10]
    assert list(found.kept) == [BEFORE, 1, 2, 3]
    train(pruner, lambda _: answered(llava), 1)


def test_gates_anneal_to_hard():
    logits = torch.tensor([[3.0, -3.0]])
    warm, cold = (soft_gate(logits, tau, noisy=False).exp() for tau in (1.0, 0.1))
    assert 0.9 < float(warm[0, 0]) < float(cold[0, 0])
    assert float(cold[0, 1]) < 1e-12
    assert float(warm[0, 1]) > 0.01


def test_scenes_hold_what_they_say():
    generator = torch.Generator().manual_seed(0)
    drawn = scenes.draw(16, generator)
    assert drawn.pixels.shape == (16, 3, 128, 128)
    assert ((drawn.shape < scenes.SHAPES).sum(1) == scenes.OBJECTS).all()
    for row in drawn.shape:
        glyphs = row[row < scenes.SHAPES]
        assert len(set(glyphs.tolist())) == scenes.OBJECTS
    assert len({tuple(g.flatten().tolist()) for g in scenes.GLYPHS}) == scenes.SHAPES
    asked = scenes.ask(drawn, 40, generator)
    for b, q in ((0, 0), (3, 7), (15, 39)):
        named, holds = asked.needed[b, q].tolist()
        kind = scenes.KINDS[int(asked.kind[b, q])]
        assert int(asked.ids[b, q, 1]) == scenes.SHAPE_0 + int(drawn.shape[b, named])
        wanted = scenes.COLOUR_0 + int(drawn.colour[b, holds])
        if kind == "row":
            wanted = scenes.ROW_0 + named // scenes.GRID
        assert int(asked.answer[b, q]) == wanted
        assert (holds != named) == (kind == "target")
        if kind == "target":
            assert int(drawn.target[b, named]) == int(drawn.shape[b, holds])


@pytest.fixture
def merging():
    """A merger and ten tokens of different lengths."""
    torch.manual_seed(0)
    merger = SimpleMerger(8, 8, PruningConfig(d_internal=16)).eval()
    V = torch.randn(2, 10, 8) * torch.arange(1, 11)[:, None]
    return merger, (V, torch.zeros(2, 1, 8), torch.ones(2, 1, dtype=torch.bool))


@torch.no_grad()
def test_in_training_tokens_that_are_not_chosen_stay_and_are_gated(merging):
    merger, given = merging
    loose = merger(*given, 4, tau=1.0, noise=True)
    assert loose.tokens.shape == (2, 10, 8)
    assert ((loose.gate == 0).sum(1) == 4).all()
    assert (loose.gate <= 0).all()
    dropped = loose.gate < 0
    assert torch.equal(loose.tokens[dropped], given[0][dropped])
    cold = merger(*given, 4, tau=1e-3, noise=True).gate
    assert cold[cold < 0].mean() < -100  # as good as gone
    assert merger(*given, 4, tau=0.1).tokens.shape == (2, 4, 8)


@torch.no_grad()
def test_a_token_is_nearest_to_itself_however_long_the_others_are(merging):
    merger, given = merging
    merged = merger(*given, 4, tau=0.01)
    own = take(merged.weights, merged.index)  # (2, 4, 4)
    assert torch.equal(own.argmax(-1), torch.arange(4).expand(2, 4))


@torch.no_grad()
def test_questions_in_one_sequence_are_read_as_if_each_were_alone():
    llava = load_llava(sized("scenes"), seed=0)
    generator = torch.Generator().manual_seed(0)
    drawn = scenes.draw(2, generator)
    asked = scenes.ask(drawn, 3, generator)
    loss, logits = toy.lesson(llava, drawn, asked)
    alone = read(llava, toy.prompts(drawn, asked)).logits[:, -1]
    assert torch.allclose(logits.flatten(0, 1), alone, atol=1e-4)
    assert 0 < float(loss) < 100
    shapes = drawn.shape.gather(1, asked.needed[..., 1])
    assert torch.equal(asked.sought, scenes.SHAPE_0 + shapes)


def test_models_that_do_not_speak_of_scenes(llava, tmp_path):
    llava.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has 64 words and images of 32"):
        toy.trained(0, 1, model=str(tmp_path))
    assert [sum(toy.split(k)) for k in (2, 3, 8, 16)] == [4, 6, 16, 32]


def test_a_trained_model_is_kept_and_found_again(tmp_path):
    first = toy.trained(0, 1, folder=str(tmp_path))
    again = toy.trained(0, 1, folder=str(tmp_path))
    pairs = zip(first.state_dict().values(), again.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    exam = toy.Exam(again, 16, 0)
    assert 0 <= exam.accuracy() <= 1
    assert set(exam.by_kind()) <= set(scenes.KINDS)


def test_a_prompt_s_default_mask_is_everything():
    assert Prompt(torch.zeros(1, 3), torch.zeros(1)).real().all()
    assert sized().image_seq_length == 16
