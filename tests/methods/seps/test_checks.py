"""Every row of the table of checks passes, and fails when the thing it guards is broken."""

import pytest
import torch

from methods.seps import align, checks, config, model, reference, slimming
from methods.seps.config import mended
from methods.seps.model import Seps

ALL = [
    checks.self_test,
    checks.oracle,
    checks.weights,
    checks.gradients,
    checks.defects,
    checks.straight_through,
    checks.kept,
    checks.batches,
    checks.padding,
    checks.ratio,
]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_holds(check):
    cases = list(check("cpu"))
    assert cases
    assert [case for case in cases if not case.passed] == []


def one_parameter_more(patch):
    right = Seps.__init__

    def init(self, settings):
        right(self, settings)
        self.bias = torch.nn.Parameter(torch.zeros(1))

    patch.setattr(Seps, "__init__", init)


def forget_the_patches_that_stay(patch):
    """Weights over all patches, dropped or not."""
    right = slimming.share

    def share(strengths, gate, scores):
        return right(strengths, torch.ones_like(gate), scores)

    patch.setattr(slimming, "share", share)


def weights_over_the_tokens(patch):
    right = slimming.share

    def share(strengths, gate, scores):
        made = right(strengths, gate, scores)
        return slimming.Shares(made.kept / made.kept.sum(2, keepdim=True), made.dropped)

    patch.setattr(slimming, "share", share)


def keep_the_idle_biases(patch):
    patch.setitem(config.MENDED, "idle_biases", True)
    for name, one in checks.VARIANTS.items():
        if name.startswith("mended"):
            changes = {k: v for k, v in one.as_dict().items() if k != "idle_biases"}
            patch.setitem(checks.VARIANTS, name, mended(**changes))


def mend_the_faithful(patch):
    """If the source had drawn every patch for itself, its ratio loss would teach."""
    patch.setitem(checks.VARIANTS, "paper", mended(dim=32, patches=16, aggregate=0.5))


def round_the_choice(patch):
    patch.setattr(slimming, "straight_through", lambda hard, soft: hard + 1.1 * soft - soft)


def keep_ties(patch):
    """Everything as high as the K-th: more than K where scores are equal."""

    def mask(scores, kept):
        return (scores >= scores.topk(kept, -1).values[..., -1:]).to(scores.dtype)

    patch.setattr(model, "top_mask", mask)


def normalise_over_the_batch(patch):
    right = model.self_guide

    def guide(patches):
        found = right(patches)
        return found - found.mean(0, keepdim=True)

    patch.setattr(model, "self_guide", guide)


def let_padding_count(patch):
    right = align.alignment

    def alignment(A, real, relevance):
        return right(A, torch.ones_like(real), relevance)

    patch.setattr(align, "alignment", alignment)


def softmax_over_the_patches(patch):
    """The source's relaxation: the mean of what is chosen cannot move."""
    right = Seps.choose

    def choose(self, scores):
        soft = scores.softmax(-1)
        return slimming.straight_through(right(self, scores).detach().round(), soft)

    patch.setattr(Seps, "choose", choose)


@pytest.mark.parametrize(
    ("check", "breaks"),
    [
        (checks.self_test, one_parameter_more),
        (checks.oracle, forget_the_patches_that_stay),
        (checks.weights, weights_over_the_tokens),
        (checks.gradients, keep_the_idle_biases),
        (checks.defects, mend_the_faithful),
        (checks.straight_through, round_the_choice),
        (checks.kept, keep_ties),
        (checks.batches, normalise_over_the_batch),
        (checks.padding, let_padding_count),
        (checks.ratio, softmax_over_the_patches),
    ],
    ids=lambda value: value.__name__,
)
def test_fails_when_broken(check, breaks, monkeypatch):
    breaks(monkeypatch)
    assert any(not case.passed for case in check("cpu"))


def test_the_definition_gathers_what_the_code_masks():
    """The oracle is no copy of the code: it never sees the dropped patches."""
    given = checks.inputs("cpu", checks.VARIANTS["paper"], batch=1)
    made = checks.example("cpu", checks.VARIANTS["paper"])
    before = made(**given).masks[0][0, 0]
    kept, v = before.bool(), given["patches"][0]
    merged = reference._merge(made, made.aggregations[0], v[1:], before + 0.0)
    assert merged.shape == (made.config.aggregated + 1, 32)
    assert int(kept.sum()) == made.config.kept
