"""The output of the planner's benchmark, in its smallest form."""

from functools import partial
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from methods import registry
from methods.concept_lm import bench, decode
from methods.concept_lm.baselines import NAMES, Judgement
from methods.concept_lm.v3.em import EMSettings, HardEM
from methods.concept_lm.v3.executor import Executor
from methods.context import Context
from methods.kit.corpus import Corpus
from methods.kit.report import Charts
from methods.protocol import Artefact, Result, Series, Strict
from tests.methods.concept_lm import tiny_qwen
from tests.methods.running import run_here


@pytest.mark.usefixtures("few")
def test_what_a_plan_is_worth_is_told_seed_by_seed():
    training = {"warm_up": 1, "steps": 1, "naive_steps": 0, "seeds": 3, "watch": 2}
    code, events = run_here("concept_lm.planner", {**training, "types": 1, "bits": 2})
    assert (code, type(events[-1])) == (0, Result)
    series = {event.name: event for event in events if isinstance(event, Series)}
    cost = {point.x: point.samples for point in series["nll"].points}
    gain = {point.x: point for point in series["gain"].points}
    assert set(gain) == set(cost) - {"nothing"}
    for given, found in gain.items():
        worth = [free - spent for free, spent in zip(cost["nothing"], cost[given], strict=True)]
        assert found.samples == pytest.approx(worth)
        assert found.low <= sum(worth) / 3 <= found.high


@pytest.fixture
def few(monkeypatch):
    """Plans of few examples: an E-step over all of them is most of a training of two steps."""
    made = partial(EMSettings, samples=64, batch=32, held=24)
    monkeypatch.setattr(bench, "EMSettings", made)


PLANS = {"warm_up": 1, "steps": 1, "naive_steps": 0, "watch": 2, "types": 2, "bits": 2}
SMALLEST = {"steps": 2, "rows": 2, "length": 32, "judged": 2}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (
            "compression",
            SMALLEST | {"pretrain_steps": 2},
            {"pareto", "usage", "dead", "shuffled", "removed"},
        ),
        ("dropout", {**PLANS, "slots": 2}, {"dropout"}),
        (
            "planner",
            {**PLANS, "slots": 2, "sequence": True, "mtp": 1, "beams": 1, "grow": 0.5},
            {"nll", "gain", "codes", "price"},
        ),
    ],
)
def test_every_benchmark_of_quality_shows_its_series(name, changes, expected):
    _, benchmark = registry.find(f"concept_lm.{name}")
    events: list[Strict] = []
    ctx = Context("cpu", 0, events.append)
    registry.load("concept_lm", benchmark.entry)(ctx, benchmark.resolve("smoke", changes))
    series = {one.name: one for one in ctx.release(partial=False)}
    assert expected <= set(series)
    for one in series.values():
        assert {point.variant for point in one.points} == {v.name for v in one.variants}
    if name == "compression":
        (drawn,) = (event for event in events if isinstance(event, Artefact))
        assert drawn.content.count("<rect") == 4 * 32


@pytest.mark.parametrize(
    ("slug", "module", "name"),
    [
        ("compression", bench, "load_base"),
        ("planner", bench, "EMSettings"),
        ("dropout", bench, "EMSettings"),
    ],
)
def test_seeds_are_counted_from_the_run_s(slug, module, name, monkeypatch):
    seen = []

    def made(*_, seed, **__):
        seen.append(seed)
        raise InterruptedError

    monkeypatch.setattr(module, name, made)
    _, benchmark = registry.find(f"concept_lm.{slug}")
    ctx = Context("cpu", 7, lambda event: None, repeated=True)
    monkeypatch.setattr(ctx, "check_all", lambda *_: None)
    text = Corpus(torch.zeros(9).byte(), torch.zeros(9).byte(), "")
    monkeypatch.setattr(bench, "stdlib", lambda: text)
    with pytest.raises(InterruptedError):
        registry.load("concept_lm", benchmark.entry)(ctx, benchmark.resolve("smoke"))
    assert seen == [7]


