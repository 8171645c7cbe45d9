"""Ways to break the method, and the checks that must see it."""

import torch

from methods.concept_lm import base, decode, masks, model
from methods.concept_lm.model import ConceptLM, Packed
from tests.methods.mutation import Mutation


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


MUTATIONS = [
    Mutation("oracle", causal_everywhere),
    Mutation("gradients", causal_everywhere),
    Mutation("decoding", keep_the_tail),
    Mutation("leak", see_the_future),
    Mutation("dropped_layers", misplace_the_split),
    Mutation("flex", forget_the_concepts),
    Mutation("trainables", thaw_the_norms),
    Mutation("ragged", pack_to_the_right),
    Mutation("middle_gradients", ignore_the_boundaries),
]
