"""The parts of the table of checks."""

import torch

from methods.token_pruning import bench, checks, model
from methods.token_pruning.config import PruningConfig


def test_ordering_fails_for_a_choice_that_avoids_what_is_asked(monkeypatch):
    """A head that was taught the opposite loses to chance."""
    llava = bench.toy.trained(0, 1)
    pruner = model.Pruner(llava, bench.toy.pruning())
    exams = iter([0.5, 0.5, 0.5, 0.5, 0.5, 0.3, 0.9] * len(checks.BUDGETS))
    monkeypatch.setattr(checks, "small", lambda device: (llava, pruner))
    monkeypatch.setattr(checks, "QUESTIONS", 8)
    monkeypatch.setattr(bench.toy.Exam, "accuracy", lambda *_: next(exams))
    cases = list(checks.ordering("cpu"))
    assert [case.passed for case in cases[:2]] == [False, True]


def test_mergers_know_their_names():
    with torch.device("meta"):
        assert model.make_merger(PruningConfig(merger_type="none"), 8, 8) is None
