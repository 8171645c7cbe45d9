"""Tokens that become concepts, and control of their number."""

from types import SimpleNamespace

import pytest
import torch
import transformers.integrations.flex_attention
from torch.nn.attention.flex_attention import flex_attention

from methods.concept_lm import checks, decode
from methods.concept_lm.boundaries import Accumulate, Autoregressive, Fixed, HNet, MultiToken
from methods.concept_lm.cache import SlotCache
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.core import deep_allow
from methods.concept_lm.flops import QWEN3_SMALL, speedup_bound
from methods.concept_lm.head import ConceptHead, NullController, cap_runs, usage
from methods.concept_lm.marks import nearest
from methods.concept_lm.model import token_nll
from methods.kit.compare import difference
from methods.kit.noise import gumbel


def test_the_cap_agrees_with_counting():
    generator = torch.Generator().manual_seed(0)
    for cap in (1, 3, 7):
        wanted = torch.rand(4, 100, generator=generator) < 0.05
        capped = cap_runs(wanted, cap)
        for row, out in zip(wanted.tolist(), capped.tolist(), strict=True):
            run = 0
            for own, concept in zip(row, out, strict=True):
                assert concept == (own or run == cap)
                run = 0 if concept else run + 1


def test_the_first_null_rate_is_the_target():
    torch.manual_seed(0)
    for rho in (0.1, 0.5):
        head = ConceptHead(64, ConceptConfig(1, 1, 1, n_concepts=512, rho=rho), 0.02)
        h = torch.randn(8, 128, 64)
        logits = head(h)
        rate = head.route(logits, gumbel(logits)).is_concept.float().mean()
        assert abs(float(rate) - rho) < 0.05


def test_the_controller_follows_a_drifting_head():
    torch.manual_seed(0)
    head = ConceptHead(64, ConceptConfig(1, 1, 1, n_concepts=64, rho=0.25), 0.02)
    rates = []
    for i in range(80):
        logits = head(torch.randn(4, 128, 64)).detach()
        logits[..., :-1] += 0.02 * i  # concepts grow more likely all the time
        chosen = head.route(logits, gumbel(logits)).is_concept
        head.control.update(head.margin(logits).flatten(), chosen.flatten())
        rates.append(float(chosen.float().mean()))
    assert abs(sum(rates[40:]) / 40 - 0.25) < 0.03
    assert abs(float(head.route(logits, None).is_concept.float().mean()) - 0.25) < 0.08


def test_gradient_reaches_the_head_only_through_concepts():
    model = checks.example("cpu", exact=False)
    x = checks.tokens("cpu")
    model.loss(model(x, noise=checks.noise_like(model, x)), x).backward()
    for p in model.head.parameters():
        assert p.grad is not None
        assert bool(p.grad.any())


def test_rules_follow_their_rate():
    """The step of each threshold after one batch."""
    signal = torch.linspace(0, 1, 101)[:, None]
    unsure = Autoregressive(0.2)
    unsure.observe(signal, signal[:, 0] > 2)
    assert float(unsure.threshold) == pytest.approx(0.8)
    full = Accumulate(0.2, 8)
    full.observe(signal, signal[:, 0] > 2)
    assert float(full.threshold) == pytest.approx(0.5 / 0.2)  # a mean of a half, a fifth of tokens
    fires, _ = full.packed(torch.full((1, 50, 1), 0.5), None)
    assert int(fires.sum()) == 10
    ahead = MultiToken(0.2, 8)
    for share, moved in ((1.0, 0.4), (0.0, -0.1)):  # too many: accept more entropy
        before = float(ahead.threshold)
        ahead.observe(signal, torch.full((101,), share) > 0)
        assert float(ahead.threshold) == pytest.approx(before + moved)
    control = NullController(0.75, 1.0)
    control.threshold.fill_(5.0)
    control.seen.fill_(1)
    control.update(torch.zeros(100), torch.ones(100))  # all concepts: NULL must rise by 3/4
    assert float(control.null_bias) == pytest.approx(0.75)
    assert float(control.threshold) == pytest.approx(5.75 + 0.1 * (0.75 - 5.75))


