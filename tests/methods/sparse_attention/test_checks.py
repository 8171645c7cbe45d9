"""The parts of the table of checks."""

import pytest

from methods.kit.seeds import randn
from methods.measure import memory
from methods.sparse_attention import checks, kernel, portable
from methods.sparse_attention.config import SparseAttentionConfig
from tests.methods.sparse_attention import mutations


@pytest.fixture(autouse=True)
def _without_the_kernel(monkeypatch):
    monkeypatch.setattr(kernel, "loaded", lambda: False)  # it has mutants of its own


def test_the_gate_sees_a_look_into_the_future(monkeypatch):
    mutations.a_look_into_the_future(monkeypatch)
    assert "n = 200, the future" in at_shape(200, 1)


def test_memory_that_does_not_grow_holds(monkeypatch):
    monkeypatch.setattr(memory, "peak", lambda call, device: 1)
    assert all(case.passed for case in checks.memory_growth("cpu"))


def test_two_layers_do_not_reach_where_the_window_is_below_the_stride():
    assert checks.reach(checks._fixed(9), 200) < 1.0


def at_shape(n: int, batch: int) -> list[str]:
    """Labels of what the gate of latency finds wrong at a length and a batch."""
    config = SparseAttentionConfig(1, 1, window_size=64, adaptive_window=False)
    q, k, v, grad = (randn(batch, 2, n, 16, seed=i) for i in range(4))
    cases = checks.at_shape(checks.Inputs(q, k, v), grad, config)
    return [case.label for case in cases if not case.passed]


def test_the_gate_at_the_timed_shape_holds():
    assert at_shape(3000, 2) == []


def test_runs_far_down_that_see_a_key_too_late_are_seen(monkeypatch):
    def shifted(run):
        late = run.rows.start > 2048 and run.at.step == 1
        return run._replace(keys=run.keys.roll(1, 4)) if late else run

    mutations.runs_that(monkeypatch, shifted)
    assert at_shape(2000, 1) == []
    assert "n = 3000, output" in at_shape(3000, 1)


def test_an_anchor_lost_far_down_is_seen(monkeypatch):
    def losing(run):
        seen = run.seen.clone()
        seen[..., 7] &= run.rows.start <= 1000 or run.at.step == 1
        return run._replace(seen=seen)

    mutations.runs_that(monkeypatch, losing)
    assert at_shape(900, 1) == []
    assert "n = 1600, output" in at_shape(1600, 1)


def test_gradients_wrong_at_a_large_batch_alone_are_seen(monkeypatch):
    right = portable._Run.add

    def forgetful(self, total, part):
        part[4:] = 0
        right(self, total, part)

    monkeypatch.setattr(portable._Run, "add", forgetful)
    assert at_shape(1200, 1) == []
    found = at_shape(1200, 5)
    assert any("dK" in label for label in found)
    assert not any("output" in label for label in found)
