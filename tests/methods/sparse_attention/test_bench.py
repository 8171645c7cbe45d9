"""Every benchmark runs from the command line's own runner, in its smallest form."""

import sys
from pathlib import Path

import pytest
import torch

from methods import registry
from methods.context import Context
from methods.kit.compare import relative
from methods.protocol import CheckResult, Failed, Result, Series, Started
from methods.sparse_attention import bench, build_kernel, kernel, peers
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.oracle import head_masks
from methods.sparse_attention.spec import METHOD
from tests.methods.running import run_here

SMALLEST = {
    "latency": {"lengths": "128,192", "backward_up_to": 128, "max_warm_up_s": 0},
    "memory": {"lengths": "128,256"},
    "model": {"lengths": "64", "n_layer": 1, "max_warm_up_s": 0},
    "decode": {"lengths": "512", "max_warm_up_s": 0},
    "prefill": {"lengths": "320", "max_warm_up_s": 0},
}


@pytest.mark.parametrize("slug", SMALLEST)
def test_a_benchmark_checks_then_shows_series(slug: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        code, events = run_here(f"sparse_attention.{slug}", SMALLEST[slug])
    finally:
        torch.set_num_threads(threads)
    assert code == 0, [event for event in events if isinstance(event, Failed)]
    assert isinstance(events[-1], Result)
    assert isinstance(events[0], Started)
    assert events[0].environment.threads == 1
    series = [event for event in events if isinstance(event, Series)]
    first = next(i for i, event in enumerate(events) if isinstance(event, Series))
    assert any(isinstance(event, CheckResult) for event in events[:first])
    if slug == "memory":  # keys and values of 12 heads of 64 numbers, four bytes each
        (cache,) = (one for one in series if one.name == "kv_cache")
        dense = {point.x: point.estimate for point in cache.points if point.variant == "dense"}
        assert dense == {n: 2 * 12 * n * 64 * 4 / 2**20 for n in (128, 256)}
    for one in series:
        assert {point.variant for point in one.points} <= {v.name for v in one.variants}
        assert any(point.ratio for point in one.points) is (one.name != "choice")


@pytest.mark.parametrize("there", [True, False])
def test_the_limit_holds_at_the_rate_of_the_kernel(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        assert build_kernel.build() == ""
        kernel.loaded.cache_clear()
    else:
        monkeypatch.setattr(kernel, "loaded", lambda: False)
    code, events = run_here(
        "sparse_attention.latency", SMALLEST["latency"] | {"linear_peers_up_to": 256}
    )
    assert code == 0
    for series in (event for event in events if isinstance(event, Series)):
        (limit,) = series.limits
        assert (limit.at, limit.variant) == ("dense_kernel" if there else None, "adaptive")
        assert ("dense_kernel" in {point.variant for point in series.points}) is there
    labels = {event.label for event in events if isinstance(event, CheckResult)}
    assert any(label.startswith("dense_kernel") for label in labels) is there


def test_claims_are_answered_by_series_that_exist() -> None:
    for claim in METHOD.claims:
        assert claim.finding
        if claim.answer:
            assert METHOD.benchmark(claim.answer.benchmark)


@pytest.mark.parametrize("make", [peers.naive, peers.sdpa_mask])
def test_masked_peers_compute_the_same_function(make: object) -> None:
    from methods.sparse_attention.api import sparse_attention

    config = SparseAttentionConfig(local_heads=4, global_heads=2)
    q, k, v = (torch.randn(1, 6, 200, 16) for _ in "qkv")
    mask = head_masks(config, 200, 200)
    ours, theirs = sparse_attention(q, k, v, config), make(mask, q, k, v)  # type: ignore[operator]
    assert relative(ours, theirs) < 1e-5


def test_published_peers_attend_within_their_windows() -> None:
    q, k, v = (torch.randn(1, 12, 768, 16) for _ in "qkv")
    far = v.clone()
    far[:, :, 0] += 100.0
    for attend in (peers.local_attention(128), peers.longformer(12, 16, 128, 768)):
        a, b = attend(q, k, v), attend(q, k, far)
        assert a.numel() == q.numel()
        flat = (a - b).reshape(1, -1) if a.shape == q.shape else None
        changed = (a - b).abs()
        rows = changed.amax((0, 1, 3)) if flat is not None else changed.amax((0, 2))
        assert rows[0] > 0
        assert rows[300:].max() == 0
    assert peers.big_bird(12, 16, 768)(q, k, v).numel() == q.numel()


def test_the_model_s_variants_differ_in_their_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    _, benchmark = registry.find("sparse_attention.model")
    monkeypatch.setattr(bench, "gate", lambda *_, **__: ())
    monkeypatch.setattr(bench, "_model_step", lambda config, *_, **__: config)
    ctx, params = Context("cpu", 0, lambda event: None), benchmark.resolve("smoke")
    configs = bench._steps(ctx, params, 64, False)
    assert {n: c.use_sparse_attention for n, c in configs.items()} == {
        "dense": False, "adaptive": True
    }  # fmt: skip


def test_published_peers_have_the_fixed_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,024 tokens 128; the adaptive one is 362."""
    _, benchmark = registry.find("sparse_attention.latency")
    given: list[int] = []
    monkeypatch.setattr(peers, "local_attention", given.append)
    monkeypatch.setattr(peers, "longformer", lambda *sizes: given.append(sizes[2]))
    params = benchmark.resolve("smoke", {"flex": False, "linear_peers_up_to": 1024})
    ctx = Context("cpu", 0, lambda event: None)
    bench._attentions(ctx, params, bench._configs(params), 1024, backward=False)
    assert given == [128, 128]


@pytest.mark.slow
def test_flex_attention_is_compiled_for_the_cpu_and_computes_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Kept with the packages that it is made by, as mypy's cache: the C++ compiler needs 15 seconds.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(Path(sys.prefix, ".inductor_cache")))
    config = SparseAttentionConfig()
    attend = peers.flex(config, 256) or pytest.skip("needs a C++ compiler")
    q, k, v = (torch.randn(1, config.heads, 256, 16) for _ in range(3))
    with torch.no_grad():
        masked = peers.sdpa_mask(head_masks(config, 256, 256), q, k, v)
        assert relative(attend(q, k, v), masked) < 1e-5
