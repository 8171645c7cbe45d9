"""Ways to break the method, and the checks that must see it."""

from dataclasses import replace

import torch

from methods.token_pruning import accounting, checks, core
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.core import Merger
from methods.token_pruning.model import QuestionMerger
from methods.token_pruning.stream import Cache, Stream
from tests.methods.mutation import Mutation


def project_twice(patch):
    """The source's projection back, in our merger too."""
    right = QuestionMerger.__init__

    def build(self, d_vision, d_text, config):
        right(self, d_vision, d_text, config)
        self.out = torch.nn.Linear(config.d_internal, d_vision)

    patch.setattr(QuestionMerger, "__init__", build)


def columns_as_they_come(patch):
    """Column sums are not divided out, as in the source."""
    right = Merger.forward

    def forward(self, *args, **kwargs):
        merged = right(self, *args, **kwargs)
        return replace(merged, weights=merged.weights * 2)

    patch.setattr(Merger, "forward", forward)


def no_gradient_to_the_scorer(patch):
    right = Merger.forward

    def forward(self, V, *args, **kwargs):
        score = self.score
        self.score = lambda *given: (score(*given)[0].detach(), score(*given)[1])
        try:
            return right(self, V, *args, **kwargs)
        finally:
            del self.score

    patch.setattr(Merger, "forward", forward)


def soft_forward(patch):
    right = core.straight_through

    def choose(scores, k, tau):
        index, mask = right(scores, k, tau)
        return index, mask - 1e-6 * torch.sigmoid(scores)

    patch.setattr(checks, "straight_through", choose)


def gate_without_log(patch):
    """m itself as the bias: at m = 0 nothing is dropped."""
    right = Stream.bias

    def bias(self):
        if self.gate is None:
            return right(self)
        gate, self.gate = self.gate, self.gate.exp()
        try:
            return right(self)
        finally:
            self.gate = gate

    patch.setattr(Stream, "bias", bias)


def merge_even_when_all_stay(patch):
    right = Merger.forward

    def forward(self, V, *args, **kwargs):
        merged = right(self, V, *args, **kwargs)
        return replace(merged, tokens=merged.tokens.mean(1, keepdim=True).expand_as(merged.tokens))

    patch.setattr(Merger, "forward", forward)


def drop_late(patch):
    patch.setattr(
        accounting, "token_counts", lambda config, layers, visual, text: [visual + text] * layers
    )


def renumber(patch):
    """Kept tokens move together, as if the dropped ones had never been."""
    right = Stream.gather

    def gather(self, index):
        moved = right(self, index)
        n = moved.positions.shape[1]
        moved.positions = torch.arange(n, device=index.device).expand_as(moved.positions).clone()
        return moved

    patch.setattr(Stream, "gather", gather)


def next_position_is_what_is_left(patch):
    """The next token follows the tokens that are left, not the prompt."""
    right = Cache.__setattr__

    def assign(self, name, value):
        if name == "position" and getattr(self, "bias", ()) and not hasattr(self, "_moved"):
            object.__setattr__(self, "_moved", True)
            value = value - 5
        right(self, name, value)

    patch.setattr(Cache, "__setattr__", assign)


def forget_the_projector(patch):
    patch.setattr(accounting, "projector_flops", lambda shape, tokens: 0)


def never_cool(patch):
    patch.setattr(PruningConfig, "tau", lambda self, step, steps: 1.0 - 0.9 * step / steps)


MUTATIONS = [
    Mutation("parameters", project_twice),
    Mutation("aggregation", columns_as_they_come),
    Mutation("gradients", no_gradient_to_the_scorer),
    Mutation("hard_forward", soft_forward),
    Mutation("log_gate", gate_without_log),
    Mutation("identity", merge_even_when_all_stay),
    Mutation("token_counts", drop_late),
    Mutation("positions", renumber),
    Mutation("caching", next_position_is_what_is_left),
    Mutation("counted", forget_the_projector),
    Mutation("temperature", never_cool),
]
