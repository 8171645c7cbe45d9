"""What the planner's benchmark tells, in its smallest form."""

import pytest

from methods import registry, runner
from methods.protocol import Result, Series, Strict


def test_what_a_plan_is_worth_is_told_seed_by_seed():
    method, benchmark = registry.find("concept_lm.planner")
    training = {"warm_up": 1, "steps": 1, "naive_steps": 0, "seeds": 3, "watch": 2}
    smallest = {**training, "types": 1, "bits": 2}
    events: list[Strict] = []
    code = runner.run(
        method,
        benchmark,
        benchmark.resolve("smoke", smallest),
        device="cpu",
        seed=0,
        preset="smoke",
        emit=events.append,
    )
    assert (code, type(events[-1])) == (0, Result)
    series = {event.name: event for event in events if isinstance(event, Series)}
    cost = {point.x: point.samples for point in series["nll"].points}
    gain = {point.x: point for point in series["gain"].points}
    assert set(gain) == set(cost) - {"nothing"}
    for given, found in gain.items():
        worth = [free - spent for free, spent in zip(cost["nothing"], cost[given], strict=True)]
        assert found.samples == pytest.approx(worth)
        assert found.low <= sum(worth) / 3 <= found.high
