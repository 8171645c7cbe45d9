from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from methods.errors import InputError
from methods.kit.compare import relative
from methods.sparse_attention import monitor, probes
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.cache import SparseKVCache
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.gpt2 import GPT2, GPT2Config
from methods.sparse_attention.module import AttentionResult, SparseAttention
from methods.sparse_attention.oracle import oracle_attention

CONFIG = SparseAttentionConfig(local_heads=4, global_heads=2, window_size=16, adaptive_window=False)
TINY = GPT2Config(
    vocab_size=61,
    n_positions=80,
    n_layer=2,
    n_head=6,
    n_embd=48,
    use_sparse_attention=True,
    sparse_config=CONFIG,
)


def test_the_source_s_model() -> None:
    config = GPT2Config()
    assert (config.vocab_size, config.n_positions) == (50304, 1024)
    assert (config.n_layer, config.n_head, config.n_embd) == (12, 12, 768)
    assert not config.use_sparse_attention
    assert config.sparse_config == SparseAttentionConfig()


def test_a_model_refuses_heads_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="= 12, but the model has 16 heads"):
        GPT2Config(n_head=16, n_embd=256, use_sparse_attention=True)
    with pytest.raises(InputError, match="does not divide"):
        GPT2Config(n_head=5)


def test_dense_weights_of_transformers_give_the_same_logits(tmp_path: Path) -> None:
    from transformers import GPT2Config as TheirConfig
    from transformers import GPT2LMHeadModel

    theirs = GPT2LMHeadModel(
        TheirConfig(vocab_size=61, n_positions=80, n_layer=2, n_head=6, n_embd=48)
    ).eval()
    theirs.save_pretrained(tmp_path)
    ours = GPT2.from_pretrained(tmp_path).eval()
    assert all(p.requires_grad for p in ours.parameters())
    tokens = torch.randint(0, 61, (2, 70))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-5)

    everything = SparseAttentionConfig(
        local_heads=6, global_heads=0, window_size=80, adaptive_window=False
    )
    sparse = GPT2.from_pretrained(tmp_path, sparse_config=everything).eval()  # w = n is dense
    torch.testing.assert_close(sparse(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-5)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing-here"):
        GPT2.from_pretrained(tmp_path / "nothing-here")


def test_cached_generation_equals_generation_without_a_cache() -> None:
    model = GPT2(TINY).eval()
    prompts = torch.randint(0, 61, (3, 24))
    lengths = torch.tensor([24, 7, 15])
    found = model.generate(prompts, 40, key_lengths=lengths)
    for b, length in enumerate(lengths.tolist()):
        tokens = prompts[b : b + 1, :length]
        for step in range(40):
            best = model(tokens)[:, -1].argmax(-1)
            assert best == found[b, step]
            tokens = torch.cat([tokens, best[:, None]], dim=1)


def sharing(anchor: str, n: int = 40) -> tuple[SparseAttentionConfig, list[torch.Tensor]]:
    """Six query heads on three key heads: the configuration, and q, k, v."""
    config = SparseAttentionConfig(
        4, 2, 8, global_token_ratio=0.25, adaptive_window=False, anchor=anchor, include_self=True
    )
    return config, [torch.randn(2, heads, n, 16) for heads in (6, 3, 3)]


def cache_of(config: SparseAttentionConfig, n: int = 40) -> SparseKVCache:
    return SparseKVCache(config, batch=2, kv_heads=3, d_head=16, context=n)


@pytest.mark.parametrize("anchor", ["stride", "pool"])
def test_a_cache_of_shared_key_heads_and_padded_chunks_is_one_pass(anchor: str) -> None:
    """The second sample's chunks are shorter, padded on either side."""
    config, qkv = sharing(anchor)
    whole = sparse_attention(*qkv, config, context=40)
    cache, begun = cache_of(config), [0, 0]
    for side, *lengths in (("right", 9, 4), ("left", 12, 7), ("right", 1, 1), ("left", 7, 3)):
        size = max(lengths)
        pads = [slice(n, size) if side == "right" else slice(0, size - n) for n in lengths]
        real = [slice(0, n) if side == "right" else slice(size - n, size) for n in lengths]
        chunk = [torch.full((2, x.shape[1], size, 16), 7.0) for x in qkv]
        for b, (at, n) in enumerate(zip(begun, lengths, strict=True)):
            for x, new in zip(qkv, chunk, strict=True):
                new[b, :, real[b]] = x[b, :, at : at + n]
        out = cache.attend(*chunk, key_lengths=torch.tensor(lengths), padding_side=side)
        for b, (at, n) in enumerate(zip(begun, lengths, strict=True)):
            torch.testing.assert_close(out[b, :, real[b]], whole[b, :, at : at + n])
            assert not out[b, :, pads[b]].any()
        begun = [at + n for at, n in zip(begun, lengths, strict=True)]


@pytest.mark.parametrize("wrong", [[3, 4], [-1, 3], [1, 1, 1]])
def test_a_cache_refuses_lengths_that_its_tokens_do_not_have(wrong: list[int]) -> None:
    config, qkv = sharing("stride", 3)
    cache = cache_of(config, 6)
    for held in (0, 3):
        with pytest.raises(InputError, match="key_lengths must"):
            cache.attend(*qkv, key_lengths=torch.tensor(wrong))
        assert cache.lengths.tolist() == [held] * 2
        if not held:
            cache.attend(*qkv)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q, k, v.double()), "one dtype"),
        (
            lambda q, k, v: (q[:1], k[:1], v[:1]),
            r"\(1, 6, 3, 16\), but the cache has \(2, 6, 3, 16\)",
        ),
        (lambda q, k, v: (q[:, :3], k, v), "but the cache has"),
        (lambda q, k, v: (q, *(x.repeat_interleave(2, 1) for x in (k, v))), "but the cache has"),
        (lambda *qkv: (x[..., :8] for x in qkv), "but the cache has"),
        (lambda *qkv: (x[:, :, :0] for x in qkv), "empty"),
    ],
)
@torch.no_grad()
def test_a_cache_refuses_tokens_that_do_not_fit_and_stays_as_it_was(
    change: Callable[..., Iterable[torch.Tensor]], message: str
) -> None:
    config, qkv = sharing("pool", 12)
    cache = cache_of(config)
    for first, last in ((0, 9), (9, 12)):
        chunk = [x[:, :, first:last] for x in qkv]
        with pytest.raises(InputError, match=message):
            cache.attend(*change(*chunk))
        with pytest.raises(InputError, match="padding_side must be"):
            cache.attend(*chunk, padding_side="top")  # type: ignore[arg-type]
        out = cache.attend(*chunk)
    torch.testing.assert_close(out, sparse_attention(*qkv, config, context=40)[:, :, 9:])


