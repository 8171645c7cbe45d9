"""The losses of pruner and discriminator, against values computed by hand."""

import math
from dataclasses import replace

import pytest
import torch

from methods.errors import InputError
from methods.token_pruning import training
from methods.token_pruning.checks import TINY, answered, example, pruner_of
from methods.token_pruning.core import log_membership, read, soft_gate, straight_through
from methods.token_pruning.llava import encode
from methods.token_pruning.model import SimpleMerger
from methods.token_pruning.training import Trainer

LN_3 = math.log(3.0)  # sigmoid(ln 3) = 3/4


def judge(states):
    """A discriminator whose logit is the state itself."""
    return states[0][..., 0]


def state(value):
    return [torch.full((2, 1), value)]


def test_the_discriminator_wants_real_called_real():
    # -log(3/4) - log(1 - 1/4): real at 3/4, fake at 1/4
    right = training.discriminator_loss(judge, state(LN_3), state(-LN_3))
    assert float(right) == pytest.approx(2 * math.log(4 / 3))
    wrong = training.discriminator_loss(judge, state(-LN_3), state(LN_3))
    assert float(wrong) == pytest.approx(2 * math.log(4))


def test_the_generator_wants_fake_called_real():
    config = replace(TINY, loss="adversarial", adv_loss_weight=3.0)
    fooled = training.closeness(config, judge, state(0.0), state(LN_3))
    assert float(fooled) == pytest.approx(3 * math.log(4 / 3))
    caught = training.closeness(config, judge, state(0.0), state(-LN_3))
    assert float(caught) == pytest.approx(3 * math.log(4))


def test_feature_matching_is_the_relative_square():
    real, fake = [torch.tensor([[2.0], [2.0]])], [torch.tensor([[3.0], [2.0]])]
    config = replace(TINY, loss="mse", adv_loss_weight=2.0)
    assert float(training.matching(real, fake)) == pytest.approx(0.5 / 4)
    large = [[300 * h.half() for h in states] for states in (real, fake)]  # squares above 65,504
    assert float(training.matching(*large)) == pytest.approx(0.5 / 4)
    assert float(training.closeness(config, None, real, fake)) == pytest.approx(2 * 0.5 / 4)
    assert float(training.closeness(replace(config, loss="none"), None, real, fake)) == 0


def test_sparsity_punishes_what_is_kept_too_much_and_only_that():
    half = torch.full((1, 4), 0.5).log()
    # weights 1 (layer 0 counts as 1) and 3: (1 * (.5 - .25)^2 + 3 * 0) / 4
    found = training.sparsity({0: half, 3: half}, {0: 0.25, 3: 0.75})
    assert float(found) == pytest.approx(0.25**2 / 4)
    found = training.sparsity({3: half}, {3: 0.1})
    assert float(found) == pytest.approx(0.4**2)


def test_the_count_term_asks_for_as_many_as_are_kept():
    scores = torch.tensor([[LN_3, LN_3, -LN_3, -LN_3]])  # sigmoids sum to 2
    assert float(training.count_term(scores, 2)) == pytest.approx(0, abs=1e-12)
    assert float(training.count_term(scores, 1)) == pytest.approx(1)


@pytest.fixture(scope="module")
def llava():
    return example("cpu")


def trainer_of(llava, **changes):
    return Trainer(pruner_of(llava, replace(TINY, **changes)), 4)


def test_the_generator_s_loss_is_the_weighted_sum(llava, monkeypatch):
    """Each part in turn is a constant and the weights are ours: 25 * 2 + 3 + 5 * 7 + 11 * 13."""
    trainer = trainer_of(llava, sparsity_weight=5.0, merge_sparsity_weight=11.0)
    monkeypatch.setattr(training.F, "cross_entropy", lambda *_: torch.tensor(2.0))
    monkeypatch.setattr(training, "closeness", lambda *_: torch.tensor(3.0))
    monkeypatch.setattr(training, "sparsity", lambda *_: torch.tensor(7.0))
    monkeypatch.setattr(training, "count_term", lambda *_: torch.tensor(13.0))
    loss = trainer.generator_loss(answered(llava), 1.0)
    assert float(loss) == pytest.approx(25 * 2 + 3 + 5 * 7 + 11 * 13)
    assert (trainer.parts["task"], trainer.parts["close"]) == (2.0, 3.0)


