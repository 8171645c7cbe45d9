"""Writing after a pruned prompt: transformers' own words where all is kept, in every precision."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoProcessor, GPT2Config, SiglipVisionConfig

from methods.errors import InputError
from methods.token_pruning.checks import TINY, answered, example, keep_all, prompt_of, pruner_of
from methods.token_pruning.choice import BEFORE, Stage
from methods.token_pruning.core import read
from methods.token_pruning.generate import answer, ask, generate
from methods.token_pruning.llava import encode, load_llava, sized
from methods.token_pruning.model import load_pruner, run
from methods.token_pruning.selectors import REGISTRY
from methods.token_pruning.stream import Prompt, embed
from methods.token_pruning.training import train
from tests.methods.token_pruning.conftest import picture

README = Path(__file__).parents[3] / "methods/token_pruning/README.md"


@pytest.fixture
def llava():
    return example("cpu")


def theirs(llava, prompt, new):
    """The new tokens that transformers generates."""
    images = {} if prompt.pixels is None else {"pixel_values": prompt.pixels}
    with torch.no_grad():
        ids = llava.generate(
            input_ids=prompt.ids, **images, attention_mask=prompt.real().long(), max_new_tokens=new
        )
    return ids[:, prompt.ids.shape[1] :]


def test_rows_end_where_transformers_ends_them(llava):
    """The end is the token that row 0 writes third and another row writes somewhere else."""
    prompt = prompt_of(llava, 3, padding=(0, 3, 1))
    llava.generation_config.eos_token_id, llava.generation_config.pad_token_id = None, 0
    free = generate(llava, prompt, keep_all(pruner_of(llava)), 12)
    assert free.shape == (3, 12)
    assert torch.equal(free, theirs(llava, prompt, 12))
    for end in (int(free[0, 2]), [int(free[0, 2]), int(free[1, 4])]):
        llava.generation_config.eos_token_id = end
        ours = generate(llava, prompt, keep_all(pruner_of(llava)), 12)
        assert torch.equal(ours, theirs(llava, prompt, 12))
    llava.generation_config.max_new_tokens = 2
    assert generate(llava, prompt, []).shape == (3, 2)


def test_padding_on_the_right_is_refused(llava):
    prompt = prompt_of(llava)
    ids = torch.nn.functional.pad(prompt.ids, (0, 2))
    with pytest.raises(InputError, match="pad on the left"):
        generate(llava, Prompt(ids, prompt.pixels, ids > 0), [], 3)


@pytest.mark.parametrize("name", ["num_beams", "num_return_sequences", "prompt_lookup_num_tokens"])
def test_what_is_not_done_here_is_refused(llava, name):
    setattr(llava.generation_config, name, 4)
    with pytest.raises(InputError, match="pruned decoding is greedy or samples, once a row"):
        generate(llava, prompt_of(llava), [], 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("repetition_penalty", 1.5), ("no_repeat_ngram_size", 1), ("min_new_tokens", 9)],
)
def test_tokens_are_weighed_as_transformers_weighs_them(llava, name, value):
    prompt, stages = prompt_of(llava, 3, padding=(0, 3, 1)), keep_all(pruner_of(llava))
    config = llava.generation_config
    config.eos_token_id, config.pad_token_id = None, 0
    config.eos_token_id = int(generate(llava, prompt, stages, 12)[0, 3])
    plain = generate(llava, prompt, stages, 12)
    setattr(config, name, value)
    found = generate(llava, prompt, stages, 12)
    assert torch.equal(found, theirs(llava, prompt, 12))
    assert not torch.equal(found, plain)


def test_sampling_follows_the_warped_distribution(llava):
    config = llava.generation_config
    config.do_sample, config.temperature, config.top_k, config.eos_token_id = True, 0.7, 2, None
    prompt = prompt_of(llava, 1)
    logits = read(llava, prompt).logits[0, -1]
    wanted = (logits.topk(2).values / 0.7).softmax(-1)
    many = Prompt(prompt.ids.repeat(2000, 1), prompt.pixels.repeat(2000, 1, 1, 1))
    found = generate(llava, many, [], 1, generator=torch.Generator().manual_seed(0))[:, 0]
    few, drawn = many.each(lambda part: part[:40]), []
    for other in (0, 1):  # what else is drawn has no part in it
        torch.manual_seed(other)
        source = torch.Generator().manual_seed(0)
        drawn.append(generate(llava, few, [], 1, generator=source))
    assert torch.equal(*drawn)
    shares = [float((found == token).float().mean()) for token in logits.topk(2).indices]
    assert sum(shares) == 1
    assert shares[0] == pytest.approx(float(wanted[0]), abs=0.04)


def mixed(llava):
    """One image, none, two: rows of one prompt, with each row alone beside it."""
    n, image = 16, torch.full((16,), 2)
    words = torch.randint(3, 64, (3, 8), generator=torch.Generator().manual_seed(5))
    rows = [
        torch.cat((words[0, :2], image, words[0, 2:])),
        words[1],
        torch.cat((words[2, :1], image, words[2, 1:4], image, words[2, 4:])),
    ]
    wide = max(len(row) for row in rows)
    ids = torch.stack([torch.nn.functional.pad(row, (wide - len(row), 0)) for row in rows])
    mask = torch.stack([torch.arange(wide) >= wide - len(row) for row in rows])
    pixels = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    alone = [
        Prompt(rows[0][None], pixels[:1]), Prompt(rows[1][None]), Prompt(rows[2][None], pixels[1:])
    ]  # fmt: skip
    assert n == len(image)
    return Prompt(ids, pixels, mask), alone


def test_several_images_and_words_alone(llava):
    llava.generation_config.eos_token_id = None
    prompt, alone = mixed(llava)
    whole = generate(llava, prompt, keep_all(pruner_of(llava)), 6)
    for row, one in zip(whole, alone, strict=True):
        assert torch.equal(row[None], theirs(llava, one, 6))
    stages = pruner_of(llava).stages()
    pruned = generate(llava, prompt, stages, 6)
    for row, one in zip(pruned, alone, strict=True):
        assert torch.equal(row[None], generate(llava, one, stages, 6))
    two = read(llava, alone[2], stages)
    assert two.counts == [8 + 2 * k for k in (8, 6, 4, 2)]
    assert (two.kept[3].diff(dim=1) > 0).all()
    assert read(llava, alone[1], stages).counts == [8] * 4
    zipped = read(llava, alone[2], [Stage(BEFORE, 6, REGISTRY["visionzip"])])
    assert zipped.counts == [8 + 2 * 6] * 4
    with pytest.raises(InputError, match="3 images are given and the rows ask for 1"):
        read(llava, replace(alone[0], pixels=prompt.pixels))
    with pytest.raises(InputError, match=r"rows hold \[0, 1, 2\] images"):
        read(llava, prompt)


@pytest.mark.parametrize(
    "text", [{"model_type": "mistral", "sliding_window": None}, {"model_type": "qwen2"}]
)
def test_other_decoders(text):
    llava = load_llava(sized(text=text), dtype=torch.float32)
    assert llava.config.text_config.model_type == text["model_type"]
    prompt = prompt_of(llava, 2, padding=(0, 3))
    llava.generation_config.eos_token_id = None
    ours = generate(llava, prompt, keep_all(pruner_of(llava)), 5)
    assert torch.equal(ours, theirs(llava, prompt, 5))


def test_kinds_of_models_that_are_refused():
    with pytest.raises(InputError, match="sliding window"):
        load_llava(sized(text={"model_type": "mistral"}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("vision_feature_select_strategy", "full", "reads CLS"),
        ("vision_feature_layer", [-2, -1], "features of several layers at once"),
        ("vision_config", None, "a llava with no vision tower"),
        ("vision_config", SiglipVisionConfig(), "a llava with siglip_vision_model; the tower must"),
        ("text_config", GPT2Config(), "a llava on gpt2; llama, mistral, qwen2, "),
    ],
)
def test_configurations_that_are_refused(name, value, message):
    config = sized()
    setattr(config, name, value)
    with pytest.raises(InputError, match=message):
        load_llava(config)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", ["attention", "adversarial", "mse", "none"])
def test_half_precision(tmp_path, saved, dtype, loss):
    """A saved checkpoint trains and writes in its own type; the pruner's weights are float32."""
    llava = load_llava(saved(tmp_path / "model", dtype))
    assert llava.dtype == dtype
    pruner = pruner_of(llava, replace(TINY, loss=loss, pruner_lr=1e-3, merger_lr=1e-3))
    before = torch.cat([p.detach().flatten() for p in pruner.parameters()])
    history = train(pruner, lambda _: answered(llava), 3)
    after = torch.cat([p.detach().flatten() for p in pruner.parameters()])
    assert after.dtype == torch.float32
    assert not torch.equal(before, after)
    assert all(norm > 0 for norm in history.grad_norm)
    pruner.save(tmp_path / "pruner.pt")
    again = load_pruner(llava, tmp_path / "pruner.pt")
    assert not again.training
    prompt = prompt_of(llava, 2, padding=(0, 3))
    ids = generate(llava, prompt, again.stages(), 4)
    assert torch.equal(ids, generate(llava, prompt, pruner.stages(), 4))
    full = read(llava, prompt, keep_all(pruner)).logits
    with torch.no_grad():
        wanted = llava(
            input_ids=prompt.ids, pixel_values=prompt.pixels.to(dtype),
            attention_mask=prompt.real().long(),
        ).logits[:, -1:]  # fmt: skip
    assert full.dtype == dtype
    assert torch.allclose(full.float(), wanted.float(), atol=0.1)


