"""Ways to break the method, and the checks that must see it."""

import torch

from methods.kit import noise
from methods.seps import checks, config, core, model
from methods.seps.config import mended
from methods.seps.model import Seps
from methods.seps.pairs import Shares
from tests.methods.mutation import Mutation


def one_parameter_more(patch):
    right = Seps.__init__

    def init(self, settings):
        right(self, settings)
        self.bias = torch.nn.Parameter(torch.zeros(1))

    patch.setattr(Seps, "__init__", init)


def forget_the_patches_that_stay(patch):
    """Weights over all patches, dropped or not."""
    right = core.share

    def share(strengths, gate, scores):
        return right(strengths, torch.ones_like(gate), scores)

    for module in (core, model):
        patch.setattr(module, "share", share)


def weights_over_the_tokens(patch):
    right = core.share

    def share(strengths, gate, scores):
        made = right(strengths, gate, scores)
        return Shares(made.kept / made.kept.sum(2, keepdim=True), made.dropped)

    for module in (core, model):
        patch.setattr(module, "share", share)


def keep_the_idle_biases(patch):
    patch.setitem(config.MENDED, "idle_biases", True)
    for name, one in checks.VARIANTS.items():
        if name.startswith("mended"):
            changes = {k: v for k, v in vars(one).items() if k != "idle_biases"}
            patch.setitem(checks.VARIANTS, name, mended(**changes))


def mend_the_faithful(patch):
    """If the source had drawn every patch for itself, its ratio loss would teach."""
    patch.setitem(checks.VARIANTS, "paper", mended(dim=32, patches=16, aggregate=0.5))


def round_the_choice(patch):
    patch.setattr(noise, "straight_through", lambda hard, soft: hard + 1.1 * soft - soft)


def keep_ties(patch):
    """Everything as high as the K-th: more than K where scores are equal."""

    def mask(scores, kept):
        return (scores >= scores.topk(kept, -1).values[..., -1:]).to(scores.dtype)

    for module in (core, model):
        patch.setattr(module, "top_mask", mask)


def normalise_over_the_batch(patch):
    right = core.guide

    def guide(v, E, **kind):
        found = right(v, E, **kind)
        return found - found.mean(1, keepdim=True)

    for module in (core, model):
        patch.setattr(module, "guide", guide)


def let_padding_count(patch):
    right = core.alignment

    def alignment(A, real, *others):
        return right(A, torch.ones_like(real), *others)

    for module in (core, model):
        patch.setattr(module, "alignment", alignment)


def softmax_over_the_patches(patch):
    """The source's relaxation: the mean of what is chosen cannot move."""
    right = Seps.choose

    def choose(self, scores):
        soft = scores.softmax(-1)
        return noise.straight_through(right(self, scores).detach().round(), soft)

    patch.setattr(Seps, "choose", choose)


MUTATIONS = [
    Mutation("self_test", one_parameter_more),
    Mutation("oracle", forget_the_patches_that_stay),
    Mutation("weights", weights_over_the_tokens),
    Mutation("gradients", keep_the_idle_biases),
    Mutation("defects", mend_the_faithful),
    Mutation("straight_through", round_the_choice),
    Mutation("kept", keep_ties),
    Mutation("batches", normalise_over_the_batch),
    Mutation("padding", let_padding_count),
    Mutation("ratio", softmax_over_the_patches),
]