def test_what_is_forced_teaches_no_rate_and_codes_that_are_used_are_worth_their_bonus(monkeypatch):
    model = checks.example("cpu", exact=False, run_cap=3, usage_bonus=0.5)
    x, seen = checks.tokens("cpu"), []
    output = model(x, noise=checks.noise_like(model, x))
    routing = output.routing
    assert not torch.equal(routing.chosen, routing.is_concept)
    monkeypatch.setattr(model.head.control, "update", lambda *given: seen.extend(given))
    model.observe(output)
    assert torch.equal(seen[1], routing.chosen.flatten())
    bonus = usage(routing.logits[..., :-1][routing.is_concept])
    wanted = token_nll(output.logits, x).mean() - 0.5 * bonus
    assert model.loss(output, x).item() == pytest.approx(wanted.item(), rel=1e-5)
    assert bonus.item() > 0.1


@torch.no_grad()
def test_flex_attention_in_the_deep_layers_gives_the_same_logits(monkeypatch):
    """Uncompiled, since not every machine has a C++ compiler."""

    def uncompiled(query, key, value, training=False, **options):
        return flex_attention(query, key, value, **options)

    monkeypatch.setattr(
        transformers.integrations.flex_attention, "compile_friendly_flex_attention", uncompiled
    )
    model, x = checks.example("cpu", exact=False), checks.tokens("cpu", n=128)
    model.settle([x])
    wanted = model(x).logits
    model.attention = "flex"
    assert difference(model(x).logits, wanted) < 1e-5
    model.attention = "sdpa"
    assert torch.equal(model(x).logits, wanted)


@torch.no_grad()
def test_folding_changes_no_logit_and_leaves_plain_maps():
    model, x = checks.example("cpu", exact=False), checks.tokens("cpu")
    model.settle([x])
    before = model(x).logits
    model.fold()
    torch.testing.assert_close(model(x).logits, before, rtol=1e-4, atol=1e-5)
    assert not any("lora" in name for name, _ in model.named_parameters())


def test_the_nearest_tokens_are_nearest_in_direction():
    table = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [0.0, -9.0]])
    assert nearest(torch.tensor([[0.0, 0.5]]), table).tolist() == [[1, 2, 0]]


def test_a_full_sum_keeps_its_rest():
    rule = Accumulate(0.5, 8)
    rule.threshold.fill_(1.0)
    fires, state = rule.packed(torch.full((1, 9, 1), 0.7), None)
    assert fires[0].int().tolist() == [0, 1, 1, 0, 1, 1, 0, 1, 1]  # where the floor of 0.7 t rises
    assert float(state[0, 0]) == pytest.approx(0.3, abs=1e-5)


def test_a_fixed_rule_ends_its_segments_evenly():
    for rho, marks in ((0.25, "...^...^"), (0.4, "..^.^..^.^"), (1 / 3, "..^..^")):
        fires, _ = Fixed(rho).packed(torch.zeros(1, len(marks), 1), None)
        assert "".join(".^"[int(f)] for f in fires[0]) == marks


def test_hnet_s_losses_and_smoothing():
    """p of two tokens: 1 and, after a key like its query, 0; one of them is a boundary."""
    rule = HNet(0.25, 4)
    signal = torch.zeros(1, 2, 8)
    signal[0, :, 0], signal[0, 0, 4], signal[0, 1, 4] = 1.0, 1.0, -1.0
    assert rule.share(signal).tolist() == [[1.0, 0.0]]
    chosen = torch.tensor([[True, False]])
    output = SimpleNamespace(routing=SimpleNamespace(chosen=chosen, signal=signal))
    # N = 4, F = G = 1/2: .03 * 4/3 * (3/4 + 1/4)
    assert float(rule.loss(None, output, None)) == pytest.approx(0.04)
    signal.requires_grad_()
    gain = rule.gain(signal)
    assert gain.flatten().tolist() == [1.0, 1.0]
    (grad,) = torch.autograd.grad(gain[0, 1, 0], signal)
    assert float(grad[0, 1, 0]) == -0.5  # of (1 - q k) / 2
    m, p = torch.tensor([[[4.0], [8.0], [0.0]]]), torch.tensor([[1.0, 0.25, 0.5]])
    assert HNet.smooth(m, p, torch.tensor([[9.0]])).flatten().tolist() == [4.0, 5.0, 2.5]


