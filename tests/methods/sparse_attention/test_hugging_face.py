"""`attn_implementation="assay_sparse"` in transformers' own models, as a user calls them."""

import copy

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3Config,
    StaticCache,
)

from methods.errors import InputError
from methods.sparse_attention import hugging_face, selectors

SIZES = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 256, "bos_token_id": None, "eos_token_id": None,
    "pad_token_id": 0,
}  # fmt: skip
FAMILIES = {
    "llama": LlamaConfig(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "gemma2": Gemma2Config(**SIZES, sliding_window=20, query_pre_attn_scalar=9),  # soft caps
    "gemma3": Gemma3TextConfig(**SIZES, sliding_window=20, sliding_window_pattern=2),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "mistral, sliding": MistralConfig(**SIZES, sliding_window=20),
    "gpt2": GPT2Config(
        vocab_size=97, n_positions=256, n_embd=64, n_layer=2, n_head=4, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    ),
    "gpt_oss, sinks": GptOssConfig(
        **SIZES, sliding_window=20, num_local_experts=2, num_experts_per_tok=1,
        layer_types=["sliding_attention", "full_attention"],
    ),
}  # fmt: skip
SMALL = {"mean_pooled": {"top": 2, "key_block": 8}, "page_bounds": {"top": 2, "key_block": 8}}
SMALL |= {
    "window_sinks": {"window": 2, "key_block": 8},
    "strided": {"stride": 3, "window": 2, "key_block": 8},
    "top_p": {"p": 0.5, "most": 3, "key_block": 8},
    "indexer": {"top": 20, "width": 8},
    "reused": {"top": 20, "every": 2},
    "clusters": {"top": 16, "chunk": 16, "count": 2, "sinks": 2},
    "hierarchical": {"top": 2, "kept": 2, "blocks": 2, "key_block": 8},
}


def made(family, implementation="assay_sparse"):
    torch.manual_seed(0)
    config = copy.deepcopy(FAMILIES[family])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model


def tokens(batch=2, n=60):
    return torch.randint(1, 97, (batch, n), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_with_room_for_every_key_it_is_the_family_s_own_attention(family):
    sparse, dense = made(family), made(family, "eager")
    dense.load_state_dict(sparse.state_dict())
    hugging_face.choose(sparse, "mean_pooled", top=99, key_block=8)
    with torch.no_grad():
        torch.testing.assert_close(sparse(tokens()).logits, dense(tokens()).logits)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"mistral, sliding"}))
def test_it_leaves_something_out(family):
    sparse, dense = made(family), made(family, "eager")
    dense.load_state_dict(sparse.state_dict())
    hugging_face.choose(sparse, "mean_pooled", **SMALL["mean_pooled"])
    with torch.no_grad():
        assert (sparse(tokens()).logits - dense(tokens()).logits).abs().max() > 1e-4


def padded(row, length, side):
    pad = [0] * (length - len(row))
    ones = [1] * len(row)
    return (pad + row, pad + ones) if side == "left" else (row + pad, ones + pad)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_on_either_side_changes_no_sample(family, side):
    model = made(family)
    hugging_face.choose(model, "page_bounds", **SMALL["page_bounds"])
    rows = [tokens(1, n)[0].tolist() for n in (60, 41, 3)]
    batch = [padded(row, 60, side) for row in rows]
    ids, attention = (torch.tensor(part) for part in zip(*batch, strict=True))
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        together = model(ids, attention_mask=attention, position_ids=positions).logits
        for b, row in enumerate(rows):
            alone = model(torch.tensor([row])).logits[0]
            torch.testing.assert_close(together[b][attention[b] == 1], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "name"),
    [(family, name) for family in FAMILIES for name in ("mean_pooled", "page_bounds")]
    + [("llama", name) for name in sorted(set(SMALL) - {"mean_pooled", "page_bounds"})],
)
def test_generation_with_any_cache_or_none_equals_the_full_pass(family, name):
    """Step by step the logits are those of the whole sequence at once, with left padding too."""
    model = made(family)
    hugging_face.choose(model, name, **SMALL[name])
    rows = [tokens(1, n)[0].tolist() for n in (50, 33)]
    ids, attention = (
        torch.tensor(part) for part in zip(*(padded(row, 50, "left") for row in rows), strict=True)
    )
    words = {"max_new_tokens": 20, "do_sample": False, "output_logits": True}
    words |= {"return_dict_in_generate": True, "attention_mask": attention}
    caches = {"none": {"use_cache": False}, "theirs": {}}
    caches["ours"] = {"past_key_values": hugging_face.SparseCache(model.config)}
    found = {of: model.generate(ids, **words, **cache) for of, cache in caches.items()}
    for out in found.values():
        assert torch.equal(out.sequences, found["none"].sequences)
    for b, row in enumerate(rows):
        whole = found["ours"].sequences[b, 50 - len(row) :][None]
        with torch.no_grad():
            full = model(whole).logits[0, len(row) - 1 : -1]
        for out in found.values():
            steps = torch.stack([step[b] for step in out.logits])
            torch.testing.assert_close(steps, full, atol=3e-5, rtol=1e-4)


