"""Contract of `attn_implementation="assay_sparse"`: families of transformers by modes.

With room for every key a model is the same model with PyTorch's attention. With few keys it is the
same model under `oracle`: attention in float64 whose keys are chosen by the loops of `definitions`.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig
from transformers import AutoModelForCausalLM as Auto
from transformers.masking_utils import eager_mask

from methods.errors import InputError
from methods.sparse_attention import definitions, hugging_face
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.oracle import head_masks, masked_attention

SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0,
    "max_position_embeddings": 256, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
SLIDING = {"sliding_window": 20, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts_per_tok": 1, "num_local_experts": 2, "num_experts": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "cohere": {},
    "gemma2": SLIDING | {"query_pre_attn_scalar": 9},  # soft caps
    "gemma3_text": SLIDING,
    "glm4": {},
    "gpt2": {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "gpt_neox": {},
    "gpt_oss": SLIDING | EXPERTS,  # sinks
    "granite": {},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "llama": {},
    "mistral": {"sliding_window": None},
    "mixtral": EXPERTS | {"sliding_window": None},
    "olmo2": {},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64, "dropout": 0.0},
    "phi3": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": EXPERTS | {"moe_intermediate_size": 32},
    "smollm3": {},
    "starcoder2": {"sliding_window": None},
}
FEW: dict[str, dict[str, Any]] = {
    "page_bounds": {"top": 2, "key_block": 8},
    "mean_pooled": {"top": 2, "key_block": 8},
    "grouped_heads": {
        "local_heads": 2, "global_heads": 2, "window_size": 7, "global_token_ratio": 0.2,
        "adaptive_window": False,
    },
    "top_p": {"p": 0.5, "most": 3, "key_block": 8},
    "window_sinks": {"window": 2, "key_block": 8},
    "strided": {"stride": 3, "window": 2, "key_block": 8},
    "exact": {"top": 1, "key_block": 8},
}  # fmt: skip
# Every family with one selector, and the first family with each of the others.
CASES = list(zip(sorted(FAMILIES), itertools.cycle(list(FEW)[:3])))
ONE = [case for case in CASES if case[0] == "llama"]
CASES += [("llama", name) for name in FEW if ("llama", name) not in ONE]


def oracle(  # noqa: PLR0917 - as transformers calls it
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor,
    scaling: float | None = None, softcap: float | None = None, s_aux: Tensor | None = None,
    sliding_window: int | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention by definition: the family's own mask, and of it what the selector chooses."""
    n, heads = query.shape[2], query.shape[1]
    assert key.shape[2] == n, "without a cache"
    seen = (attention_mask[:, :1] == 0).expand(len(query), heads, n, n)
    if sliding_window is None:
        seen = seen & chosen(hugging_face.selector_of(module.config), query, key)
    k, v = (x.double().repeat_interleave(heads // key.shape[1], 1) for x in (key, value))
    sinks = None if s_aux is None else s_aux.double().view(1, -1, 1, 1)
    options = {"scale": scaling, "softcap": softcap or 0.0, "sinks": sinks}
    out = masked_attention(query.double(), k, v, seen, **options)
    return out.to(query.dtype).transpose(1, 2).contiguous(), None


@torch.no_grad()
def chosen(selector: Any, query: Tensor, key: Tensor) -> Tensor:
    """The mask (batch, heads, n, n) of a selector, by `definitions`."""
    (batch, heads, n, _), shared = query.shape, key.shape[1]
    if isinstance(selector, SparseAttentionConfig):
        return head_masks(selector, n, n).expand(batch, -1, -1, -1)
    names = {kind: name for name, kind in hugging_face.SELECTORS.items()}
    choose = getattr(definitions, names[type(selector)])
    mask = torch.zeros(batch, heads, n, n, dtype=torch.bool)
    for b, g in itertools.product(range(batch), range(shared)):
        group = slice(g * heads // shared, (g + 1) * heads // shared)
        for i, blocks in enumerate(choose(selector, query[b, group], key[b, g])):
            for c in blocks:
                mask[b, group, i, c * selector.key_block : (c + 1) * selector.key_block] = True
    return mask


AttentionInterface.register("contract_oracle", oracle)
AttentionMaskInterface.register("contract_oracle", eager_mask)


@lru_cache(maxsize=9)
def made(family: str, implementation: str, selector: str = "", *, full: bool = False) -> Any:
    """A model of two layers; the same weights for every implementation and selector."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **(SIZES | FAMILIES[family]))
    model = Auto.from_config(config, attn_implementation=implementation).eval()
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    if full:
        hugging_face.choose(model, "mean_pooled", top=99, key_block=8)
    elif selector:
        hugging_face.choose(model, selector, **FEW[selector])
    return model


def sparse(family: str, selector: str, *, full: bool = False) -> Any:
    return made(family, "assay_sparse", selector, full=full)


def reference(family: str, selector: str, *, full: bool = False) -> Any:
    return made(family, dense(family)) if full else made(family, "contract_oracle", selector)


def dense(family: str) -> str:
    """PyTorch's own attention, where transformers has it for the family."""
    return "eager" if family in {"gemma2", "gpt_oss"} else "sdpa"


def tokens(batch: int = 1, n: int = 60) -> Tensor:
    return torch.randint(1, 97, (batch, n), generator=torch.Generator().manual_seed(1))


ROWS = [tokens(1, 10).repeat(1, 4), tokens(1, 31), tokens(1, 4)]  # the first one repeats itself
GREEDY: dict[str, Any] = {"max_new_tokens": 7, "min_new_tokens": 7, "do_sample": False}
BEAMS = GREEDY | {"num_beams": 3}


@lru_cache(maxsize=99)
def expected(family: str, selector: str, row: int, beams: bool, full: bool) -> list[int]:
    """Return the tokens that the reference generates, without a cache."""
    model, options = reference(family, selector, full=full), BEAMS if beams else GREEDY
    out: Tensor = model.generate(ROWS[row], use_cache=False, **options)
    return out[0, ROWS[row].shape[1] :].tolist()


MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams, SparseCache": {"num_beams": 3},
    "prompt lookup, SparseCache": {"prompt_lookup_num_tokens": 4},
    "assistant, SparseCache": {},
    "static": {"cache_implementation": "static"},
    "batch with padding, SparseCache": {},
    "batch with padding, static": {"cache_implementation": "static"},
}
OF_ONE_FAMILY = {  # by the caches of transformers, which see no difference between families
    "no cache": {"use_cache": False},
    "SparseCache": {},
    "beams": {"num_beams": 3},
    "prompt lookup": {"prompt_lookup_num_tokens": 4},
    "assistant": {},
    "batch with padding": {},
}
# A full budget is the same path as a small one: fewer modes show that it is PyTorch's attention.
SHORT = ("beams, SparseCache", "batch with padding, static")
if torch.cuda.is_available():  # transformers copies an offloaded cache by CUDA's streams
    MODES["offloaded"] = {"cache_implementation": "offloaded"}


def written(family: str, model: Any, mode: str) -> list[list[int]]:
    """The tokens that a model writes in a mode, of each row."""
    options = GREEDY | (MODES | OF_ONE_FAMILY)[mode]
    if "assistant" in mode:
        torch.manual_seed(3)
        options["assistant_model"] = Auto.from_config(made(family, dense(family)).config).eval()
    if "SparseCache" in mode:
        options["past_key_values"] = hugging_face.SparseCache(model.config)
    if "padding" not in mode:
        return [model.generate(ROWS[0], **options)[0, ROWS[0].shape[1] :].tolist()]
    longest = max(row.shape[1] for row in ROWS)
    ids, real = (
        torch.cat([torch.nn.functional.pad(x, (longest - x.shape[1], 0)) for x in rows])
        for rows in (ROWS, [torch.ones_like(row) for row in ROWS])
    )
    return model.generate(ids, attention_mask=real, **options)[:, longest:].tolist()


@pytest.mark.parametrize(
    ("family", "selector", "full"),
    [(*case, False) for case in CASES] + [(*case, True) for case in CASES[: len(FAMILIES)]],
)
def test_every_mode_writes_the_tokens_of_the_reference(
    family: str, selector: str, full: bool
) -> None:
    model = sparse(family, selector, full=full)
    others = OF_ONE_FAMILY if (family, selector) in ONE else {}
    for mode in SHORT if full and not others else MODES | others:
        rows = range(3) if "padding" in mode else range(1)
        reference = [expected(family, selector, row, "beams" in mode, full) for row in rows]
        assert written(family, model, mode) == reference, mode


@pytest.mark.parametrize(("family", "selector"), CASES[: len(FAMILIES)])
def test_gradients_are_the_reference_s_with_checkpointing_too(family: str, selector: str) -> None:
    ids = tokens(2, 40)

    def gradients(model: Any) -> list[Tensor]:
        model.train().zero_grad()
        model(ids, labels=ids, use_cache=False).loss.backward()
        parameters = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.eval()
        return parameters

    model = sparse(family, selector)
    exact = gradients(reference(family, selector))
    plain = gradients(model)
    model.gradient_checkpointing_enable()
    try:
        checkpointed = gradients(model)
    finally:
        model.gradient_checkpointing_disable()
    for given in (plain, checkpointed):
        for found, wanted in zip(given, exact, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "selector"), CASES[: len(FAMILIES)])
@torch.no_grad()
def test_padding_on_either_side_changes_no_sample(family: str, selector: str, side: str) -> None:
    model, longest = sparse(family, selector), ROWS[0].shape[1]
    pads = [longest - row.shape[1] for row in ROWS]
    ends = [(pad, 0) if side == "left" else (0, pad) for pad in pads]
    ids, real = (
        torch.cat([torch.nn.functional.pad(x, end) for x, end in zip(rows, ends, strict=True)])
        for rows in (ROWS, [torch.ones_like(row) for row in ROWS])
    )
    positions = (real.cumsum(1) - 1).clamp(min=0)
    together = model(ids, attention_mask=real, position_ids=positions).logits
    for b, row in enumerate(ROWS):
        alone = reference(family, selector)(row, use_cache=False).logits[0]
        torch.testing.assert_close(together[b][real[b] == 1], alone, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["llama"])
@torch.no_grad()
def test_a_model_is_compiled_and_exported_whole(family: str) -> None:
    model, ids, options = sparse(family, "page_bounds"), tokens(2), {"use_cache": False}
    plain = reference(family, "page_bounds")(ids, **options).logits
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(ids, **options).logits, plain, atol=3e-5, rtol=1e-4)
    exported = torch.export.export(model, (ids,), options).module()
    torch.testing.assert_close(exported(ids, **options).logits, plain, atol=3e-5, rtol=1e-4)


