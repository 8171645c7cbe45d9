"""`attn_implementation="assay_sparse"` in transformers' own models, as a user calls them."""

import copy

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
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
from methods.sparse_attention import hugging_face
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.oracle import head_masks

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
}


def made(family, implementation="assay_sparse"):
    torch.manual_seed(0)
    config = copy.deepcopy(FAMILIES[family])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model


def choose(model, name, **options):
    """As `hugging_face.choose`; a model whose layers all slide stays as it is."""
    if model.config.model_type != "mistral" or not model.config.sliding_window:
        hugging_face.choose(model, name, **options)


def tokens(batch=2, n=60):
    return torch.randint(1, 97, (batch, n), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", FAMILIES)
def test_with_room_for_every_key_it_is_the_family_s_own_attention(family):
    sparse, dense = made(family), made(family, "eager")
    dense.load_state_dict(sparse.state_dict())
    choose(sparse, "mean_pooled", top=99, key_block=8)
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
    choose(model, "page_bounds", **SMALL["page_bounds"])
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
    choose(model, name, **SMALL[name])
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


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *((x, "mean_pooled") for x in ("llama", "gemma3")),
        ("llama", "page_bounds"),
        ("llama", "top_p"),
    ],
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
    choose(model, "mean_pooled", **SMALL["mean_pooled"])
    model.train()
    model(tokens(), labels=tokens()).loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)
    model.eval().save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="assay_sparse")
    assert hugging_face.selector_of(loaded.config) == hugging_face.selector_of(model.config)
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


@pytest.mark.parametrize("drop", [0, -1, -7, -8, -55, -99, 45, 100, 200])
@pytest.mark.parametrize("name", ["mean_pooled", "page_bounds", "strided"])
def test_a_cropped_cache_goes_on_from_what_it_holds(name, drop):
    """Negative drops the last tokens, 0 none, a positive length keeps the first ones."""
    model = made("llama")
    hugging_face.choose(model, name, **SMALL[name])
    ids, other = tokens(2, 100), tokens(2, 140)[:, 100:]
    length = max(0, 100 + drop) if drop <= 0 else min(drop, 100)
    cache = hugging_face.SparseCache(model.config)
    cache.crop(drop)  # nothing is stored yet
    with torch.no_grad():
        model(ids, past_key_values=cache)
        cache.crop(drop)
        assert cache.get_seq_length() == length
        found = model(other, past_key_values=cache).logits
        whole = model(torch.cat([ids[:, :length], other], 1)).logits[:, length:]
        torch.testing.assert_close(found, whole, atol=3e-5, rtol=1e-4)
        cache.reset()
        assert cache.get_seq_length() == 0
        again = model(ids[:1], past_key_values=cache).logits
    torch.testing.assert_close(again, model(ids[:1]).logits, atol=3e-5, rtol=1e-4)


WAYS = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "prompt lookup": {"prompt_lookup_num_tokens": 4},
    "assistant": {"assistant_model": True},
    "static": {"cache_implementation": "static"},
    "no cache": {"use_cache": False},
}
PLAIN = sorted(set(FAMILIES) - {"gemma3", "gpt_oss, sinks", "mistral, sliding"})


def generated(model, way, cache, ids, **words):
    """Continue by a way of transformers: one prompt for those that write several tokens."""
    words |= WAYS[way] | {"max_new_tokens": 12, "do_sample": False}
    if way == "assistant":
        torch.manual_seed(3)
        words["assistant_model"] = AutoModelForCausalLM.from_config(model.config).eval()
    if cache == "ours" and way not in {"static", "no cache"}:
        words["past_key_values"] = hugging_face.SparseCache(model.config)
    return model.generate(ids, **words)


@pytest.mark.parametrize(
    ("family", "way", "cache"),
    [(family, "prompt lookup", "ours") for family in PLAIN]
    + [("llama", way, cache) for way in WAYS for cache in ("theirs", "ours")],
)
def test_every_way_to_generate_writes_the_tokens_of_the_full_pass(family, way, cache):
    """At a full budget those of the family's own attention, at a small one those without a cache.

    A prompt that repeats itself gives prompt lookup something to propose.
    """
    sparse, dense = made(family), made(family, "eager")
    dense.load_state_dict(sparse.state_dict())
    ids = tokens(1, 10).repeat(1, 4)
    hugging_face.choose(sparse, "mean_pooled", top=99, key_block=8)
    plain = generated(dense, "beams" if way == "beams" else "greedy", "theirs", ids)
    assert torch.equal(generated(sparse, way, cache, ids), plain)
    hugging_face.choose(sparse, "page_bounds", **SMALL["page_bounds"])
    beams = {"num_beams": 3} if way == "beams" else {}
    full = generated(sparse, "no cache", cache, ids, **beams)
    assert torch.equal(generated(sparse, way, cache, ids), full)