def test_a_layer_that_reuses_reads_what_the_one_before_it_chose():
    model, ids = made("llama"), tokens(1)
    with torch.no_grad():
        hugging_face.choose(model, "reused", top=8, every=2)
        reusing = model(ids).logits
        read: list[torch.Tensor] = []
        real = hugging_face.block_sparse_attention
        with pytest.MonkeyPatch.context() as patch:
            spied = lambda *given, **words: read.append(given[3]) or real(*given, **words)  # noqa: E731
            patch.setattr(hugging_face, "block_sparse_attention", spied)
            model(ids)
            hugging_face.choose(model, "reused", top=8, every=1)
            alone = model(ids).logits
    assert read[0] is read[1]
    assert torch.equal(read[2], read[0])
    assert not torch.equal(read[3], read[0])
    assert (alone - reusing).abs().max() > 1e-5
    hugging_face.choose(sliding := made("mistral, sliding"), "reused")
    with pytest.raises(InputError, match="reused is for models without sliding layers"):
        sliding(ids)


@pytest.mark.parametrize(
    ("family", "name"),
    [*((x, "mean_pooled") for x in ("llama", "gemma3")), ("llama", "clusters"), ("llama", "top_p")],
)
def test_our_cache_grows_in_chunks_is_cropped_and_searched_by_beams(family, name):
    """From a first chunk on that is shorter than a block."""
    model = made(family)
    hugging_face.choose(model, name, **SMALL[name])
    ids = tokens(1, 100)
    with torch.no_grad():
        full = model(ids).logits
        cache = hugging_face.SparseCache(model.config)
        chunks = [
            model(part, past_key_values=cache).logits for part in ids.split([5, 25, 1, 1, 7, 61], 1)
        ]
        torch.testing.assert_close(torch.cat(chunks, 1), full, atol=3e-5, rtol=1e-4)
    if family == "llama":
        cache.crop(45)
        with torch.no_grad():
            again = model(ids[:, 45:], past_key_values=cache).logits
        torch.testing.assert_close(again, full[:, 45:], atol=3e-5, rtol=1e-4)
    words = {"max_new_tokens": 12, "num_beams": 3, "do_sample": False}
    ours = hugging_face.SparseCache(model.config)
    beams = model.generate(ids[:, :40], past_key_values=ours, **words)
    assert torch.equal(beams, model.generate(ids[:, :40], use_cache=False, **words))


def test_a_static_cache_has_slots_that_nobody_sees():
    model = made("llama")
    hugging_face.choose(model, "page_bounds", **SMALL["page_bounds"])
    ids = tokens(1, 50)
    cache = StaticCache(config=model.config, max_cache_len=64)
    with torch.no_grad():
        parts = [model(part, past_key_values=cache).logits for part in ids.split([40, 1, 9], 1)]
        torch.testing.assert_close(torch.cat(parts, 1), model(ids).logits, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_saved_and_loaded_unchanged_and_trains(family, tmp_path):
    model = made(family)
    hugging_face.choose(model, "mean_pooled", **SMALL["mean_pooled"])
    model.train()
    model(tokens(), labels=tokens()).loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)
    model.eval().save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="assay_sparse")
    assert hugging_face.selector_of(loaded.config) == selectors.MeanPooled(2, key_block=8)
    with torch.no_grad():
        torch.testing.assert_close(loaded(tokens()).logits, model(tokens()).logits)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path)  # theirs reads it, too
    assert set(plain.state_dict()) == set(model.state_dict())


@pytest.mark.parametrize("name", ["antidiagonal", "vertical_slash"])
def test_prompts_are_sparse_and_what_follows_reads_every_key(name):
    model = made("llama")
    hugging_face.choose(model, name, block=16)
    out = model.generate(tokens(1, 90), max_new_tokens=5, do_sample=False)
    assert out.shape == (1, 95)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    model = made("llama").to(dtype)
    with torch.no_grad():
        assert model(tokens()).logits.isfinite().all()


def test_what_it_cannot_do_is_refused_in_a_sentence():
    model = made("llama")
    with pytest.raises(InputError, match="selector must be one of"):
        hugging_face.choose(model, "fastest")
    with pytest.raises(InputError, match="has no budget; it has key_block, sinks, top"):
        hugging_face.choose(model, "mean_pooled", budget=3)
    with pytest.raises(InputError, match="not for causal"):
        hugging_face.choose(model, "block_top_k")
    model.config.attention_dropout = 0.1
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.1
    with pytest.raises(InputError, match="dropout"):
        model.train()(tokens())
    packed = torch.arange(60).remainder(30)[None].expand(2, -1)
    with pytest.raises(InputError, match="packed"):
        model.eval()(tokens(), position_ids=packed, use_cache=False)
