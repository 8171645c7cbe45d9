"""The source's integration: GPT-2, the layer, its cache, monitors and the README's example."""

from pathlib import Path
from typing import Any

import pytest
import torch

from methods.errors import InputError
from methods.sparse_attention import hugging_face, monitor
from methods.sparse_attention.api import sparse_attention
from methods.sparse_attention.cache import SparseKVCache
from methods.sparse_attention.config import SparseAttentionConfig, resolve_window
from methods.sparse_attention.gpt2 import GPT2Config, gpt2
from methods.sparse_attention.module import AttentionResult, Intermediate, SparseAttention
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


def test_a_model_attends_as_its_configuration_says() -> None:
    """Densely, or by grouped heads whose adaptive window is that of the model's positions."""
    tokens = torch.randint(0, 61, (2, 70))
    sizes = {"vocab_size": 61, "n_positions": 80, "n_layer": 2, "n_head": 6, "n_embd": 48}
    dense = gpt2(GPT2Config(**sizes)).eval()
    adaptive = SparseAttentionConfig(4, 2, 8, min_window_size=1)
    sparse = gpt2(GPT2Config(**sizes, use_sparse_attention=True, sparse_config=adaptive)).eval()
    assert hugging_face.selector_of(sparse.config).window_size == resolve_window(adaptive, 80) == 25
    sparse.load_state_dict(dense.state_dict())
    with torch.no_grad():
        assert (sparse(tokens).logits - dense(tokens).logits).abs().max() > 1e-4
        hugging_face.choose(sparse, "grouped_heads", local_heads=6, global_heads=0, window_size=80)
        torch.testing.assert_close(
            sparse(tokens).logits, dense(tokens).logits, rtol=1e-4, atol=1e-5
        )


def test_a_step_of_training_lowers_the_loss() -> None:
    model = gpt2(TINY)
    tokens = torch.randint(0, 61, (4, 64))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model(tokens, labels=tokens).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def sharing(n: int = 40) -> tuple[SparseAttentionConfig, list[torch.Tensor]]:
    """Six query heads on three key heads: the configuration, and q, k, v."""
    config = SparseAttentionConfig(4, 2, 8, global_token_ratio=0.25, adaptive_window=False)
    return config, [torch.randn(2, heads, n, 16) for heads in (6, 3, 3)]


@pytest.mark.parametrize("sizes", [[9, 12, 1, 7, 11], [1, 1, 2, 36], [40], [39, 1]])
def test_a_cache_fed_in_chunks_is_one_pass(sizes: list[int]) -> None:
    config, qkv = sharing()
    cache = SparseKVCache(config, kv_heads=3, context=40)
    chunks = zip(*(x.split(sizes, 2) for x in qkv), strict=True)
    out = torch.cat([cache.attend(*chunk) for chunk in chunks], 2)
    torch.testing.assert_close(out, sparse_attention(*qkv, config, context=40))
    assert cache.nbytes == 2 * 2 * 16 * 4 * (2 * 8 + 1 * 10)  # 8 of the window, 10 anchors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q, k, v.double()), "one dtype"),
        (lambda *qkv: (x[:1] for x in qkv), r"\(1, 6, 3, 16, .*but the cache has \(2, 6, 3, 16,"),
        (lambda *qkv: (x.double() for x in qkv), "float64.*but the cache has .*float32"),
        (lambda q, k, v: (q[:, :3], k, v), "but the cache has"),
        (lambda q, k, v: (q, *(x.repeat_interleave(2, 1) for x in (k, v))), "but the cache has"),
        (lambda *qkv: (x[..., :8] for x in qkv), "but the cache has"),
        (lambda *qkv: (x[:, :, :0] for x in qkv), "empty"),
        (lambda q, k, v: (q[:, :, :2], k, v), "2 queries have 3 keys"),
        (lambda *qkv: (x.repeat(1, 1, 11, 1) for x in qkv), "9 . 33 tokens exceed the context"),
    ],
)
@torch.no_grad()
def test_a_cache_refuses_tokens_that_do_not_fit_and_stays_as_it_was(
    change: Any, message: str
) -> None:
    config, qkv = sharing(12)
    cache = SparseKVCache(config, kv_heads=3, context=40)
    cache.attend(*(x[:, :, :9] for x in qkv))
    rest = [x[:, :, 9:] for x in qkv]
    with pytest.raises(InputError, match=message):
        cache.attend(*change(*rest))
    out = cache.attend(*rest)
    torch.testing.assert_close(out, sparse_attention(*qkv, config, context=40)[:, :, 9:])


def test_a_cache_refuses_key_heads_that_cannot_be_shared() -> None:
    with pytest.raises(InputError, match="6 query heads cannot share 0 key-value heads"):
        SparseKVCache(CONFIG, kv_heads=0, context=8)


@pytest.mark.parametrize(("n", "times"), [(1024, 3.7), (16384, 18.5)])
@torch.no_grad()
def test_the_cache_shrinks_as_claimed(n: int, times: float) -> None:
    cache = SparseKVCache(SparseAttentionConfig(), kv_heads=12, context=n)
    cache.attend(*(torch.zeros(1, 12, n, 8) for _ in range(3)))
    assert 2 * 12 * n * 8 * 4 / cache.nbytes == pytest.approx(times, abs=0.05)


def test_the_layer_is_its_projections_around_the_definition() -> None:
    layer = SparseAttention(48, CONFIG, context=80, kv_heads=3)
    x = torch.randn(2, 50, 48)
    q, k, v = (
        part.unflatten(2, (-1, 8)).transpose(1, 2)
        for part in layer.c_attn(x).split([48, 24, 24], dim=2)
    )
    inner = oracle_attention(q, k, v, CONFIG, context=80).float()
    expected = layer.c_proj(inner.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x).output, expected)
    cache = layer.new_cache()
    parts = [layer(part, cache=cache).output for part in x.split([30, 1, 19], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), expected)


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
    seen = Intermediate(CONFIG, 2049, 4096)
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


@pytest.mark.parametrize("sparse", [True, False])
def test_capture_and_times_of_every_layer(sparse: bool) -> None:
    model = gpt2(TINY if sparse else GPT2Config(61, 80, 2, 6, 48))
    tokens = torch.randint(0, 61, (1, 40))
    with monitor.watch(model) as watched:
        model(tokens)
        model(tokens)
    assert set(watched) == {f"transformer.h.{i}.attn" for i in range(2)}
    described = Intermediate(CONFIG, 40, 80) if sparse else None
    assert [layer.last for layer in watched.values()] == [described] * 2
    times = [layer.seconds for layer in watched.values()]
    assert all(len(taken) == 2 and 0 < min(taken) <= max(taken) < 5 for taken in times)
    model(tokens)
    assert all(len(taken) == 2 for taken in times)  # the hooks are gone


def test_a_layer_alone_is_watched_too() -> None:
    layer = torch.nn.ModuleList([SparseAttention(48, CONFIG, context=80)])
    with monitor.watch(layer) as watched:
        layer[0](torch.randn(1, 30, 48))
    assert watched["0"].last == Intermediate(CONFIG, 30, 80)


def test_a_monitored_step_counts_its_memory() -> None:
    seconds, peak = monitor.measure_step(lambda: torch.zeros(1_000_000))
    assert seconds > 0
    assert 4_000_000 <= peak < 5_000_000


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