def test_heads_of_a_segment_foretell_its_tokens_and_do_not_train_what_they_read():
    """Head k is right about the token k further on, and sure of it: nothing is lost."""
    rule, x = MultiToken(0.2, 8, horizon=3), torch.arange(12)[None] % 5
    sure = 50 * torch.nn.functional.one_hot(x, 5).float()
    rule.logits = lambda model, h: [h[..., :5] * 0 + sure.roll(-k, 1) for k in (1, 2, 3)]
    output = SimpleNamespace(h=torch.randn(1, 12, 8, requires_grad=True))
    loss = rule.loss(None, output, x)
    assert float(loss) < 1e-6
    assert not loss.requires_grad


def test_a_code_is_learnt_by_its_temperature():
    """p at temperature 2, NULL's share lost."""
    soft = ConceptHead(8, ConceptConfig(1, 1, 1, n_concepts=2, temperature=2.0), 0.02)
    logits = torch.tensor([[[1.0, 3.0, 2.0]]], requires_grad=True)
    table = soft.embedding.weight.detach()
    pull = torch.randn(8)
    (found,) = torch.autograd.grad((soft.embed(torch.tensor([[1]]), logits) * pull).sum(), logits)
    p = (logits / 2).softmax(-1)[..., :2]
    (wanted,) = torch.autograd.grad((p @ table @ pull).sum(), logits)
    assert torch.allclose(found, wanted, atol=1e-7)


def test_deep_allow_by_hand():
    allow = deep_allow(torch.tensor([[False, True, False, False, True]]))[0].int().tolist()
    assert allow == [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],  # a concept starts a segment: the old tail is gone
        [0, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 1, 0, 0, 1],
    ]


def test_a_cache_grows_and_keeps_what_it_holds():
    cache, query = SlotCache(2, capacity=2), torch.randn(2, 2, 1, 4)
    seen = []
    for _ in range(9):
        seen.append(torch.randn(2, 1, 1, 4))
        cache.open(1)
        out = cache.attend(query, seen[-1], seen[-1], 0)
        cache.advance(1)
    keys = torch.cat(seen, 2)
    wanted = (query @ keys.transpose(2, 3) / 2).softmax(-1) @ keys
    torch.testing.assert_close(out, wanted)
    assert cache.bytes() == 2 * 2 * 9 * 4 * 4


@torch.no_grad()
def test_rows_that_wait_share_the_middle_layers_and_write_the_same(monkeypatch):
    model = checks.example("cpu", boundary="fixed", rho=0.25)
    x, lengths = checks.tokens("cpu", rows=4), torch.tensor([9, 10, 11, 12])
    right, passes, found = decode._concept, [], []

    def counted(model, h, logits, rows, state):
        passes.append(len(rows))
        assert int(state.waited.max()) <= 3
        return right(model, h, logits, rows, state)

    monkeypatch.setattr(decode, "_concept", counted)
    for patience in (0, 3):
        passes.clear()
        found.append((decode.generate(model, x, 13, lengths=lengths, patience=patience), passes[:]))
    (alone, apart), (same, together) = found
    assert torch.equal(alone, same)
    assert sum(apart) == sum(together) == 12
    assert (len(apart), len(together)) == (12, 3)


def test_counted_costs_match_the_notes_for_a_small_qwen():
    """0.6B split 4/20/4 at rho 1/4: 1.83x at 1k and 3.62x at 32k."""
    shape = QWEN3_SMALL
    config = ConceptConfig(4, 20, 4)
    assert abs(speedup_bound(shape, config, 1024, 0.25) - 1.83) < 0.05
    assert abs(speedup_bound(shape, config, 32768, 0.25) - 3.62) < 0.1
    found = [round(speedup_bound(shape, config, 2048, 1 / n), 2) for n in (2, 4, 8)]
    assert found == [1.55, 1.99, 2.27]  # as the README says