@torch.no_grad()
def test_real_states_are_the_unpruned_model_s(llava):
    """transformers' own hidden states at the answer's place, layers -1, -2 and -3."""
    prompt = answered(llava)
    trainer = trainer_of(llava)
    trainer.generator_loss(prompt, 1.0)
    theirs = llava(input_ids=prompt.ids, pixel_values=prompt.pixels, output_hidden_states=True)
    for found, layer in zip(trainer.parts["real"], (-1, -2, -3), strict=True):
        assert torch.allclose(found, theirs.hidden_states[layer][:, -1], atol=1e-5)
    assert not torch.allclose(trainer.parts["fake"][0], trainer.parts["real"][0], atol=1e-3)


def test_the_temperature_of_a_step_is_the_schedule_s(llava, monkeypatch):
    right, seen = Trainer.generator_loss, []
    monkeypatch.setattr(
        Trainer, "generator_loss", lambda self, p, tau: (seen.append(tau), right(self, p, tau))[1]
    )
    training.train(pruner_of(llava), lambda _: answered(llava), 4)
    assert seen == pytest.approx([1.0, 0.55, 0.1, 0.1])


def test_temperature_sharpens_what_is_merged(llava):
    """Two centres, one source between them: logits (a, b) / tau, and the scores' share added."""
    torch.manual_seed(0)
    merger = SimpleMerger(8, 8, replace(TINY, d_internal=4)).eval()
    merger.query.weight.data.mul_(0.02)  # far from saturation, where any temperature looks alike
    V = torch.randn(1, 6, 8)
    given = V, torch.zeros(1, 1, 8), torch.ones(1, 1, dtype=torch.bool)
    with torch.no_grad():
        scores, _ = merger.score(*given)
        inner = torch.nn.functional.layer_norm(V, (8,))
        for tau in (1.0, 0.1):
            merged = merger(*given, 2, tau=tau)
            centres = inner[0, merged.index[0]]
            logits = merger.query(inner[0]) @ merger.key(centres).T / (8**0.5 * tau)
            A = (logits + scores[0, merged.index[0]]).softmax(-1)
            assert torch.allclose(merged.weights[0], A / A.sum(0), atol=1e-5)


def test_the_threshold_stands_midway_between_kept_and_dropped():
    scores = torch.tensor([[4.0, 1.0, 3.0, 0.0]])
    # k = 2: theta is (3 + 1) / 2 = 2, so the logits are 2, -1, 1, -2
    wanted = torch.nn.functional.logsigmoid(torch.tensor([[2.0, -1.0, 1.0, -2.0]]) / 0.5)
    assert torch.allclose(log_membership(scores, 2, 0.5), wanted)
    index, mask = straight_through(scores, 2, 0.5)
    assert index.tolist() == [[0, 2]]
    assert mask.tolist() == [[1.0, 0.0, 1.0, 0.0]]
    # k = n: no score is below, theta is the lowest itself
    assert torch.allclose(log_membership(scores, 4, 1.0)[0, 3], torch.tensor(0.5).log())


def test_soft_pass_uses_the_temperature_it_is_given(llava):
    prompt = answered(llava)
    pruner = pruner_of(llava, replace(TINY, merger_type="none"))
    vision = encode(llava, prompt.pixels)
    with torch.no_grad():
        warm, cold = (pruner.soft(prompt, vision, tau, noise=False).gates[1] for tau in (1.0, 0.1))
    # log m = log sigmoid(l / tau), whatever the logit: log odds are ten times as far from 0
    warm, cold = (gate.double() - torch.log1p(-gate.double().exp()) for gate in (warm, cold))
    assert torch.allclose(cold, 10 * warm, rtol=1e-3)


