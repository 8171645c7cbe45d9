"""Which tokens become concepts, and that their number is held."""

import torch

from methods.concept_lm import checks, decode
from methods.concept_lm.cache import SlotCache
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.flops import QWEN3_SMALL, speedup_bound
from methods.concept_lm.head import ConceptHead, cap_runs
from methods.concept_lm.masks import deep_allow
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