@pytest.mark.parametrize(
    ("family", "way"),
    [*((family, "static") for family in PLAIN), ("llama", "greedy"), ("llama", "beams")],
)
def test_a_padded_batch_writes_what_each_prompt_writes_alone(family, way):
    model = made(family)
    hugging_face.choose(model, "page_bounds", **SMALL["page_bounds"])
    rows = [tokens(1, n)[0].tolist() for n in (40, 31, 4)]
    ids, attention = (
        torch.tensor(part) for part in zip(*(padded(row, 40, "left") for row in rows), strict=True)
    )
    together = generated(model, way, "theirs", ids, attention_mask=attention)[:, 40:]
    for row, found in zip(rows, together, strict=True):
        alone = generated(model, way, "theirs", torch.tensor([row]))[0, len(row) :]
        assert torch.equal(found, alone)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3"])
def test_checkpointing_gives_the_same_gradients(family):
    model = made(family).train()
    choose(model, "page_bounds", **SMALL["page_bounds"])

    def gradients():
        model.zero_grad()
        model(tokens(), labels=tokens(), use_cache=False).loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    model.gradient_checkpointing_enable()
    for found, wanted in zip(gradients(), plain, strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_model_is_compiled_and_exported_whole_and_a_packed_sample_is_refused():
    model, ids = made("llama"), tokens()
    hugging_face.choose(model, "page_bounds", **SMALL["page_bounds"])
    words = {"use_cache": False}
    with torch.no_grad():
        plain = model(ids, **words).logits
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(ids, **words).logits, plain)
        exported = torch.export.export(model, (ids,), words).module()
        torch.testing.assert_close(exported(ids, **words).logits, plain)
        packed = torch.arange(60).remainder(30)[None].expand(2, -1)
        with pytest.raises(RuntimeError, match="packed"):
            torch.compile(model, backend="eager")(ids, position_ids=packed, **words)


BANDED = torch.ones(60, 60).tril().triu(-20).bool()[None, None]


@pytest.mark.parametrize(
    "mask", [BANDED, BANDED.expand(2, -1, -1, -1), torch.where(BANDED, 0.0, -1e9)]
)
def test_a_mask_of_four_dimensions_is_refused(mask):
    with pytest.raises(InputError, match="takes no mask of"):
        made("llama")(tokens(), attention_mask=mask)


def test_a_model_without_the_attention_interface_is_refused_by_name():
    sizes = {"vocab_size": 97, "hidden_size": 64, "n_layer": 2, "n_head": 4}
    model = AutoModelForCausalLM.from_config(
        BloomConfig(**sizes), attn_implementation="assay_sparse"
    )
    with pytest.raises(InputError, match="bloom does not use transformers' attention interface"):
        hugging_face.choose(model, "mean_pooled")
    with pytest.raises(InputError, match="bloom does not use"):
        model(tokens())


def test_sliding_layers_stay_as_they_are_and_are_named(caplog):
    with pytest.raises(InputError, match="every layer of this model has a sliding window"):
        hugging_face.choose(made("mistral, sliding"), "mean_pooled")
    with caplog.at_level("INFO"):
        hugging_face.choose(made("gemma3"), "mean_pooled")
    assert "1 of 2 layers keep their sliding window" in caplog.text


def test_weights_of_attention_are_not_returned_as_nothing():
    with pytest.raises(InputError, match="no weights to return"):
        made("llama")(tokens(), output_attentions=True)


GROUPS = {"local_heads": 2, "global_heads": 2, "window_size": 7, "global_token_ratio": 0.2}


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_grouped_heads_are_the_family_s_own_attention_under_their_masks(family):
    """Theirs by a mask for each head."""
    sparse, dense = made(family), made(family, "eager")
    dense.load_state_dict(sparse.state_dict())
    words = GROUPS | {"adaptive_window": False}
    hugging_face.choose(sparse, "grouped_heads", **words)
    read = head_masks(SparseAttentionConfig(**words), 60, 60)[None].expand(2, -1, -1, -1)
    masks = torch.zeros(read.shape).masked_fill(~read, torch.finfo(torch.float32).min)
    with torch.no_grad():
        wanted = dense(tokens(), attention_mask=masks).logits
        torch.testing.assert_close(sparse(tokens()).logits, wanted, atol=2e-5, rtol=1e-4)


def test_grouped_heads_decode_as_the_full_pass_with_padding_and_keep_their_window():
    model = made("llama")
    hugging_face.choose(model, "grouped_heads", **GROUPS, min_window_size=1)
    assert hugging_face.selector_of(model.config).window_size == 42  # 7 sqrt(256 / 7)
    rows = [tokens(1, n)[0].tolist() for n in (40, 31)]
    ids, attention = (
        torch.tensor(part) for part in zip(*(padded(row, 40, "left") for row in rows), strict=True)
    )
    for way in ("greedy", "static"):
        together = generated(model, way, "ours", ids, attention_mask=attention)[:, 40:]
        for row, found in zip(rows, together, strict=True):
            alone = generated(model, "no cache", "", torch.tensor([row]))[0, len(row) :]
            assert torch.equal(found, alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local_heads": 8}, "but the model has 4 heads"),
        ({"local_heads": 1, "global_heads": 3}, "cuts a key-value head"),
        ({"budget": 3}, "grouped_heads: "),
    ],
)
def test_grouped_heads_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        hugging_face.choose(made("llama"), "grouped_heads", **(GROUPS | options))