def test_heads_are_held_against_their_share_of_the_tokens(llava, monkeypatch):
    """Of 16 tokens, all of which stay in training, 6, 4 and 2."""
    seen = []
    monkeypatch.setattr(
        training, "sparsity", lambda gates, rho: (seen.append(rho), torch.zeros(()))[1]
    )
    trainer = trainer_of(llava)
    trainer.pruner.train()
    trainer.generator_loss(answered(llava), 1.0)
    assert seen == [{1: 6 / 16, 2: 4 / 16, 3: 2 / 16}]


def test_a_lesson_is_the_attention_that_answers_pay_from_a_layer_on(llava):
    """transformers' own weights, by the two places with a target, over the layers that follow."""
    prompt = answered(llava, 2)
    prompt.targets[:, -3] = 5
    llava.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            theirs = llava(
                input_ids=prompt.ids, pixel_values=prompt.pixels, output_attentions=True
            ).attentions
    finally:
        llava.set_attn_implementation("sdpa")
    visual = prompt.ids[0] == llava.config.image_token_id
    paid = torch.stack([A.mean(1)[:, [-3, -1]].mean(1)[:, visual] for A in theirs])  # (4, 2, 16)
    found = training.lessons(pruner_of(llava), prompt, encode(llava, prompt.pixels))
    assert len(found) == 4
    for lesson, first in zip(found, (0, 1, 2, 3), strict=True):  # the merger, then three heads
        wanted = paid[first:].sum(0)
        assert torch.allclose(lesson.target, wanted / wanted.sum(1, keepdim=True), atol=1e-5)


