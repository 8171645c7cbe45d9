"""The E-step: what it tries, and that nothing it could have tried is better."""

import math
from itertools import product

import pytest
import torch

from methods.concept_lm.reference import executor_nll, planner_log_prob
from methods.concept_lm.synthetic import PlanTask
from methods.concept_lm.v3.em import Curriculum, EMSettings, HardEM
from methods.concept_lm.v3.estep import Choice, edited
from methods.concept_lm.v3.planner import Planner, PlanShape


def untrained(types: int = 1, slots: int = 1, beams: int = 0) -> HardEM:
    task = PlanTask(types=types, bits=4, slots=slots)
    em = HardEM(task, task.shape(), EMSettings(samples=32, batch=16, beams=beams), Curriculum())
    for parameter in em.executor.parameters():  # so that plans matter
        parameter.data.mul_(4)
    return em


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_with_one_place_the_sweep_finds_the_best_plan_there_is(beta: float) -> None:
    em = untrained()
    chosen = em.search.choose(em.u, em.y, em.z, beta, sweep=True)
    codes = torch.arange(em.shape.codes + 1)[:, None].expand(-1, len(em.z))
    ends = torch.full_like(codes, em.shape.eos)
    every = torch.stack([codes, ends], -1)[:, :, None]  # of one slot, EOS among them
    best = em.search.score(em.u, em.y, every, beta).amax(0)
    torch.testing.assert_close(chosen.score, best)
    drawn = em.search.choose(em.u, em.y, em.z, beta)
    assert bool((drawn.score < best - 1e-3).any())


def test_the_choice_is_scored_as_it_is_and_no_candidate_is_better() -> None:
    em = untrained(types=2, slots=2)
    u, y, z = em.u[:8], em.y[:8], em.z[:8]
    chosen = em.search.choose(u, y, z, 0.5, sweep=True)
    torch.testing.assert_close(chosen.score, em.search.score(u, y, chosen.z[None], 0.5)[0])
    torch.testing.assert_close(chosen.old, em.search.score(u, y, z[None], 0.5)[0])
    last = em.search.score(u, y, em.search.variants(chosen.z, 1, 1), 0.5)
    assert bool((chosen.score >= last.amax(0) - 1e-4).all())
    assert bool((chosen.score >= chosen.old).all())
    assert bool((chosen.margin > 0).all())


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@torch.no_grad()
def test_a_plan_is_scored_by_its_equation(beta: float) -> None:
    """S(z) = log p(y | z) + beta log p(z | u), an example at a time."""
    em = untrained(types=2, slots=2)
    u, y, plans = em.u[:3], em.y[:3], torch.stack([em.z[:3], em.search.mutated(em.z[:3])])
    score = em.search.score(u, y, plans, beta)
    for (k, b), found in zip(product(range(2), range(3)), score.flatten(), strict=True):
        text = -executor_nll(em.executor, plans[k, b], y[b]).sum()
        plan = planner_log_prob(em.planner, u[b], plans[k, b])
        torch.testing.assert_close(found, text + beta * plan, atol=1e-3, rtol=1e-4)


def test_variants_differ_in_their_place_alone_and_leave_an_ended_plan() -> None:
    em = untrained(types=2, slots=2)
    em.z[0, 1] = em.shape.eos
    first, second = (em.search.variants(em.z, 1, slot) for slot in (0, 1))
    assert first.shape == (17, 32, 2, 3)
    assert first[:, :, 1, 0].T.tolist() == [list(range(17))] * 32
    assert first[16, :, 1].eq(em.shape.eos).all()  # what ends stays ended
    assert first[:, 0, 1, 1:].eq(em.shape.eos).all()
    assert second[:, 1:, 1, 1].T.tolist() == [list(range(17))] * 31
    assert bool((second[:, 0] == em.z[0]).all())
    for slot, many in enumerate((first[:16], second[:16])):
        many[:, :, 1, slot] = em.z[:, 1, slot]
        assert bool((many == em.z).all())


def test_a_step_weighs_plans_by_beta_of_its_time_and_teaches_the_recogniser(monkeypatch) -> None:
    em = untrained()
    em.curriculum = Curriculum(warm_up=0, steps=10, anneal=0.5)
    right, seen = em.search.choose, []

    def choose(u, y, z, beta):
        seen.append(beta)
        return right(u, y, z, beta)

    monkeypatch.setattr(em.search, "choose", choose)
    for step in (0, 2, 5, 9):
        em.age[:] = em.settings.every
        em.everything.zero_grad()
        torch.autograd.backward(em.em_loss(step))
        assert all(bool(head.weight.grad.any()) for head in em.recogniser.heads)
    assert seen == [0.0, 0.4, 1.0, 1.0]


def test_a_plan_is_chosen_anew_each_third_time_and_kept(monkeypatch) -> None:
    em = untrained()
    chosen = []

    def choose(u, y, z, beta):
        score = torch.zeros(len(z))
        chosen.append(len(z))
        return Choice(torch.full_like(z, em.shape.eos), score, score, score)

    monkeypatch.setattr(em.search, "choose", choose)
    monkeypatch.setattr(torch, "randperm", torch.arange)  # the first 16, each time
    for step in range(1, 8):
        em.em_loss(step)
    assert em.settings.every == 3
    assert chosen == [16, 16, 16]  # at the first step and each third behind it
    assert (em.z[:16] == em.shape.eos).all()
    assert not (em.z[16:, :, 0] == em.shape.eos).any()
    assert em.age.tolist() == [0] * 16 + [3] * 16


