import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.errors import InputError
from methods.sparse_attention.config import (
    GlobalGroup,
    LocalGroup,
    SparseAttentionConfig,
    flop_limit,
    get_recommended_config,
    head_groups,
    resolve_window,
    sparsity_ratio,
)


def test_the_source_s_names_and_defaults() -> None:
    config = SparseAttentionConfig()
    assert (config.local_heads, config.global_heads, config.window_size) == (8, 4, 128)
    assert (config.global_token_ratio, config.adaptive_window) == (0.1, True)
    assert (config.min_window_size, config.max_window_size) == (32, 512)
    assert config.stride == 10


@pytest.mark.parametrize(
    ("n", "window"),
    [(1, 1), (20, 20), (64, 64), (128, 128), (512, 256), (1024, 362), (2048, 512), (65536, 512)],
)
def test_adaptive_window(n: int, window: int) -> None:
    assert resolve_window(SparseAttentionConfig(), n) == window


def test_a_fixed_window_is_clipped_to_the_context_only() -> None:
    config = SparseAttentionConfig(window_size=700, adaptive_window=False)
    assert resolve_window(config, 10_000) == 700
    assert resolve_window(config, 300) == 300


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"local_heads": -1}, "local_heads"),
        ({"local_heads": 0, "global_heads": 0}, "at least 1"),
        ({"window_size": 0}, "window_size"),
        ({"min_window_size": 600}, "max_window_size"),
        ({"global_token_ratio": 0.0}, "global_token_ratio"),
        ({"global_token_ratio": float("nan")}, "global_token_ratio"),
        ({"global_token_ratio": 1.5}, "global_token_ratio"),
        ({"window_sizes": (32, 0)}, "window_sizes"),
        ({"window_sizes": (32, 64, 128)}, "3 window_sizes do not split 8 local_heads"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        SparseAttentionConfig(**fields)  # type: ignore[arg-type]


def test_heads_must_add_up_and_respect_shared_key_heads() -> None:
    config = SparseAttentionConfig()
    with pytest.raises(InputError, match=r"8\) \+ global_heads \(4\) = 12, .* 16 heads"):
        head_groups(config, 16, 512)
    with pytest.raises(InputError, match="cuts a key-value head"):
        head_groups(config, 12, 512, kv_heads=2)
    with pytest.raises(InputError, match="evenly"):
        head_groups(config, 12, 512, kv_heads=5)
    assert len(head_groups(config, 12, 512, kv_heads=3)) == 2


@pytest.mark.parametrize("fields", [{}, {"window_sizes": (32, 64)}, {"adaptive_window": False}])
@pytest.mark.parametrize("context", [0, -5])
def test_a_context_holds_a_token(fields: dict[str, object], context: int) -> None:
    config = SparseAttentionConfig(**fields)  # type: ignore[arg-type]
    for use in (head_groups, lambda config, _, n: sparsity_ratio(config, 64, n)):
        with pytest.raises(InputError, match=f"at least 1 token, not {context}"):
            use(config, 12, context)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("n", "ratio"), [(128, 0.646), (256, 0.677), (512, 0.733), (1024, 0.789), (2048, 0.837)]
)
def test_sparsity_as_stated_in_the_claims(n: int, ratio: float) -> None:
    assert sparsity_ratio(SparseAttentionConfig(), n) == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize(
    ("n", "limit"), [(1024, 2.37), (2048, 3.08), (4096, 5.27), (8192, 8.76), (16384, 13.45)]
)
def test_flop_limit(n: int, limit: float) -> None:
    assert flop_limit(SparseAttentionConfig(), n) == pytest.approx(limit, abs=5e-3)


def test_the_gain_is_bounded_because_anchors_stay_quadratic() -> None:
    limits = [flop_limit(SparseAttentionConfig(), n) for n in (2**14, 2**18, 2**24)]
    assert limits == sorted(limits)
    assert 29.9 < limits[-1] < 30