PACKED = torch.arange(60).remainder(30)[None]


# For these transformers itself makes no mask of packed samples, whichever attention computes it.
UNPACKED = {"gpt_oss", "opt"}


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - UNPACKED))
def test_packed_samples_and_masks_of_four_dimensions_are_refused(family: str) -> None:
    model = sparse(family, "page_bounds")
    with pytest.raises(InputError, match="takes no packed sequences"):
        model(tokens(), position_ids=PACKED, use_cache=False)
    band = torch.ones(60, 60).tril().triu(-20).bool()[None, None]
    for mask in (band, torch.where(band, 0.0, -1e9)):
        with pytest.raises(InputError, match="takes no mask of"):
            model(tokens(), attention_mask=mask)


@torch.no_grad()
def test_a_packed_sample_fails_in_a_compiled_model() -> None:
    compiled = torch.compile(sparse("llama", "page_bounds"), backend="eager")
    with pytest.raises(RuntimeError, match="packed"):
        compiled(tokens(), position_ids=PACKED, use_cache=False)


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("bloom", {"hidden_size": 64, "n_layer": 2, "n_head": 4}),
        ("mpt", {"d_model": 64, "n_layers": 2, "n_heads": 4}),
        ("stablelm", {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}),
    ],
)
def test_a_family_without_the_attention_interface_is_refused_by_name(
    family: str, sizes: dict[str, int]
) -> None:
    config = AutoConfig.for_model(family, vocab_size=97, **sizes)
    model = Auto.from_config(config, attn_implementation="assay_sparse")
    with pytest.raises(InputError, match=f"{family} does not use transformers' attention"):
        hugging_face.choose(model, "mean_pooled")
    with pytest.raises(InputError, match=f"{family} does not use"):
        model(tokens())