def test_what_the_recogniser_draws_follows_what_it_thinks(monkeypatch) -> None:
    em = untrained()
    logits = torch.full((4000, 1, 1, 17), -50.0)
    logits[..., 3], logits[..., 16] = math.log(3), 0.0  # a code at 3/4, the end at 1/4
    monkeypatch.setattr(em.recogniser, "logits", lambda y: logits)
    torch.manual_seed(0)
    drawn = em.recogniser.plans(em.y, sample=True)[:, 0, 0]
    assert float((drawn == 3).float().mean()) == pytest.approx(0.75, abs=0.03)
    assert set(drawn.tolist()) == {3, em.shape.eos}
    assert (em.recogniser.plans(em.y)[:, 0, 0] == 3).all()


def test_what_earlier_groups_chose_costs_a_nat_each(monkeypatch) -> None:
    """Logits of 3, 2.5 and 0: a; then b, since a is at 2; then a (2 against 1.5), b, and so on."""
    em = untrained(types=2, beams=4)
    logits = torch.zeros(3, 2, 2, 17)
    logits[..., 0], logits[..., 1] = 3.0, 2.5
    monkeypatch.setattr(em.planner, "logits", lambda u, z, cache: logits)
    found = em.planner.diverse(torch.zeros(3, 1, dtype=torch.long), 5)
    assert found[:, 2, 1, 0].tolist() == [0, 1, 0, 1, 0]
    plans = em.search.candidates(em.u[:3], em.y[:3], em.z[:3])
    assert plans.shape == (11, 3, 2, 2)
    assert plans[6:, 0, 0, 0].tolist() == [0, 1, 0, 1, 0]


def plans_of(slots: int, codes: int) -> torch.Tensor:
    """Every plan of one type that can be written, ended by EOS (= codes): (n, 1, slots + 1)."""
    written = [
        [*chosen, *[codes] * (slots + 1 - length)]
        for length in range(slots + 1)
        for chosen in product(range(codes), repeat=length)
    ]
    return torch.tensor(written)[:, None]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_the_probabilities_of_all_plans_that_can_be_written_sum_to_one(slots: int) -> None:
    shape = PlanShape(types=1, codes=3, slots=slots, u_vocab=5, y_vocab=5, d=16)
    planner = Planner(shape).double()
    with torch.no_grad():
        planner.heads[0].weight.mul_(20)
        z = plans_of(slots, 3)
        u = torch.tensor([[1, 4, 2]]).expand(len(z), -1)
        logp = planner.log_prob(u, z)
        assert float(logp.exp().sum()) == pytest.approx(1.0, abs=1e-9)
        drawn = planner.sample(torch.tensor([[1, 4, 2]]).expand(4000, -1), 1.0)
    counts = (drawn[:, None] == z[None]).flatten(2).all(-1).sum(0) / 4000
    assert float((counts - logp.exp()).abs().max()) < 0.03  # the sampler's own distribution


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_sweep_shortens_a_plan_where_that_is_better(beta: float) -> None:
    """No plan that differs in one place from the choice, or ends earlier, scores higher."""
    em = untrained(slots=2)
    u, y, z = em.u[:6], em.y[:6], em.z[:6]
    chosen = em.search.choose(u, y, z, beta, sweep=True)
    every = plans_of(2, em.shape.codes)[:, None].expand(-1, len(z), -1, -1)
    score = em.search.score(u, y, every, beta)
    last = (every[..., 0] == chosen.z[None, ..., 0]).all(-1)  # those that share the first place
    assert bool((torch.where(last, score, -math.inf).amax(0) <= chosen.score + 1e-4).all())


def test_mutations_end_plans_too_and_keep_them_plans() -> None:
    em = untrained(types=2, slots=3)
    torch.manual_seed(0)
    mutated = torch.cat([em.search.mutated(em.z) for _ in range(40)])
    lengths = (mutated != em.shape.eos).sum(-1)
    assert {0, 1, 2, 3} == set(lengths.flatten().tolist())
    ended = mutated == em.shape.eos
    assert bool((ended[..., 1:] >= ended[..., :-1]).all()), "nothing follows EOS"
    assert bool(ended[..., -1].all())


def test_a_mutation_is_never_over_the_end() -> None:
    """Nothing after EOS is a concept: an ended plan is not lengthened, an empty one stays."""
    em = untrained(types=1, slots=3)
    eos = em.shape.eos
    torch.manual_seed(0)
    for length in range(4):
        z = torch.tensor([[*[5] * length, *[eos] * (4 - length)]]).expand(500, 1, 4)
        mutated = em.search.mutated(z)
        lengths = set((mutated != eos).sum(-1).flatten().tolist())
        assert max(lengths) == length
        assert lengths == set(range(length + 1))
        assert bool((mutated != z).any()) is (length > 0)


def test_a_plan_has_flipped_by_its_edit_distance_not_by_any_change():
    """EOS is 9. A concept put before the others is one edit, not one a slot; types add up."""
    old = torch.tensor([[[1, 2, 3, 9], [4, 9, 9, 9]]] * 5)
    new = torch.tensor([
        [[1, 2, 3, 9], [4, 9, 9, 9]],  # the same
        [[7, 1, 2, 9], [4, 9, 9, 9]],  # one put before, one off the end: 2 of 4
        [[1, 2, 9, 9], [4, 9, 9, 9]],  # ended earlier: 1 of 4
        [[3, 2, 1, 9], [5, 9, 9, 9]],  # two swapped, and the other type's: 3 of 4
        [[9, 9, 9, 9], [9, 9, 9, 9]],  # nothing is left
    ])  # fmt: skip
    wanted = torch.tensor([0, 2, 1, 3, 4]) / 4
    assert torch.equal(edited(new, old, 9), wanted)
    assert torch.equal(edited(old, new, 9), wanted)
    assert edited(new[4:], new[4:], 9).tolist() == [0.0]