def test_heads_are_taught_by_the_divergence_from_what_is_wanted(llava, monkeypatch):
    wanted = torch.tensor([[0.75, 0.25], [1.0, 0.0]])
    lesson = training.Lesson(torch.tensor([[0.0, 0.0], [LN_3, 0.0]]), wanted)
    # shares 1/2, 1/2 and 3/4, 1/4
    first = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float(lesson.divergence()) == pytest.approx((first + math.log(4 / 3)) / 2)
    assert lesson.agreement() == 1
    other = training.Lesson(torch.zeros(2, 2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    monkeypatch.setattr(training, "lessons", lambda *_: [lesson, other])
    trainer = trainer_of(llava, loss="attention")
    loss = trainer.generator_loss(answered(llava), 1.0)
    both = (float(lesson.divergence()) + float(other.divergence())) / 2
    assert float(loss) == pytest.approx(both)
    assert trainer.parts["accuracy"] == pytest.approx((1 + other.agreement()) / 2)


def test_each_part_learns_at_its_own_rate_and_the_judge_at_its_own(llava):
    trainer = trainer_of(llava, merger_lr=1e-3, pruner_lr=2e-3, discriminator_lr=3e-3)
    rates = {p: group["speed"] for group in trainer.optimiser.param_groups for p in group["params"]}
    assert {rates[p] for p in trainer.pruner.merger.parameters()} == {1e-3}
    assert {rates[p] for p in trainer.pruner.heads.parameters()} == {2e-3}
    (group,) = trainer.judge_optimiser.param_groups
    assert group["lr"] == 3e-3
    assert set(group["params"]) == set(trainer.judge.parameters())
    assert {"judge", "judge_optimiser"} <= trainer.saved.keys()


def test_the_judge_steps_once_the_generator_has(llava):
    trainer = trainer_of(llava)
    before = [p.detach().clone() for p in trainer.judge.parameters()]
    trainer.backward(trainer.generator_loss(answered(llava), 1.0))
    trainer.end_step(1, training.History(grad_norm=[1.0]))
    after = list(trainer.judge.parameters())
    assert all(not torch.equal(p, q) for p, q in zip(before, after, strict=True))


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_gradient_that_is_infinite_ends_the_training(llava, norm):
    trainer = trainer_of(llava)
    trainer.backward(trainer.generator_loss(answered(llava), 1.0))
    with pytest.raises(InputError, match="a gradient is infinite at step 6; load the model in bf"):
        trainer.end_step(7, training.History(grad_norm=[norm]))


@pytest.mark.parametrize("training_now", [True, False])
def test_choices_are_noisy_in_training_alone(llava, monkeypatch, training_now):
    trainer, seen = trainer_of(llava), []
    right = trainer.pruner.soft
    monkeypatch.setattr(
        trainer.pruner, "soft", lambda *a, noise: (seen.append(noise), right(*a, noise=noise))[1]
    )
    trainer.pruner.train(training_now)
    trainer.generator_loss(answered(llava), 1.0)
    assert seen == [training_now]


def test_noise_decides_as_often_as_its_distribution_says(monkeypatch):
    """A gate is open where l + g_1 > g_0: at l = ln 3 in 3 of 4 cases; and mergers choose anew."""
    torch.manual_seed(0)
    logits = torch.full((1, 20_000), LN_3)
    assert float((soft_gate(logits, 0.5, True) > math.log(0.5)).float().mean()) == pytest.approx(
        0.75, abs=0.01
    )
    merger = SimpleMerger(8, 8, replace(TINY, d_internal=4)).eval()
    given = torch.randn(1, 6, 8), torch.zeros(1, 1, 8), torch.ones(1, 1, dtype=torch.bool)
    monkeypatch.setattr(merger, "score", lambda V, *_: (torch.zeros(1, 6), V))
    chosen = [(merger(*given, 1, tau=0.5, noise=True).gate == 0).int()[0] for _ in range(200)]
    assert int(torch.stack(chosen).sum(0).min()) > 10


def test_the_judge_is_its_equations():
    judge = training.Discriminator(6, replace(TINY, d_discriminator=4))
    states = [100 * torch.randn(5, 6) for _ in TINY.discriminator_layers]
    seen = []
    for h, enter, residual in zip(states, judge.enter, judge.residual, strict=True):
        x = enter(torch.tanh(h / 100))
        x = x * (1 + torch.erf(x / 2**0.5)) / 2  # GELU
        seen.append(x + x @ residual.weight.T + residual.bias)
    assert torch.allclose(judge(states), judge.judge(torch.cat(seen, -1))[..., 0], atol=1e-6)


def test_a_head_reads_directions_whatever_their_lengths(llava):
    head = pruner_of(llava).heads["1"]
    visual, text = torch.randn(2, 16, 32), torch.randn(2, 5, 32)
    valid = torch.ones(2, 5, dtype=torch.bool)
    with torch.no_grad():
        assert torch.allclose(
            head(visual, text, valid), head(9 * visual, 0.2 * text, valid), atol=1e-4
        )
        text[:, 3:] = 5.0
        valid[:, 3:] = False
        assert torch.allclose(head(visual, text, valid), head(visual, text[:, :3], valid[:, :3]))


def test_in_use_the_merger_is_as_cold_as_training_ends(llava, monkeypatch):
    pruner, seen = pruner_of(llava), []
    right = pruner.merger.forward
    monkeypatch.setattr(
        pruner.merger, "forward", lambda *a, tau: (seen.append(tau), right(*a, tau=tau))[1]
    )
    read(llava, answered(llava), pruner.stages())
    assert seen == [TINY.temperature_min]


@pytest.mark.parametrize("gate", ["scale", "bias"])
@torch.no_grad()
def test_gates_that_stand_open_change_nothing(llava, gate):
    """And those that are shut do, each way of gating its own."""
    prompt = answered(llava)
    vision, plain = encode(llava, prompt.pixels), read(llava, prompt).logits[:, -1]
    for logit, open_ in ((60.0, True), (-6.0, False)):
        pruner = pruner_of(llava, replace(TINY, merger_type="none", gate=gate))
        for head in pruner.heads.values():
            head.scorer[-1].weight.zero_()
            head.scorer[-1].bias.fill_(logit)
        found = pruner.soft(prompt, vision, 1.0, noise=False).logits
        assert torch.allclose(found, plain, atol=1e-4) is open_


def test_gates_of_later_heads_add_up(llava):
    """The gates of a head and all before it, the merger included, add up."""
    prompt = answered(llava)
    soft = pruner_of(llava).soft(prompt, encode(llava, prompt.pixels), 1.0, noise=True)
    before = soft.merged.gate
    for layer in (1, 2, 3):
        assert (soft.gates[layer] < before).all()
        before = soft.gates[layer]