@pytest.mark.parametrize(
    ("family", "options", "reason"),
    [
        ("llama4_text", {"attention_chunk_size": 16}, "layers of chunked_attention"),
        ("deepseek_v4", {"moe_intermediate_size": 32}, "layers of heavily_compressed_attention"),
        (
            "deepseek_v32",
            {"q_lora_rank": 8, "qk_rope_head_dim": 16, "num_key_value_heads": 4, "index_topk": 8},
            "layers of indexed_attention",
        ),
        ("phimoe", {"sliding_window": 20}, "does not pass its sliding window"),
    ],
)
def test_a_family_that_chooses_keys_itself_is_refused_by_name(
    family: str, options: dict[str, Any], reason: str
) -> None:
    config = AutoConfig.for_model(family, **(SIZES | EXPERTS | options))
    model = Auto.from_config(config, attn_implementation="assay_sparse")
    with pytest.raises(InputError, match=reason):
        model(tokens(), use_cache=False)


@pytest.mark.parametrize("name", hugging_face.UNSERVED)
def test_what_would_change_attention_and_is_not_computed_is_refused(name: str) -> None:
    x = torch.zeros(1, 4, 8, 16)
    with pytest.raises(InputError, match=f"does not compute {name}"):
        hugging_face.attend(torch.nn.Module(), x, x, x, None, **{name: torch.zeros(3)})