def test_the_model_of_equal_cost_keeps_a_share_of_its_middle():
    _, benchmark = registry.find("concept_lm.compression")
    params = benchmark.resolve("smoke", {"shallow": 1, "middle": 8, "deep": 1, "rho": 0.25})
    found = {name: bench.configuration_of(name, params) for name in NAMES}
    splits = {name: (one.shallow, one.middle, one.deep) for name, one in found.items()}
    assert splits.pop("equal") == (3, 6, 1)  # of which two layers of eight are used
    assert set(splits.values()) == {(1, 8, 1)}
    rules = {name: one.boundary for name, one in found.items() if one.boundary != "null"}
    assert rules == {"stride": "fixed", "hnet": "hnet"}


def test_plans_are_priced_as_they_were_chosen():
    """By log p(y | z) alone for what they tell, by S for what they cost."""
    plans = {beta: torch.full((4, 2, 2), int(beta)) for beta in (0.0, 1.0)}
    em = SimpleNamespace(
        best_plans=lambda beta=0.0: plans[beta],
        planner=SimpleNamespace(sample=lambda *_: torch.full((4, 2, 2), 2)),
        held_u=None,
        nll=lambda z: 10.0 + float(z[0, 0, 0]),
        free_nll=lambda: 30.0,
        price=lambda z: 100.0 + float(z[0, 0, 0]),
        codes_used=lambda z: [int(z[0, 0, 0])] * 2,
    )
    found = bench.priced(em, 0)
    told = {"z*": 10, "the planner's z": 12, "another text's z*": 10}
    assert found["nll"] == told | {"nothing": 30}
    assert found["gain"] == {given: 30 - cost for given, cost in told.items()}
    assert found["price"] == {"z*, chosen by S": 101, "the planner's z": 102}
    assert found["codes"] == {"type 1": 1, "type 2": 1}


def test_a_share_of_the_codes_is_hidden(monkeypatch):
    """From none to all of them, and the floor rises from what is known to what is free."""
    shown = []

    def nll(self, e, used, y):
        shown.append(used)
        return torch.zeros(y.shape)

    monkeypatch.setattr(Executor, "token_nll", nll)
    monkeypatch.setattr(HardEM, "train", lambda *_: None)
    monkeypatch.setattr(HardEM, "best_plans", lambda self: self.search.random_plans(256))
    _, benchmark = registry.find("concept_lm.dropout")
    params = benchmark.resolve("smoke", {**PLANS, "slots": 2})
    ctx = Context("cpu", 0, lambda event: None, repeated=True)
    bench.dropout(ctx, params)
    shares = [1 - float(used.sum() / shown[0].sum()) for used in shown[:11]]
    assert shares == pytest.approx([i / 10 for i in range(11)], abs=0.05)
    (series,) = ctx.release(partial=False)
    (floor,) = series.limits
    known, free = bench.task_of(params).floors
    assert dict(floor.points) == pytest.approx(
        {i / 10: known + i / 10 * (free - known) for i in range(11)}
    )


def test_decoding_tells_rows_out_of_step_and_bounds_at_real_shapes():
    _, benchmark = registry.find("concept_lm.decode")
    small = {"d": 64, "contexts": "64", "longest_prompt": 64, "oracle": 16, "rows": 4}
    changes = {"max_warm_up_s": 0, "tokens_per_concept": "4", **small}
    params, ctx = benchmark.resolve("smoke", changes), Context("cpu", 0, lambda event: None)
    bench.decode(ctx, params)
    series = {one.name: one for one in ctx.release(partial=False)}
    timed = {(point.variant, point.x) for point in series["rows"].points}
    assert timed == set(product(("plain", "ours", "waiting"), ("in step", "one token apart")))
    kept = {point.variant: point.median for point in series["kv_bytes"].points}
    assert kept["v3"] * 64 == kept["plain"] * 12  # [BOS, SEP and 4 concepts of 2 types, SEP]
    for name in ("speed", "prefill"):
        assert "v3" in {point.variant for point in series[name].points}
    assert {point.variant for point in series["bounds"].points} == {"tokens_4"}
    counted = Context("cpu", 0, lambda event: None)  # what is counted of others needs no time
    counted.check("oracle", 0.0, 0.0, label="nothing is computed")
    bench._bounds(Charts(counted, bench.__file__), bench.build(params, "cpu"), (2, 4, 8))
    (told,) = counted.release(partial=False)
    bounds = {(point.x, point.variant): round(point.median, 2) for point in told.points}
    real = [bounds["Qwen3-0.6B, split 4/20/4", f"tokens_{n}"] for n in (2, 4, 8)]
    assert real == [1.55, 1.99, 2.27]