def test_a_cache_refuses_key_heads_that_cannot_be_shared() -> None:
    with pytest.raises(InputError, match="6 query heads cannot share 0 key-value heads"):
        SparseKVCache(CONFIG, batch=1, kv_heads=0, d_head=16, context=8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("anchor", ["stride", "pool"])
@torch.no_grad()
def test_tokens_of_half_precision_go_on_from_a_cache_of_another(
    anchor: str, dtype: torch.dtype
) -> None:
    config, qkv = sharing(anchor)
    wanted = sparse_attention(*qkv, config, context=40)[:, :, 30:]
    for held in (torch.float32, torch.float16, torch.bfloat16):
        cache = SparseKVCache(config, batch=2, kv_heads=3, d_head=16, context=40, dtype=held)
        cache.attend(*(x[:, :, :30].to(dtype) for x in qkv))
        found = cache.attend(*(x[:, :, 30:].to(dtype) for x in qkv))
        assert found.dtype == dtype
        assert relative(found, wanted) < 1e-2


def test_a_pooled_anchor_of_half_precision_is_summed_in_single() -> None:
    """The mean of 100 ones, token by token; summed in bfloat16 it would be 1.05."""
    config = SparseAttentionConfig(0, 1, global_token_ratio=1 / 100, anchor="pool")
    cache = SparseKVCache(config, batch=1, kv_heads=1, d_head=16, context=102, dtype=torch.bfloat16)
    one = torch.ones(1, 1, 1, 16, dtype=torch.bfloat16)
    for _ in range(102):
        out = cache.attend(one, one, one)
    assert out.float().mean().item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("lengths", "new"), [([0, 3], 2), ([3, 3], 0)])
def test_a_prompt_has_a_token_and_so_has_what_is_written(lengths: list[int], new: int) -> None:
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match="at least one token each"):
        GPT2(TINY).generate(tokens, new, key_lengths=torch.tensor(lengths))


def test_only_sparse_models_have_caches_and_positions_end() -> None:
    with pytest.raises(InputError, match="use_sparse_attention"):
        GPT2(GPT2Config(vocab_size=8, n_positions=8, n_layer=1, n_head=2, n_embd=8)).new_caches(1)
    model = GPT2(TINY)
    with pytest.raises(InputError, match="80 positions"):
        model(torch.zeros(1, 81, dtype=torch.long))
    with pytest.raises(InputError, match="context of 80"):
        model.generate(torch.zeros(1, 70, dtype=torch.long), 20)