@torch.no_grad()
def test_a_mask_shorter_than_the_keys_is_refused() -> None:
    x = torch.zeros(1, 4, 8, 16)
    flags = torch.full((1, 1, 1, 7), hugging_face.REAL | hugging_face.QUERY, dtype=torch.uint8)
    with pytest.raises(InputError, match="takes no mask of"):
        hugging_face.attend(torch.nn.Module(), x, x, x, flags)


@pytest.mark.parametrize("family", ["gemma3_text", "gpt_oss", "llama"])
@torch.no_grad()
def test_padding_inside_a_sample_is_that_of_the_model(family: str) -> None:
    """A sliding window counts slots, as in transformers, and not the real tokens among them."""
    real = torch.ones(1, 60, dtype=torch.long)
    real[0, 8:13], real[0, 30:45] = 0, 0
    options = {"attention_mask": real, "use_cache": False}
    ours = sparse(family, "", full=True)(tokens(), **options).logits
    exact = made(family, "eager")(tokens(), **options).logits
    torch.testing.assert_close(ours[real == 1], exact[real == 1], atol=3e-5, rtol=1e-4)


def test_autocast_is_that_of_the_model() -> None:
    ids, logits = tokens(2), []
    for implementation in ("assay_sparse", "sdpa"):
        model = made("llama", implementation, full=implementation == "assay_sparse")
        with torch.autocast("cpu", torch.bfloat16):
            out = model(ids, labels=ids, use_cache=False)
        out.loss.backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
        model.zero_grad()
        logits.append(out.logits)
    torch.testing.assert_close(*logits, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mean_pooled", {"top": -1}),
        ("mean_pooled", {"key_block": 0}),
        ("page_bounds", {"sinks": 1.5}),
        ("exact", {"top": True}),
        ("top_p", {"p": 0}),
        ("top_p", {"p": float("nan")}),
        ("strided", {"stride": 0}),
        ("window_sinks", {"window": 0}),
        ("antidiagonal", {"block": 60, "stride": 7}),
        ("vertical_slash", {"last": 0}),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must|not made of"):
        hugging_face.SELECTORS[name](**options)


@pytest.mark.parametrize("selector", ["mean_pooled", "page_bounds", "top_p", "strided"])
@torch.no_grad()
def test_a_cache_takes_chunks_and_is_cropped_and_reset(selector: str) -> None:
    """Negative drops the last tokens, 0 none, a positive length keeps the first ones."""
    model, ids, other = sparse("llama", selector), tokens(2, 60), tokens(2, 75)[:, 60:]
    for drop in (0, -1, -8, -33, -99, 25, 200):
        length = max(0, 60 + drop) if drop <= 0 else min(drop, 60)
        cache = hugging_face.SparseCache(model.config)
        cache.crop(drop)  # nothing is stored yet
        parts = [model(x, past_key_values=cache).logits for x in ids.split([5, 1, 1, 20, 33], 1)]
        torch.testing.assert_close(torch.cat(parts, 1), whole(selector, ids), atol=3e-5, rtol=1e-4)
        cache.crop(drop)
        assert cache.get_seq_length() == length
        found = model(other, past_key_values=cache).logits
        kept = torch.cat([ids[:, :length], other], 1)
        wanted = whole(selector, kept)[:, length:]
        torch.testing.assert_close(found, wanted, atol=3e-5, rtol=1e-4)
        cache.reset()
        assert cache.get_seq_length() == 0
        again = model(ids[:1], past_key_values=cache).logits  # of another batch
        torch.testing.assert_close(again, whole(selector, ids[:1]), atol=3e-5, rtol=1e-4)


@lru_cache(maxsize=99)
def _whole(selector: str, rows: tuple[tuple[int, ...], ...]) -> Tensor:
    logits: Tensor = reference("llama", selector)(torch.tensor(rows), use_cache=False).logits
    return logits


def whole(selector: str, ids: Tensor) -> Tensor:
    """Logits of the reference in one pass."""
    return _whole(selector, tuple(map(tuple, ids.tolist())))


@pytest.mark.parametrize("name", ["antidiagonal", "vertical_slash"])
def test_prompts_are_sparse_and_what_follows_reads_every_key(name: str) -> None:
    model = made.__wrapped__("llama", "assay_sparse")
    hugging_face.choose(model, name, block=16)
    out = model.generate(tokens(1, 90), **GREEDY)
    assert out.shape == (1, 97)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt2"])
@torch.no_grad()
def test_a_choice_is_saved_and_loaded(family: str, tmp_path: Any) -> None:
    model = sparse(family, "mean_pooled")
    model.save_pretrained(tmp_path)
    loaded = Auto.from_pretrained(tmp_path, attn_implementation="assay_sparse")
    assert hugging_face.selector_of(loaded.config) == hugging_face.selector_of(model.config)
    torch.testing.assert_close(loaded(tokens()).logits, model(tokens()).logits)
    plain = Auto.from_pretrained(tmp_path)  # transformers alone reads it, too
    assert set(plain.state_dict()) == set(model.state_dict())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision(dtype: torch.dtype) -> None:
    model = made.__wrapped__("llama", "assay_sparse").to(dtype)
    assert model(tokens()).logits.isfinite().all()


def test_unknown_choices_dropout_and_weights_are_refused_in_a_sentence() -> None:
    model = made.__wrapped__("llama", "assay_sparse")
    with pytest.raises(InputError, match="selector must be one of"):
        hugging_face.choose(model, "fastest")
    with pytest.raises(InputError, match="has no budget; it has key_block, sinks, top"):
        hugging_face.choose(model, "mean_pooled", budget=3)
    with pytest.raises(InputError, match="not for causal"):
        hugging_face.choose(model, "block_top_k")
    with pytest.raises(InputError, match="does not compute output_attentions"):
        model(tokens(), output_attentions=True)
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.1
    with pytest.raises(InputError, match="dropout"):
        model.train()(tokens())


def test_sliding_layers_stay_as_they_are_and_are_named(caplog: pytest.LogCaptureFixture) -> None:
    config = AutoConfig.for_model("mistral", **(SIZES | {"sliding_window": 20}))
    sliding = Auto.from_config(config, attn_implementation="assay_sparse")
    with pytest.raises(InputError, match="every layer of this model has a sliding window"):
        hugging_face.choose(sliding, "mean_pooled")
    with caplog.at_level("INFO"):
        made.__wrapped__("gemma3_text", "assay_sparse", "mean_pooled")
    assert "1 of 2 layers keep their sliding window" in caplog.text


def test_the_window_of_grouped_heads_is_that_of_the_model_s_positions() -> None:
    model = made.__wrapped__("llama", "assay_sparse")
    options = FEW["grouped_heads"] | {"adaptive_window": True, "min_window_size": 1}
    hugging_face.choose(model, "grouped_heads", **options)
    assert hugging_face.selector_of(model.config).window_size == 42  # 7 sqrt(256 / 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"local_heads": 8}, "but the model has 4 heads"),
        ({"local_heads": 1, "global_heads": 3}, "cuts a key-value head"),
        ({"budget": 3}, "grouped_heads: "),
    ],
)
def test_grouped_heads_that_do_not_fit_are_refused(options: dict[str, int], message: str) -> None:
    model = made.__wrapped__("llama", "assay_sparse")
    with pytest.raises(InputError, match=message):
        hugging_face.choose(model, "grouped_heads", **(FEW["grouped_heads"] | options))
