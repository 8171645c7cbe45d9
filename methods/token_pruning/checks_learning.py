"""What must be learnt to be checked: chance <= learnt <= oracle, at every budget."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from ..spec import Case
from . import toy
from .bench import learn, plans
from .model import Pruner

BASE_STEPS, STEPS, QUESTIONS = 350, 120, 512
BUDGETS = (2, 4, 8, 12, 16)


@cache
def small(device: str) -> tuple[Any, Pruner]:
    """A model and its pruner, trained once a process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    llava = toy.trained(0, BASE_STEPS).to(device)
    pruner, _ = learn(llava, toy.pruning(loss="attention"), STEPS, 0)
    torch.set_num_threads(before)
    return llava, pruner


def ordering(device: str) -> Iterator[Case]:
    """Chance, ours and the oracle by the same schedule, on the same questions."""
    llava, pruner = small(device)
    exam = toy.Exam(llava, QUESTIONS, 0)
    ways = plans(pruner)
    for k in BUDGETS:
        chance = sum(exam.accuracy(ways["random_both"](k), draw) for draw in range(5)) / 5
        ours = exam.accuracy(ways["ours"](k))
        best = exam.accuracy(ways["oracle_both"](k))
        yield Case(ours, chance, ">=", f"{k} tokens: ours against chance")
        yield Case(ours, best, "<=", f"{k} tokens: ours against the oracle")
