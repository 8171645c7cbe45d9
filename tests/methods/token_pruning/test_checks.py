"""Every row of the table of checks passes, and fails when the thing it guards is broken."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from methods.token_pruning import accounting, bench, checks, checks_learning, merger, model, relax
from methods.token_pruning.config import PruningConfig
from methods.token_pruning.loop import Cache, Stream
from methods.token_pruning.merger import Merger, QuestionMerger
from methods.token_pruning.spec import METHOD

Break = Callable[[pytest.MonkeyPatch], None]

ALL = [
    checks.parameters,
    checks.aggregation,
    checks.gradients,
    checks.hard_forward,
    checks.log_gate,
    checks.identity,
    checks.token_counts,
    checks.positions,
    checks.caching,
    checks.counted,
    checks.temperature,
]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_holds(check):
    cases = list(check("cpu"))
    assert cases
    assert [case for case in cases if not case.passed] == []


def test_every_row_is_here():
    assert {check.__name__ for check in ALL} | {"ordering"} == {c.name for c in METHOD.checks}


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
    right = relax.straight_through

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
        if name == "position" and self.valid and not hasattr(self, "_moved"):
            object.__setattr__(self, "_moved", True)
            value = value - 5
        right(self, name, value)

    patch.setattr(Cache, "__setattr__", assign)


def forget_the_projector(patch):
    patch.setattr(accounting, "projector_flops", lambda shape, tokens: 0)


def never_cool(patch):
    patch.setattr(PruningConfig, "tau", lambda self, step, steps: 1.0 - 0.9 * step / steps)


BROKEN = {
    checks.parameters: project_twice,
    checks.aggregation: columns_as_they_come,
    checks.gradients: no_gradient_to_the_scorer,
    checks.hard_forward: soft_forward,
    checks.log_gate: gate_without_log,
    checks.identity: merge_even_when_all_stay,
    checks.token_counts: drop_late,
    checks.positions: renumber,
    checks.caching: next_position_is_what_is_left,
    checks.counted: forget_the_projector,
    checks.temperature: never_cool,
}


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_fails_when_broken(check, monkeypatch):
    BROKEN[check](monkeypatch)
    assert any(not case.passed for case in check("cpu"))


def test_ordering_fails_for_a_choice_that_avoids_what_is_asked(monkeypatch):
    """A head that was taught the opposite loses to chance."""
    llava = bench.toy.trained(0, 1)
    pruner = model.Pruner(llava, bench.toy.pruning())
    exams = iter([0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.9] * len(checks_learning.BUDGETS))
    monkeypatch.setattr(checks_learning, "small", lambda device: (llava, pruner))
    monkeypatch.setattr(checks_learning, "QUESTIONS", 8)
    monkeypatch.setattr(checks_learning.Exam, "accuracy", lambda *_: next(exams))
    cases = list(checks_learning.ordering("cpu"))
    assert [case.passed for case in cases[:2]] == [False, True]


def test_mergers_know_their_names():
    with torch.device("meta"):
        assert merger.make_merger(PruningConfig(merger_type="none"), 8, 8) is None
