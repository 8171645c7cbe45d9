"""Ways to break the method, and the checks that must see it."""

import torch

from methods.concept_lm import base, cache, checks, core, decode, model
from methods.concept_lm.model import ConceptLM
from methods.concept_lm.v3 import planner
from methods.concept_lm.v3.em import HardEM
from methods.concept_lm.v3.estep import EStep
from methods.concept_lm.v3.executor import Executor
from tests.methods.mutation import Mutation


def causal_everywhere(patch):
    """The deep layers see all earlier tokens, not only concepts and their own segment."""

    def allow(is_concept):
        n = is_concept.shape[1]
        return torch.ones(n, n, dtype=torch.bool).tril().expand(len(is_concept), n, n)

    for module in (core, model):
        patch.setattr(module, "deep_allow", allow)


def see_the_future(patch):
    """Concepts see later concepts, as a bidirectional reading of the notes would have it."""
    right = core.deep_allow

    def allow(is_concept):
        return right(is_concept) | (is_concept[:, None, :] & is_concept[:, :, None])

    for module in (core, model):
        patch.setattr(module, "deep_allow", allow)


def keep_the_tail(patch):
    patch.setattr(decode.SlotCache, "evict", lambda self, counts, rows: None)


def misplace_the_split(patch):
    right = ConceptLM.__init__

    def split(self, *args, **kwargs):
        right(self, *args, **kwargs)
        self.deep = list(self.qwen.layers)[3:]

    patch.setattr(ConceptLM, "__init__", split)


def forget_the_concepts(patch):
    def causal(is_concept):
        from torch.nn.attention.flex_attention import create_block_mask

        B, T = is_concept.shape
        return create_block_mask(lambda b, h, q, k: k <= q, B, None, T, T, device="cpu")

    patch.setattr(checks, "block_mask", causal)


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
    right = core.pack

    patch.setattr(core, "pack", lambda is_concept: right(is_concept).flip(1))


def ignore_the_boundaries(patch):
    right = ConceptLM.forward

    def forward(self, x, *, is_concept=None, **kwargs):
        return right(self, x, noise="draw", **kwargs)

    patch.setattr(ConceptLM, "forward", forward)


def go_on_counting(patch):
    """Positions of a type go on after those of the type before."""
    right = Executor.prefix

    def prefix(self, e, used):
        x, positions, seen = right(self, e, used)
        return x, torch.arange(len(positions)), seen

    patch.setattr(Executor, "prefix", prefix)


def forget_the_type(patch):
    """The embedding of the type stands on separators alone."""
    right = Executor.prefix

    def prefix(self, e, used):
        return right(self, e - self.kind.weight[None, :, None], used)

    patch.setattr(Executor, "prefix", prefix)


def plan_in_parallel(patch):
    """Types do not see those before them, though they are written in sequence."""
    right = planner.type_mask
    patch.setattr(planner, "type_mask", lambda *sizes: right(*sizes[:4]))


def show_what_has_ended(patch):
    """Later types see what stands after the end of those before."""
    right = planner.type_mask

    def mask(*sizes):
        seen = sizes[4]
        return right(*sizes[:4], None if seen is None else torch.ones_like(seen))

    patch.setattr(planner, "type_mask", mask)


def show_all_of_the_text(patch):
    right = Executor.logits
    patch.setattr(Executor, "logits", lambda self, e, used, y, drop=0.0: right(self, e, used, y))


def show_every_plan(patch):
    patch.setattr(HardEM, "seen", lambda self, ids: ids != self.shape.eos)


def ignore_beta(patch):
    right = EStep.score

    def score(self, u, y, plans, beta):
        return right(self, u, y, plans, 1.0)

    patch.setattr(EStep, "score", score)


def keep_every_input(patch):
    right = model.add_lora

    def add(base, config, **kwargs):
        object.__setattr__(config, "lora_dropout", 0.0)
        return right(base, config, **kwargs)

    patch.setattr(model, "add_lora", add)


def adapt_attention_alone(patch):
    patch.setattr(base, "LORA_TARGETS", base.LORA_TARGETS[:4])


def look_one_further_back(patch):
    """While decoding a query sees one token more than its window."""
    right = cache.attention
    patch.setattr(cache, "attention", lambda q, k, v, w: right(q, k, v, w + (w > 0)))


def keep_what_waiting_rows_wrote(patch):
    right = decode.SlotCache.advance

    def advance(self, counts):
        one = isinstance(counts, torch.Tensor) and int(counts.max()) <= 1
        right(self, 1 if one else counts)

    patch.setattr(decode.SlotCache, "advance", advance)


MUTATIONS = [
    Mutation("oracle", causal_everywhere),
    Mutation("gradients", causal_everywhere),
    Mutation("decoding", keep_the_tail),
    Mutation("decoding", look_one_further_back),
    Mutation(
        "decoding",
        keep_what_waiting_rows_wrote,
        fails=("boundary fixed, rows wait 2",),
        holds=("boundary fixed, rows wait 0 steps",),
    ),
    Mutation("leak", see_the_future),
    Mutation("dropped_layers", misplace_the_split),
    Mutation("flex", forget_the_concepts),
    Mutation("trainables", thaw_the_norms),
    Mutation("trainables", adapt_attention_alone, fails=("qwen2: names", "qwen3: names")),
    Mutation("lora_dropout", keep_every_input),
    Mutation("ragged", pack_to_the_right),
    Mutation("middle_gradients", ignore_the_boundaries),
    Mutation("typed_plans", go_on_counting, fails=("executor",), holds=("planner",)),
    Mutation("typed_plans", forget_the_type, fails=("executor",), holds=("planner",)),
    *(
        Mutation(
            "typed_plans",
            breaks,
            fails=("planner in sequence",),
            holds=("planner on a shared base", "executor"),
        )
        for breaks in (plan_in_parallel, show_what_has_ended)
    ),
    Mutation("objectives", show_all_of_the_text, fails=("em_loss: text all", "warm_up_loss: text")),
    Mutation("objectives", show_every_plan, fails=("em_loss: plans", "warm_up_loss: plans")),
    Mutation("objectives", ignore_beta, fails=("S of the choice, beta 0.5",)),
]
