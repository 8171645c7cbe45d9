"""What the table of checks is made of."""

import pytest

from methods.measure import memory
from methods.sparse_attention import checks, probes, tiles
from tests.methods.sparse_attention import mutations


@pytest.fixture(autouse=True)
def _fresh_plans():
    tiles.plan.cache_clear()
    yield
    tiles.plan.cache_clear()


def test_the_gate_sees_a_look_into_the_future(monkeypatch):
    mutations.a_look_into_the_future(monkeypatch)
    assert any(not case.passed for case in checks.gate("cpu"))


def test_memory_that_does_not_grow_holds(monkeypatch):
    monkeypatch.setattr(memory, "peak", lambda call, device: 1)
    assert all(case.passed for case in checks.memory_growth("cpu"))


def test_two_layers_do_not_reach_where_the_window_is_below_the_stride():
    assert probes.reach(checks._fixed(9), 200) < 1.0