def test_double_precision_reads_padded_rows_and_learns():
    llava = load_llava(sized(), dtype=torch.float64)
    pruner = pruner_of(llava, replace(TINY, loss="none"))
    prompt = prompt_of(llava, 2, padding=(0, 3))
    found = read(llava, prompt, pruner.stages()).logits
    single = read(example("cpu"), prompt_of(example("cpu"), 2, padding=(0, 3)), pruner.stages())
    assert torch.allclose(found.float(), single.logits, atol=1e-4)
    assert train(pruner, lambda _: answered(llava), 1).grad_norm[0] > 0


@pytest.mark.parametrize("gate", ["bias", "scale"])
def test_a_pruner_learns_under_autocast(llava, gate):
    found = []
    for enabled in (False, True):
        pruner = pruner_of(llava, replace(TINY, loss="mse", gate=gate))
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found.append(train(pruner, lambda _: answered(llava), 1).loss[0])
    assert found[0] == pytest.approx(found[1], rel=0.05)


@pytest.mark.parametrize("weight", [25.0, 1e-5])
def test_half_precision_s_gradients_are_those_of_full(tmp_path, saved, weight):
    """The loss of float16 is scaled: small gradients would vanish in it, or double by rounding."""
    config, found = replace(TINY, loss="none", task_loss_weight=weight), []
    config = replace(config, sparsity_weight=0.0, merge_sparsity_weight=0.0)
    for dtype in (torch.float32, torch.float16):
        llava = load_llava(saved(tmp_path / str(dtype), torch.float16), dtype=dtype)
        pruner = pruner_of(llava, config)
        found.append(train(pruner, lambda _, m=llava: answered(m), 1).grad_norm[0])
    assert found[0] == pytest.approx(found[1], rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_a_gate_that_is_shut_hides_no_whole_row_in_half_precision(dtype):
    """The first token is visual and sees itself alone, by a gate below the least float16."""
    llava = load_llava(sized(), dtype=dtype)
    prompt = answered(llava, 2)
    prompt = prompt.each(lambda part: part[:, 2:] if part.shape == prompt.ids.shape else part)
    stream = embed(llava, prompt, encode(llava, prompt.pixels), None)
    stream.gate = torch.where(stream.visual, -1e5, 0.0)
    states, logits, _ = run(llava, stream, (-1, -3), lambda *_: None)
    assert all(part.isfinite().all() for part in (*states, logits))
    rows = stream.bias()
    assert rows is not None
    assert rows.isfinite().all()


def test_the_readme_s_examples_run_as_written(tmp_path, saved, monkeypatch):
    """On a float16 checkpoint of 32 layers and 576 patches, saved where the example looks."""
    saved(
        tmp_path / "llava-hf/llava-1.5-7b-hf",
        vision={"image_size": 96, "patch_size": 4},
        text={"num_hidden_layers": 32, "max_position_embeddings": 1024},
    )
    picture(side=120).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    one_line, learnt = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    ran: dict[str, object] = {}
    exec(compile(one_line, str(README), "exec"), ran)
    assert ran["ids"].shape[1] > ran["inputs"]["input_ids"].shape[1]
    exec(compile(learnt, str(README), "exec"), ran)
    assert ran["llava"].dtype == torch.float16
    assert isinstance(ran["texts"], list)
    assert all(isinstance(text, str) and "<" not in text for text in ran["texts"])


def test_questions_become_prompts(tmp_path, saved):
    llava = load_llava(saved(tmp_path))
    processor = AutoProcessor.from_pretrained(tmp_path)
    prompt = ask(llava, processor, ["what is this ?", "yes ?"], [picture(), None])
    assert ((prompt.ids == 2).sum(1)).tolist() == [16, 0]
    assert prompt.real()[:, -1].all()
    assert not prompt.real()[1, 0]
    texts = answer(
        llava, processor, ["what ?", "two ?"], [[picture(), picture(1)], None], [], new=3
    )
    assert len(texts) == 2
    with pytest.raises(InputError, match="1 questions and 2 entries"):
        ask(llava, processor, ["what ?"], [None, None])


def test_a_model_set_to_eager_attention_does_not_look_ahead(llava):
    """Without padding there is no mask, and of transformers' ways that one alone is not causal."""
    prompt = prompt_of(llava, 2)
    wanted, words = read(llava, prompt, []).logits, generate(llava, prompt, [], 3)
    llava.set_attn_implementation("eager")
    torch.testing.assert_close(read(llava, prompt, []).logits, wanted, atol=1e-5, rtol=1e-5)
    assert torch.equal(generate(llava, prompt, [], 3), words)