def test_the_gate_of_decoding_sees_steps_that_are_wrong_far_down(monkeypatch):
    _, benchmark = registry.find("concept_lm.decode")
    params = benchmark.resolve("smoke", {"contexts": "64"})
    model = bench.build(params, "cpu")
    right = decode.step

    def wrong(model, token, state, *more):
        late = int(state.shallow.lengths[0]) > 40
        return right(model, (token + late) % 256, state, *more)

    def failed(tokens, *more):
        prompt = torch.randint(256, (2, tokens), generator=torch.Generator().manual_seed(0))
        cases = bench.at_shape(model, {4: bench.Fixed(0.25)}, prompt, *more)
        return [case.label for case in cases if not case.passed]

    apart = torch.tensor([64, 63])
    assert failed(64, apart) == []
    monkeypatch.setattr(decode, "step", wrong)
    assert failed(20) == []
    assert failed(64) == ["a concept every 4, 64 tokens"]
    label = "a concept every 4, 64 tokens"
    assert failed(64, apart) == [label, f"{label}, waiting 3"]


def test_rows_that_wait_for_each_other_are_checked_before_they_are_timed(monkeypatch):
    _, benchmark = registry.find("concept_lm.decode")
    ctx, checked = Context("cpu", 0, lambda event: None), []
    monkeypatch.setattr(ctx, "check_all", lambda name, cases: checked.extend(cases))
    right = decode.step

    def wrong(model, token, state, patience, active):
        logits, ready = right(model, token, state, patience, active)
        return logits * (1 + 0.01 * bool(patience)), ready

    params = benchmark.resolve("smoke", {"rows": 3})
    rules = {4: bench.Fixed(0.25)}
    charts = bench.Charts(ctx, bench.__file__)
    _, apart = bench._rows_apart(charts, params, bench.build(params, "cpu"), rules)
    assert apart.work == params.row_tokens * 3
    apart.build()
    assert [case.passed for case in checked] == [True, True]
    monkeypatch.setattr(decode, "step", wrong)
    apart.build()
    assert [case.passed for case in checked[2:]] == [True, False]


def test_a_real_base_stands_in_the_place_of_one_that_is_pretrained(tmp_path, monkeypatch):
    """A Llama of three layers whose tokens are bytes: nothing is pretrained, so eight bits each."""
    text = torch.tensor(list(b"the cat sat on the mat ; " * 40), dtype=torch.uint8)
    monkeypatch.setattr(bench, "stdlib", lambda: Corpus(text, text, "cats"))
    tiny_qwen.save(tmp_path, family="llama")
    split = {"shallow": 1, "middle": 1, "deep": 1, "steps": 1, "seeds": 1, "n_concepts": 16}
    given = SMALLEST | split | {"model": str(tmp_path)}
    code, events = run_here("concept_lm.compression", given)
    assert code == 0, events[-1]
    (front,) = (e for e in events if isinstance(e, Series) and e.name == "pareto")
    bits = {point.variant: point.samples[0] for point in front.points}
    assert set(bits) == set(NAMES)
    assert all(7 < value < 9 for value in bits.values())
    assert not [event for event in events if isinstance(event, Artefact)]
    half = Judgement(8.0, 100.0, rate=0.25, shuffled=1.0, removed=2.0).times(0.5)
    assert half == Judgement(4.0, 50.0, rate=0.25, shuffled=0.5, removed=1.0)
