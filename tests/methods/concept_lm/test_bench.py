"""What the planner's benchmark tells, in its smallest form."""

import pytest
import torch

from methods import registry, runner
from methods.concept_lm import bench
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


def test_the_gate_of_decoding_sees_steps_that_are_wrong_far_down(monkeypatch):
    _, benchmark = registry.find("concept_lm.decode")
    params = benchmark.resolve("smoke", {"contexts": "64"})
    model = bench.build(params, "cpu")
    right = bench.step

    def wrong(model, token, state):
        late = int(state.times[0]) > 40
        return right(model, (token + late) % 256, state)

    monkeypatch.setattr(bench, "step", wrong)

    def failed(tokens):
        prompt = torch.randint(256, (2, tokens), generator=torch.Generator().manual_seed(0))
        cases = bench.at_shape(model, {4: bench.Fixed(0.25)}, prompt)
        return [case.label for case in cases if not case.passed]

    assert failed(20) == []
    assert failed(64) == ["a concept every 4, 64 tokens"]
