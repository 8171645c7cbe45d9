"""Each loss has a value computed by hand, and its minimum where its equation says.

Models whose heads have no weights think the same of every text: their biases say what.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from methods.concept_lm.boundaries import HNet, MultiToken
from methods.concept_lm.head import usage
from methods.concept_lm.synthetic import PlanTask
from methods.concept_lm.v3.em import Curriculum, EMSettings, HardEM
from methods.concept_lm.v3.planner import Planner, PlanShape

# Of four codes and EOS.
PLANNED = (0.4, 0.2, 0.1, 0.1, 0.2)
GUESSED = (0.5, 0.25, 0.125, 0.125)  # proportional to what is planned of the codes


def thinks(head: torch.nn.Linear, chances: tuple[float, ...]) -> None:
    """Let a head say these chances whatever it reads; of no EOS where none is given."""
    with torch.no_grad():
        head.weight.zero_()
        head.bias.fill_(-30.0)
        head.bias[: len(chances)] = torch.tensor(chances).log()


def em_of(slots: int = 1, q: tuple[float, ...] = GUESSED, warm_up: int = 10) -> HardEM:
    """One type of four codes, four words; the executor thinks all words alike: ln 4 each."""
    task = PlanTask(types=1, bits=2, slots=slots)
    settings = EMSettings(samples=8, batch=4, usage_bonus=0.0, plan_drop=0.0)
    em = HardEM(task, task.shape(), settings, Curriculum(warm_up=warm_up))
    with torch.no_grad():
        em.executor.head.weight.zero_()
    thinks(em.planner.heads[0], PLANNED)
    thinks(em.recogniser.heads[0], q)
    return em


def text_cost(em: HardEM) -> float:
    return em.task.y_length * math.log(4)  # type: ignore[attr-defined]


# -- the rules of where concepts stand -------------------------------------------------------------


def boundary_output(p: Tensor, chosen: Tensor) -> SimpleNamespace:
    """The input of `HNet.loss`: unit queries and keys whose shares are p_2 .. p_T; p_1 is 1."""
    cosine = 1 - 2 * p
    q = torch.stack([cosine, (1 - cosine**2).clamp_min(0).sqrt()], -1)  # against (1, 0)
    k = torch.tensor([1.0, 0.0]).expand_as(q)
    signal = torch.cat([q, k], -1)[None]
    return SimpleNamespace(routing=SimpleNamespace(chosen=chosen[None], signal=signal))


def ratio_loss(rule: HNet, share: float, tokens: int = 8) -> float:
    """At F = G = share."""
    p = torch.full((tokens,), (share * tokens - 1) / (tokens - 1))
    chosen = torch.arange(tokens) < round(share * tokens)
    return float(rule.loss(None, boundary_output(p, chosen), torch.zeros(1, tokens)))


def test_the_ratio_loss_of_hnet() -> None:
    """N = 4, F = G = 1/2: .03 * 4/3 * (3/4 + 1/4); F = 1/4, G = 1/2: .03 * 4/3 * (3/8 + 3/8)."""
    rule = HNet(0.25, 2)
    assert ratio_loss(rule, 0.5) == pytest.approx(0.04, rel=1e-5)
    p, chosen = torch.full((8,), 3 / 7), torch.arange(8) < 2
    found = rule.loss(None, boundary_output(p, chosen), torch.zeros(1, 8))
    assert float(found) == pytest.approx(0.03, rel=1e-5)


@pytest.mark.parametrize("n", [2, 4])
def test_the_ratio_loss_of_hnet_is_least_where_a_token_in_n_is_a_boundary(n: int) -> None:
    rule = HNet(1 / n, 2)
    found = {i: ratio_loss(rule, i / 8) for i in range(1, 9)}
    assert min(found, key=found.__getitem__) == 8 // n
    assert found[8 // n] == pytest.approx(0.03, rel=1e-5)  # whatever N


def test_a_segment_ends_at_the_first_token_that_cannot_be_foreseen() -> None:
    """Unsure of the third ahead: two tokens between; of the first: none; of none: all of four."""
    rule = MultiToken(0.25, 8, horizon=4)
    rule.threshold.fill_(1.0)
    for entropies, between in (
        ([0.0, 0.0, 2.0, 0.0], 2),
        ([2.0, 0.0, 0.0, 0.0], 0),
        ([0.0, 2.0, 2.0, 0.0], 1),
        ([0.0, 0.0, 0.0, 1.0], 4),  # at the threshold, not over it
    ):
        fires, _ = rule.packed(torch.tensor(entropies).expand(1, 12, 4))
        assert fires[0].tolist() == [t % (between + 1) == 0 for t in range(12)]


def test_heads_that_look_ahead_are_held_against_the_tokens_there() -> None:
    """Both heads say 1, 1, 0 of 0, 1, 1, 0: right of the next three, and once of the two behind."""
    rule = MultiToken(0.25, 2, horizon=2)
    model = SimpleNamespace(read_out=lambda h: h)
    x = torch.tensor([[0, 1, 1, 0]])
    one, none = [0.0, math.log(3)], [math.log(3), 0.0]  # three to one
    h = torch.tensor([[one, one, none, none]]).requires_grad_()
    loss = rule.loss(model, SimpleNamespace(h=h), x)
    second = (math.log(4 / 3) + math.log(4)) / 2
    assert loss.item() == pytest.approx(0.1 * (math.log(4 / 3) + second) / 2)
    torch.autograd.backward(loss)
    assert h.grad is None
    assert all(bool(head.weight.grad.any()) for head in rule.heads)


def test_the_bonus_for_codes_that_are_used_surely() -> None:
    """Two examples that are each sure of another code: ln 2; unsure both: half of ln 2."""
    sure = torch.tensor([[50.0, 0.0], [0.0, 50.0]])
    assert float(usage(sure)) == pytest.approx(math.log(2), rel=1e-5)
    assert float(usage(torch.zeros(2, 2))) == pytest.approx(math.log(2) / 2, rel=1e-5)
    assert float(usage(sure[:1])) == pytest.approx(0.0, abs=1e-5)


# -- v3 --------------------------------------------------------------------------------------------


def test_a_plan_costs_what_its_choices_cost_and_a_third_of_what_is_seen_ahead() -> None:
    """Two slots: ln 1/.4 and ln 1/.2; one that ends: ln 1/.2. The end at the last costs nothing."""
    shape = PlanShape(types=1, codes=4, slots=2, u_vocab=3, y_vocab=4)
    planner = Planner(shape)
    thinks(planner.heads[0], PLANNED)
    u, whole, ended = torch.zeros(1, 1, dtype=torch.long), [0, 1, 4], [4, 4, 4]
    for plan, cost in ((whole, math.log(1 / 0.08)), (ended, math.log(5))):
        z = torch.tensor([[plan]])
        assert float(planner.loss(u, z)) == pytest.approx(cost, rel=1e-5)
        assert float(planner.log_prob(u, z)) == pytest.approx(-cost, rel=1e-5)
    ahead = Planner(PlanShape(types=1, codes=4, slots=2, u_vocab=3, y_vocab=4, mtp=1))
    thinks(ahead.heads[0], PLANNED)
    wanted = math.log(1 / 0.08) + 0.3 * math.log(5)  # z_2 is foretold from z_1's place too
    assert float(ahead.loss(u, torch.tensor([[whole]]))) == pytest.approx(wanted, rel=1e-5)


def test_through_the_text_the_planner_learns_in_the_second_half() -> None:
    em = em_of(q=(1.0,))  # always code 0, which is planned at .4
    u, _, y = em.task.sample(4)
    early = em.through_text(u, y, 4)
    assert float(early.detach()) == pytest.approx(text_cost(em), rel=1e-5)
    late = em.through_text(u, y, 5)
    assert float(late.detach()) == pytest.approx(text_cost(em) + math.log(2.5), rel=1e-5)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_through_the_prompt_a_plan_pays_for_its_length(slots: int) -> None:
    """q guesses one in four each; all slots are used (.8 each), then the plan ends (.2)."""
    em = em_of(slots, q=(0.25,) * 4)
    u, _, y = em.task.sample(4)
    guessed = slots * math.log(4)
    length = -math.log(0.2) - slots * math.log(0.8)
    found = float(em.through_prompt(u, y, 0).detach())
    assert found == pytest.approx(text_cost(em) + guessed + length, rel=1e-5)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_through_the_prompt_the_end_is_drawn_once_in_slots_and_one(slots: int) -> None:
    """With one probability of EOS for every place: -ln e - S ln(1 - e) is least at 1 / (S + 1)."""
    em = em_of(slots, q=(0.25,) * 4)
    u, _, y = em.task.sample(4)
    for chance, sign in ((1 / (slots + 1), 0), (0.9 / (slots + 1), -1), (1.1 / (slots + 1), 1)):
        thinks(em.planner.heads[0], (*[(1 - chance) / 4] * 4, chance))
        em.everything.zero_grad()
        torch.autograd.backward(em.through_prompt(u, y, 0))
        pull = float(em.planner.heads[0].bias.grad[-1])
        assert pull == pytest.approx(0, abs=1e-5) if sign == 0 else pull * sign > 1e-3


def test_the_losses_of_hard_em_are_added() -> None:
    """On plans of code 0: the text, ln 1/.4 of the planner, ln 1/.5 of the recogniser."""
    em = em_of()
    em.settings = EMSettings(samples=8, batch=4, plan_drop=0.0)
    em.age[:] = -100  # no plan is due
    em.z[:] = torch.tensor([0, 4])
    wanted = text_cost(em) + math.log(1 / 0.4) + math.log(2)
    assert float(em.em_loss(1).detach()) == pytest.approx(wanted, rel=1e-5)