@given(n=st.integers(1, 300), window=st.integers(1, 320))
def test_window_pairs_in_closed_form(n: int, window: int) -> None:
    counted = sum(j <= i and i - j < window for i in range(n) for j in range(n))
    assert LocalGroup(0, 1, window).pairs(n) == counted


@given(n=st.integers(1, 300), stride=st.integers(1, 60))
def test_anchor_pairs_in_closed_form(n: int, stride: int) -> None:
    counted = sum(j <= i and j % stride == 0 for i in range(n) for j in range(n))
    assert GlobalGroup(0, 1, stride).pairs(n) == counted


@given(
    heads=st.integers(2, 64),
    context=st.integers(1, 100_000),
    size=st.sampled_from([None, "small", "medium", "large"]),
)
def test_recommendations_always_fit_the_model(heads: int, context: int, size: str | None) -> None:
    config = get_recommended_config(context, heads=heads, size=size)  # type: ignore[arg-type]
    assert config.local_heads >= 1
    assert config.global_heads >= 1
    assert head_groups(config, heads, context)
    if size:
        most = {"small": 128, "medium": 256, "large": 512}[size]
        assert config.window_size <= min(most, max(1, context // 4))


@pytest.mark.parametrize(
    ("context", "window", "split"),
    [(500, 64, (8, 4)), (512, 128, (8, 4)), (2048, 128, (8, 4)), (2049, 256, (9, 3))],
)
def test_recommendation_by_length(context: int, window: int, split: tuple[int, int]) -> None:
    config = get_recommended_config(context)
    assert config.window_size == window
    assert (config.local_heads, config.global_heads) == split


@pytest.mark.parametrize(
    ("size", "heads", "context", "found"),
    [
        ("small", 6, 4096, (4, 2, 128)),
        ("medium", 12, 4096, (8, 4, 256)),
        ("large", 16, 4096, (12, 4, 512)),
        ("large", 12, 400, (9, 3, 100)),
        ("small", 12, 2, (8, 4, 1)),
    ],
)
def test_recommendation_by_size(
    size: str, heads: int, context: int, found: tuple[int, int, int]
) -> None:
    config = get_recommended_config(context, heads=heads, size=size)  # type: ignore[arg-type]
    assert (config.local_heads, config.global_heads, config.window_size) == found


def test_recommendation_refuses_nonsense() -> None:
    for wrong in ({"context": 0}, {"context": 9, "heads": 1}, {"context": 9, "size": "huge"}):
        with pytest.raises(InputError):
            get_recommended_config(**wrong)  # type: ignore[arg-type]


def test_specification_configuration_and_a_kernel_that_is_there_need_no_torch(
    tmp_path: Path,
) -> None:
    code = (
        "import pathlib, sys, methods.sparse_attention.spec, methods.sparse_attention.config;"
        "from methods.sparse_attention import build_kernel;"
        f"build_kernel.FOLDER = pathlib.Path({str(tmp_path)!r}); build_kernel.library().touch();"
        "assert not build_kernel.build();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("size", [None, "small", "medium", "large"])
@pytest.mark.parametrize("context", [300, 2000, 9000])
def test_a_recommendation_fits_any_number_of_key_value_heads(
    context: int, size: str | None
) -> None:
    for heads in range(2, 65):
        for kv_heads in (shared for shared in range(1, heads + 1) if heads % shared == 0):
            config = get_recommended_config(context, heads=heads, size=size, kv_heads=kv_heads)  # type: ignore[arg-type]
            groups = head_groups(config, heads, context, kv_heads)  # refuses what does not fit
            assert sum(group.stop - group.start for group in groups) == heads
            assert config.global_heads == 0 or config.local_heads > 0
            assert (config.global_heads > 0) == (kv_heads > 1)
    with pytest.raises(InputError, match="evenly"):
        get_recommended_config(context, heads=12, kv_heads=5)