def test_a_step_of_training_lowers_the_loss() -> None:
    model = GPT2(TINY)
    tokens = torch.randint(0, 61, (4, 64))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(
            model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_layer_is_its_projections_around_the_definition() -> None:
    layer = SparseAttention(48, CONFIG, context=80, kv_heads=3)
    x = torch.randn(2, 50, 48)
    q, k, v = (
        part.unflatten(2, (-1, 8)).transpose(1, 2)
        for part in layer.c_attn(x).split([48, 24, 24], dim=2)
    )
    inner = oracle_attention(q, k, v, CONFIG, context=80).float()
    wanted = layer.c_proj(inner.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x).output, wanted)


def test_a_layer_s_window_is_that_of_its_context() -> None:
    """Of 80 tokens 25 with a base of 8, of 30 that stand there 15."""
    config = SparseAttentionConfig(4, 2, 8, min_window_size=1)
    layer = SparseAttention(48, config, context=80)
    x = torch.randn(1, 30, 48)
    q, k, v = (part.unflatten(2, (6, 8)).transpose(1, 2) for part in layer.c_attn(x).chunk(3, 2))
    inner = oracle_attention(q, k, v, config, context=80).float()
    torch.testing.assert_close(layer(x).output, layer.c_proj(inner.transpose(1, 2).flatten(2)))


def test_the_layer_always_returns_one_type() -> None:
    layer = SparseAttention(48, CONFIG, context=80)
    x = torch.randn(1, 30, 48)
    plain, described = layer(x), layer(x, return_intermediate=True)
    assert type(plain) is type(described) is AttentionResult
    assert plain.intermediate is None
    seen = described.intermediate
    assert seen is not None
    assert seen.window == 16
    assert seen.head_masks().shape == (6, 30, 30)
    assert seen.sparsity_ratio == pytest.approx(1 - seen.head_masks().double().mean().item())


def test_masks_are_not_made_above_2048() -> None:
    seen = probes.Intermediate(CONFIG, 2049, 4096)
    assert 0 < seen.sparsity_ratio < 1
    with pytest.raises(InputError, match="2048"):
        seen.head_masks()


def test_the_layer_refuses_what_does_not_fit() -> None:
    with pytest.raises(InputError, match="does not divide"):
        SparseAttention(50, CONFIG, context=80)
    with pytest.raises(InputError, match="cuts a key-value head"):
        SparseAttention(48, CONFIG, context=80, kv_heads=2)
    with pytest.raises(InputError, match="context of 80"):
        SparseAttention(48, CONFIG, context=80)(torch.randn(1, 81, 48))


def test_capture_and_times_of_every_layer() -> None:
    model = GPT2(TINY)
    tokens = torch.randint(0, 61, (1, 40))
    with monitor.watch(model) as watched:
        model(tokens)
        model(tokens)
    assert set(watched) == {f"model.transformer.h.{i}.attn.sparse" for i in range(2)}
    assert all(layer.last is not None and layer.last.n == 40 for layer in watched.values())
    times = [layer.seconds for layer in watched.values()]
    assert all(len(taken) == 2 and 0 < min(taken) <= max(taken) < 5 for taken in times)
    model(tokens)
    assert all(len(taken) == 2 for taken in times)  # the hooks are gone


def test_a_monitored_step_counts_its_memory() -> None:
    seconds, peak = monitor.measure_step(lambda: torch.zeros(1_000_000))
    assert seconds > 0
    assert 4_000_000 <= peak < 5_000_000


@pytest.mark.parametrize(("n", "times"), [(1024, 3.7), (16384, 18.5)])
def test_the_cache_shrinks_as_claimed(n: int, times: float) -> None:
    config = SparseAttentionConfig()
    cache = SparseKVCache(config, batch=1, kv_heads=12, d_head=8, context=n)
    assert 2 * 12 * n * 8 * 4 / cache.nbytes == pytest.approx(times, abs=0.05)


def test_transformers_generate_on_the_wrapped_model_is_refused_not_wrong() -> None:
    """It passes a cache of its own, which would be ignored."""
    net = GPT2(GPT2Config(64, 32, 1, 3, 48, True, SparseAttentionConfig(2, 1, 8)))
    with pytest.raises(InputError, match="assay_sparse"):
        net.model.generate(torch.randint(64, (1, 5)), max_new_tokens=3)


def test_the_source_s_example_runs_as_the_readme_adapts_it() -> None:
    text = (Path(monitor.__file__).parent / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    found: dict[str, Any] = {}
    exec(code, found)
    assert found["logits"].shape == (1, 256, 50304)
    assert len(found["seconds"]) == 2
    assert found["masks"].shape == (12, 256, 256)
    share = found["masks"].double().mean().item()
    assert found["sparsity"] == pytest.approx(1 - share)
