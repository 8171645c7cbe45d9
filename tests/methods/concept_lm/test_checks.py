"""Every row of the table of checks passes, and fails when the thing it guards is broken."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from methods.concept_lm import base, checks, decode, masks, model
from methods.concept_lm.model import ConceptLM, Packed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
Break = Callable[[pytest.MonkeyPatch], None]

ALL = [
    checks.oracle,
    checks.gradients,
    checks.decoding,
    checks.leak,
    checks.dropped_layers,
    checks.flex,
    checks.trainables,
    checks.ragged,
    checks.middle_gradients,
]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_holds(check):
    cases = list(check("cpu"))
    assert cases
    assert [case for case in cases if not case.passed] == []


def causal_everywhere(patch):
    """The deep layers see all earlier tokens, not only concepts and their own segment."""

    def allow(is_concept):
        n = is_concept.shape[1]
        return torch.ones(n, n, dtype=torch.bool).tril().expand(len(is_concept), n, n)

    patch.setattr(masks, "deep_allow", allow)


def see_the_future(patch):
    """Concepts see later concepts, as a bidirectional reading of the notes would have it."""
    right = masks.deep_allow

    def allow(is_concept):
        return right(is_concept) | (is_concept[:, None, :] & is_concept[:, :, None])

    patch.setattr(masks, "deep_allow", allow)


def keep_the_tail(patch):
    patch.setattr(decode.SlotCache, "evict", lambda self, counts, rows: None)


def misplace_the_split(patch):
    patch.setattr(ConceptLM, "deep", property(lambda self: self.qwen.layers[3:]))


def forget_the_concepts(patch):
    def causal(is_concept):
        from torch.nn.attention.flex_attention import create_block_mask

        B, T = is_concept.shape
        return create_block_mask(lambda b, h, q, k: k <= q, B, None, T, T, device="cpu")

    patch.setattr(masks, "block_mask", causal)


def thaw_the_norms(patch):
    right = base.add_lora

    def add(model, config, **kwargs):
        peft = right(model, config, **kwargs)
        for name, p in peft.named_parameters():
            if name.endswith("norm.weight"):
                p.requires_grad = True
        return peft

    patch.setattr(model, "add_lora", add)


def pack_to_the_right(patch):
    right = model.pack

    def pack(is_concept):
        p = right(is_concept)
        return Packed(p.index.flip(1), p.used.flip(1), p.counts)

    patch.setattr(model, "pack", pack)


def ignore_the_boundaries(patch):
    right = ConceptLM.forward

    def forward(self, x, *, is_concept=None, **kwargs):
        return right(self, x, noise="draw", **kwargs)

    patch.setattr(ConceptLM, "forward", forward)


@pytest.mark.parametrize(
    ("check", "breaks"),
    [
        (checks.oracle, causal_everywhere),
        (checks.gradients, causal_everywhere),
        (checks.decoding, keep_the_tail),
        (checks.leak, see_the_future),
        (checks.dropped_layers, misplace_the_split),
        (checks.flex, forget_the_concepts),
        (checks.trainables, thaw_the_norms),
        (checks.ragged, pack_to_the_right),
        (checks.middle_gradients, ignore_the_boundaries),
    ],
    ids=lambda value: value.__name__,
)
def test_fails_when_broken(check, breaks: Break, monkeypatch):
    breaks(monkeypatch)
    assert any(not case.passed for case in check("cpu"))


def test_norms_of_qwen_round_to_single_precision():
    """Why the exact rows of the table replace the norm: its input is rounded to fp32."""
    qwen = base.load_base(base.tiny_config(), dtype=torch.float64)
    x = torch.randn(4, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rounded = qwen.model.norm(x)
    base.widen_norms(qwen)
    assert isinstance(qwen.model.norm, nn.Module)
    assert 0 < float((qwen.model.norm(x) - rounded).abs().max()) < 1e-5
