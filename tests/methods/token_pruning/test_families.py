"""Pruning in other models' own classes of transformers, at toy size, with images and with video.

The reference is the class itself: what it predicts where nothing is pruned; where tokens leave
before the model, its decoder on the tokens that stay, at their own positions; where they leave
inside, its layers with the keys of those tokens hidden from there on.
"""

import pytest
import torch
from transformers import LlavaNextConfig, Qwen2_5_VLConfig, Qwen2VLConfig, Qwen3VLConfig

from methods.errors import InputError
from methods.kit.rows import take
from methods.token_pruning.choice import BEFORE, Stage
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.core import read
from methods.token_pruning.generate import generate, own_prompt, step
from methods.token_pruning.llava import load_llava
from methods.token_pruning.model import Pruner
from methods.token_pruning.selectors import REGISTRY
from methods.token_pruning.stream import Prompt

TEXT = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "initializer_range": 0.2, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
QWEN = {"text_config": TEXT | {"rope_parameters": ROPE}, "image_token_id": 60,
        "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}  # fmt: skip
PATCH = 3 * 2 * 4 * 4  # numbers of a patch: colours, two frames, four rows of four


def qwen(made, text=QWEN["text_config"], **vision):
    tower = {"depth": 2, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
             "temporal_patch_size": 2, "in_channels": 3, **vision}  # fmt: skip
    return made(**QWEN | {"text_config": text}, vision_config=tower)


CONFIGS = {
    "qwen2_vl": qwen(Qwen2VLConfig, embed_dim=32, hidden_size=32, mlp_ratio=2),
    "qwen2_5_vl": qwen(
        Qwen2_5_VLConfig, hidden_size=32, intermediate_size=64, out_hidden_size=32,
        window_size=16, fullatt_block_indexes=[1], tokens_per_second=2,
    ),
    "qwen3_vl": qwen(
        Qwen3VLConfig,
        TEXT | {"rope_parameters": ROPE | {"mrope_section": [2, 1, 1]}, "head_dim": 8},
        hidden_size=32, intermediate_size=64, out_hidden_size=32, depth=3,
        num_position_embeddings=16, deepstack_visual_indexes=[0, 2],
    ),
    "llava_next": LlavaNextConfig(
        vision_config={
            "model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
        },
        text_config=TEXT | {"model_type": "llama"}, image_token_index=60,
        image_grid_pinpoints=[[32, 64], [64, 32], [64, 64]],
    ),
}  # fmt: skip


def words(*rows):
    """Rows of token ids, padded on the left, with their mask."""
    wide = max(map(len, rows))
    ids = torch.tensor([[0] * (wide - len(row)) + row for row in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long()}


def asked(kind, model, grids=((4, 8), (4, 8))):
    """The output of a processor: two rows, one padded, each with an image (or a video).

    Qwen3-VL's has every frame of a video by itself, behind the time that it is of.
    """
    draw = torch.Generator().manual_seed(1)
    if kind == "llava_next":
        pixels, sizes = torch.randn(2, 5, 3, 32, 32, generator=draw), torch.tensor([[40, 60]] * 2)
        n = len(model.model.get_image_features(pixels, sizes).pooler_output[0])
        image = [60] * n
        return words([5, *image, 7, 8, 9], [*image, 9, 10]) | {
            "pixel_values": pixels, "image_sizes": sizes
        }  # fmt: skip
    video = kind.endswith("video")
    grid = torch.tensor([[2 if video else 1, *sides] for sides in grids])
    pixels = torch.randn(int(grid.prod(1).sum()), PATCH, generator=draw)
    token, type_ = (61, 2) if video else (60, 1)
    patches = [int(one.prod()) // 4 for one in grid]
    image, other = ([62, *[token] * n, 63] for n in patches)
    if kind == "qwen3_vl, video":
        image, other = (2 * [11, 12, 62, *[token] * (n // 2), 63] for n in patches)
    made = words([5, *image, 7, 8, 9], [*other, 9, 10])
    made["mm_token_type_ids"] = (made["input_ids"] == token).int() * type_
    names = (
        ("pixel_values_videos", "video_grid_thw") if video else ("pixel_values", "image_grid_thw")
    )
    return made | dict(zip(names, (pixels, grid), strict=True))


KINDS = [*CONFIGS, "qwen2_vl, video", "qwen2_5_vl, video", "qwen3_vl, video"]


@pytest.fixture(params=KINDS)
def given(request):
    model = load_llava(CONFIGS[request.param.partition(",")[0]])
    for name, weight in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):  # all ones at first, and so alike
            weight.copy_(
                torch.rand(len(weight), generator=torch.Generator().manual_seed(len(name)))
            )
            weight.add_(0.5 if "q_norm" in name else 1.0)
    made = asked(request.param, model)
    return model, made, own_prompt(model, made)


def test_where_nothing_is_pruned_it_is_the_class_s_own_model(given):
    model, made, prompt = given
    with torch.no_grad():
        wanted = model(**made).logits[:, -1]
    reading = read(model, prompt)
    torch.testing.assert_close(reading.logits[:, -1], wanted, atol=1e-5, rtol=1e-5)
    if model.config.model_type != "llava_next":
        axes = prompt.places[1, prompt.real()[1]]
        assert (axes[:, 1] != axes[:, 2]).any()  # rows and columns of the image
        assert int(prompt.places.max()) + 1 < prompt.ids.shape[1]  # text goes on behind the sides
        following = prompt.places[:, -1].max(-1, keepdim=True).values + 1
        assert torch.equal(reading.cache.position if reading.cache else following, following)


def deep_features(model, made, index, is_image):
    """Features that Qwen3-VL's tower adds after the first layers, for the tokens at `index`."""
    if model.config.model_type != "qwen3_vl":
        return {}
    kind = "video" if "video_grid_thw" in made else "image"
    pixels = made["pixel_values_videos" if kind == "video" else "pixel_values"]
    with torch.no_grad():
        every = model.model.visual(pixels, grid_thw=made[f"{kind}_grid_thw"]).deepstack_features
    stays = is_image.gather(1, index)
    number = is_image.flatten().cumsum(0).view_as(is_image) - 1  # of a visual token among all
    here = number.gather(1, index)[stays]
    return {"visual_pos_masks": stays, "deepstack_visual_embeds": [one[here] for one in every]}


def test_what_stays_before_the_model_is_read_at_its_own_positions(given):
    model, made, prompt = given
    stage = Stage(BEFORE, 5, REGISTRY["divprune"])
    reading = read(model, prompt, [stage])
    visual = prompt.embeds.new_zeros(prompt.ids.shape, dtype=torch.bool)
    is_image = torch.isin(prompt.ids, torch.tensor([60, 61]))
    kept = reading.kept[BEFORE]
    places = is_image.nonzero()[:, 1].view(2, -1).gather(1, kept)
    stays = visual.scatter(1, places, True) | ~is_image
    index = stays.nonzero()[:, 1].view(2, -1)
    axes = torch.arange(prompt.ids.shape[1]).sub((~prompt.real()).sum(1, keepdim=True)).clamp(min=0)
    axes = axes[..., None] if prompt.places is None else prompt.places
    positions = axes.gather(1, index[..., None].expand(-1, -1, axes.shape[-1])).movedim(2, 0)
    with torch.no_grad():
        hidden = model.model.language_model(
            inputs_embeds=take(prompt.embeds, index),
            attention_mask=prompt.real().gather(1, index).long(),
            position_ids=positions[0] if len(positions) == 1 else positions,
            **deep_features(model, made, index, is_image),
        ).last_hidden_state
        wanted = model.lm_head(hidden[:, -1])
    torch.testing.assert_close(reading.logits[:, -1], wanted, atol=1e-5, rtol=1e-5)
    assert reading.counts == [index.shape[1]] * 4


@pytest.mark.parametrize("name", ["fastv", "pyramiddrop", "divprune", "sparsevlm", "cdpruner"])
def test_what_leaves_inside_is_hidden_from_the_layers_after(given, name):
    model, made, prompt = given
    reading = read(model, prompt, [Stage(2, 4, REGISTRY[name])])
    is_image = torch.isin(prompt.ids, torch.tensor([60, 61]))
    places = is_image.nonzero()[:, 1].view(2, -1)
    gone = is_image.scatter(1, places.gather(1, reading.kept[2]), False)

    def hide(_, args, words):
        return args, words | {"attention_mask": words["attention_mask"] & ~gone[:, None, None]}

    hooks = [
        layer.register_forward_pre_hook(hide, with_kwargs=True)
        for layer in model.model.language_model.layers[2:]
    ]
    with torch.no_grad():
        wanted = model(**made).logits[:, -1]
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(reading.logits[:, -1], wanted, atol=1e-5, rtol=1e-5)
    assert torch.equal(reading.kept[2].sort(1).values, reading.kept[2])


@pytest.mark.parametrize(("name", "layer"), [("fastv", 1), ("pyramiddrop", 2)])
def test_what_is_chosen_by_attention_is_what_the_class_s_own_layers_attend_to(given, name, layer):
    """The last word's attention in the layer before, and in the layer to come."""
    model, made, prompt = given
    model.set_attn_implementation("eager")
    with torch.no_grad():
        attention = model(**made, output_attentions=True).attentions[layer]
    model.set_attn_implementation("sdpa")  # the configuration is shared
    paid = attention.mean(1)[:, -1]  # (B, T)
    places = torch.isin(prompt.ids, torch.tensor([60, 61])).nonzero()[:, 1].view(2, -1)
    wanted = paid.gather(1, places).topk(4).indices.sort(1).values
    assert torch.equal(read(model, prompt, [Stage(2, 4, REGISTRY[name])]).kept[2], wanted)


def test_what_is_written_is_the_class_s_own_and_goes_on_from_the_right_position(given):
    """Without pruning word for word transformers' text; pruned, a step is a longer reading."""
    model, made, prompt = given
    with torch.no_grad():
        theirs = model.generate(**made, max_new_tokens=6, do_sample=False)
    assert torch.equal(generate(model, prompt, [], 6), theirs[:, prompt.ids.shape[1] :])
    stages = [Stage(BEFORE, 6, REGISTRY["uniform"]), Stage(2, 3, REGISTRY["divprune"])]
    written = generate(model, prompt, stages, 4)
    reading = read(model, prompt, stages, cached=True)
    token = written[:, :1]
    again = prompt.places is not None and prompt.places[:, -1:] + 1
    deep = prompt.deep
    longer = Prompt(
        torch.cat([prompt.ids, token], 1),
        deep=None if deep is None else torch.cat([deep, torch.zeros_like(deep[:, :1])], 1),
        mask=torch.cat([prompt.real(), token > -1], 1),
        embeds=torch.cat([prompt.embeds, model.model.language_model.embed_tokens(token)], 1),
        places=None if prompt.places is None else torch.cat([prompt.places, again], 1),
    )
    wanted = read(model, longer, stages).logits[:, -1]
    torch.testing.assert_close(step(model, token, reading.cache), wanted, atol=1e-5, rtol=1e-5)
    alone = [
        generate(model, prompt.each(lambda x, b=b: x[b : b + 1, -int(prompt.real()[b].sum()) :]),
                 stages, 4)
        for b in (0, 1)
    ]  # fmt: skip
    assert torch.equal(written, torch.cat(alone))


def test_what_other_families_have_not_is_refused(given):
    model, _, prompt = given
    with pytest.raises(InputError, match="merger and heads are for llava models"):
        Pruner(model, PruningConfig())
    with pytest.raises(InputError, match="this choice reads a CLIP's CLS and keys"):
        read(model, prompt, [Stage(BEFORE, 5, REGISTRY["visionzip"])])
    short = prompt.each(lambda part: part.clone())
    short.ids[1, (short.ids[1] >= 60).nonzero()[1]] = 7
    with pytest.raises(InputError, match=r"visual tokens; .* ask them one by one, rows=1"):
        read(model, short)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "llava_next"])
def test_rows_with_images_of_different_sizes_are_written_as_each_alone(kind):
    """And so is a row without an image."""
    model = load_llava(CONFIGS[kind.partition(",")[0]])
    made = asked(kind, model, ((4, 8), (8, 8)))
    prompt = own_prompt(model, made)
    with torch.no_grad():
        theirs = model.generate(**made, max_new_tokens=5, do_sample=False)
    assert torch.equal(generate(model, prompt, [], 5), theirs[:, prompt.ids.shape[1] :])
    stages = [Stage(BEFORE, 6, REGISTRY["divprune"]), Stage(1, 3, REGISTRY["fastv"])]
    alone = [generate(model, prompt.each(lambda x, b=b: x[b : b + 1]), stages, 5) for b in (0, 1)]
    assert torch.equal(generate(model, prompt, stages, 5), torch.cat(alone))
    words_alone = Prompt(made["input_ids"][:, -2:], embeds=prompt.embeds[:, -2:])
    assert generate(model, words_alone, stages, 3).shape == (2, 3)
    with pytest.raises(InputError, match="visual tokens; all need equally many"):
        read(model, prompt)
