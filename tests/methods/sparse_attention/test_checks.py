"""Every row of the table of checks passes, and fails when what it guards is broken."""

import dataclasses
from collections.abc import Iterable

import pytest
import torch

from methods import registry
from methods.measure import memory
from methods.sparse_attention import api, cache, checks, config, ops_cpu, probes, tiles
from methods.sparse_attention.spec import METHOD
from methods.spec import Case


def failing(cases: Iterable[Case]) -> set[str]:
    return {case.label for case in cases if not case.passed}


@pytest.fixture(autouse=True)
def _fresh_plans() -> Iterable[None]:
    tiles.plan.cache_clear()
    yield
    tiles.plan.cache_clear()


@pytest.fixture
def few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SHAPES", checks.SHAPES[4:6])
    monkeypatch.setattr(checks, "BOUNDS", {torch.float32: 1e-5})


@pytest.mark.parametrize("row", METHOD.checks, ids=lambda row: row.name)
def test_every_row_passes(row: object) -> None:
    cases = list(registry.load("sparse_attention", row.entry)("cpu"))  # type: ignore[attr-defined]
    assert cases
    assert not failing(cases)


@pytest.mark.usefixtures("few_shapes")
def test_a_window_off_by_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = config.LocalGroup.first_key
    monkeypatch.setattr(config.LocalGroup, "first_key", lambda self, i: right(self, i) - 1)
    broken = failing(checks.oracle("cpu"))
    assert any(label.startswith("cpu") for label in broken)
    assert any(label.startswith("portable") for label in broken)
    assert not any(label.startswith("gpu") for label in broken)  # its mask is its own


@pytest.mark.usefixtures("few_shapes")
def test_a_stride_off_by_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops_cpu._key_side

    def shifted(x: torch.Tensor, group: config.Group) -> torch.Tensor:
        return right(x.roll(1, 2) if isinstance(group, config.GlobalGroup) else x, group)

    monkeypatch.setattr(ops_cpu, "_key_side", shifted)
    assert any(label.startswith("cpu") for label in failing(checks.oracle("cpu")))


@pytest.mark.usefixtures("few_shapes")
def test_a_dropped_scale_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops_cpu.attend
    monkeypatch.setitem(api._BACKENDS, "cpu", lambda q, k, v, g: right(q * 32**0.5, k, v, g))
    broken = failing(checks.oracle("cpu"))
    assert any(label.startswith("cpu") for label in broken)
    assert not any(label.startswith("portable") for label in broken)


@pytest.mark.usefixtures("few_shapes")
def test_gradients_of_overlaps_left_out_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_first(self: tiles.Tile, total: torch.Tensor, part: torch.Tensor) -> None:
        self.keys(total)[:, :, : self.rows] += part[:, :, : self.rows]

    monkeypatch.setattr(tiles.Tile, "add_keys", only_first)
    assert failing(checks.oracle("cpu"))


def test_a_wrong_backward_fails_the_gradient_check(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops_cpu._backward

    def doubled(s: ops_cpu._Saved, g: ops_cpu._Gradients, group: config.Group) -> None:
        right(s, g, group)
        g.q.mul_(1.01)

    monkeypatch.setattr(ops_cpu, "_backward", doubled)
    assert failing(checks.gradients("cpu")) == {"cpu, stride", "cpu, pool, own token"}


def test_a_look_into_the_future_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(*args: object) -> torch.Tensor:
        return torch.zeros(args[1], args[2] + args[1])  # type: ignore[call-overload, operator]

    monkeypatch.setattr(tiles, "_band", leaking)
    assert {"cpu, stride", "portable, stride"} <= failing(checks.causality("cpu"))
    assert failing(checks.gate("cpu"))


def test_a_pooled_anchor_that_starts_at_its_token_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(x: torch.Tensor, stride: int) -> torch.Tensor:
        whole = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[2] % stride))
        return whole.unflatten(2, (-1, stride)).mean(3)  # tokens t s .. (t + 1) s - 1

    monkeypatch.setattr(ops_cpu, "pool_anchors", early)
    assert "cpu, pool" in failing(checks.causality("cpu"))


def test_a_finite_fill_in_half_precision_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def filled(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, groups: tuple[config.Group, ...]
    ) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return torch.softmax(scores + future.to(q.dtype) * torch.tensor(-1e9).to(q.dtype), -1) @ v

    monkeypatch.setitem(api._BACKENDS, "cpu", filled)
    assert "cpu, float16, scale 0" in failing(checks.finite("cpu"))


def test_gradients_from_recomputed_scores_overflow_without_the_safeguard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ops_cpu, "LARGEST_LSE", float("inf"))
    assert any("scale 10000" in label for label in failing(checks.finite("cpu")))


def test_a_ring_too_short_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = cache._Ring.__init__

    def short(self: cache._Ring, *args: object) -> None:
        right(self, *args)  # type: ignore[arg-type]
        self.size -= 2  # w - 1 would do, as a new token brings its own key

    monkeypatch.setattr(cache._Ring, "__init__", short)
    assert "cache, stride" in failing(checks.decoding("cpu"))


def test_anchors_that_are_not_appended_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache._Anchors, "_store", lambda *args: None)
    assert "cache, stride" in failing(checks.decoding("cpu"))


def test_a_window_resolved_anew_for_every_length_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.sparse_attention

    def forgetful(*args: object, context: int | None = None, **more: object) -> torch.Tensor:
        return right(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "sparse_attention", forgetful)
    assert "prefix of 600 in 700" in failing(checks.decoding("cpu"))


def test_padding_left_in_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.sparse_attention

    def careless(*args: object, key_lengths: object = None, **more: object) -> torch.Tensor:
        more.pop("padding_side", None)
        return right(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "sparse_attention", careless)
    assert {"padding rows", "batch against single samples"} <= failing(checks.padding("cpu"))


def test_key_heads_shared_in_the_wrong_order_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    grouped = checks.sparse_attention

    def wrong(*args: torch.Tensor, **more: object) -> torch.Tensor:
        q, k, v, *rest = args
        if k.shape[1] < q.shape[1]:
            times = q.shape[1] // k.shape[1]
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        return grouped(q, k, v, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "sparse_attention", wrong)
    assert "GQA against copied heads" in failing(checks.padding("cpu"))


def test_memory_that_grows_with_the_square_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from methods.sparse_attention import peers

    naive = peers.naive(checks.SMALL)
    monkeypatch.setattr(checks, "DOUBLED", (512, 1024))
    monkeypatch.setattr(checks, "sparse_attention", lambda q, k, v, c, context: naive(q, k, v))
    assert failing(checks.memory_growth("cpu"))
    monkeypatch.setattr(memory, "peak", lambda call, device: 1)
    assert not failing(checks.memory_growth("cpu"))


def test_a_closed_form_off_by_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = config.LocalGroup.pairs
    monkeypatch.setattr(config.LocalGroup, "pairs", lambda self, n: right(self, n) + 1)
    assert failing(checks.closed_forms("cpu"))


def test_a_window_below_the_stride_does_not_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checks.reach
    monkeypatch.setattr(
        checks,
        "reach",
        lambda c, n: right(dataclasses.replace(c, window_size=9, adaptive_window=False), n),
    )
    assert failing(checks.two_layer_reach("cpu"))
    assert probes.reach(checks._fixed(9), 200) < 1.0
