"""The rows of the table of checks that need something to be learnt first."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..kit.corpus import stdlib
from ..kit.seeds import seeded
from ..kit.training import History, Plan, fit
from ..spec import Case
from .base import load_base, tiny_config
from .baselines import shuffled_codes
from .config import ConceptConfig
from .head import since
from .model import ConceptLM, ConceptOutput, token_nll
from .synthetic import RECALL_VOCAB, PlanTask, recall
from .train import OnText, train
from .v3.curriculum import Curriculum, EMSettings
from .v3.em import Falling, HardEM
from .v3.monitors import Action, diagnose


def learn_recall(device: str, window: int, steps: int = 250) -> float:
    """Train on `recall`; nats that shuffling the concepts costs on the recalled symbol."""
    base = load_base(tiny_config(vocab=RECALL_VOCAB, d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
    config = ConceptConfig(1, 1, 1, n_concepts=64, boundary="fixed", shallow_window=window)
    model = ConceptLM(base, config).to(device)
    model.fold()  # the base is random: all of it must learn, and adapters would add nothing
    model.requires_grad_(True)

    def recalled(rows: int, **forced: Any) -> Tensor:
        x = recall(rows).to(device)
        return token_nll(model(x, **forced).logits, x)[:, -1].mean()

    fit(
        lambda i: recalled(64, noise="draw"),
        torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True),
        Falling(steps, 7e-3, clip=1e3),
        History(),
        module=model,
    )
    found = []
    for codes in (None, shuffled_codes):
        with torch.no_grad(), seeded(0):
            found.append(float(recalled(256, codes=codes)))
    return found[1] - found[0]


def bottleneck(device: str) -> Iterator[Case]:
    """Shuffling concepts costs much where only they carry, and nothing where attention goes by."""
    yield Case(learn_recall(device, window=4), 5.0, ">=", "window of 4 tokens")
    # Half the steps: with the window concepts carry 3.1 to 6.6 nats by then, over four seeds.
    yield Case(learn_recall(device, 0, steps=125), 0.05, "<=", "global shallow attention")


def null_rate(device: str) -> Iterator[Case]:
    """The share of concepts stays at its target in training and on unseen text; runs end at R."""
    rates: list[float] = []

    def note(_model: Any, _given: Any, output: ConceptOutput) -> None:
        rates.append(float(output.routing.chosen.float().mean()))

    for rho, cap in ((0.25, 0), (0.4, 4)):
        rates.clear()
        base = load_base(tiny_config(d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
        config = ConceptConfig(1, 1, 1, n_concepts=64, rho=rho, run_cap=cap)
        learner = OnText(ConceptLM(base, config).to(device), stdlib(), 8, 64, 0)
        learner.model.register_forward_hook(note)
        train(learner, Plan(80, 3e-3))
        trained = sum(rates[40:]) / len(rates[40:])
        with torch.no_grad():
            routing = learner.run(learner.corpus.judged(64, 64).to(device)).routing
        label = f"rho {rho}, cap {cap}"
        yield Case(abs(trained - rho), 0.03, label=f"{label}: training")
        seen = float(routing.chosen.float().mean())
        yield Case(abs(seen - rho), 0.03, label=f"{label}: evaluation")
        if cap:
            longest = int(since(routing.is_concept).max())
            yield Case(longest, cap, "<=", f"{label}: longest run of NULLs")


def small_em(seed: int = 0) -> HardEM:
    """A task of 2-bit codes that is learnt in seconds."""
    task = PlanTask(types=2, bits=2)
    settings = EMSettings(samples=256, batch=64, seed=seed)
    return HardEM(task, task.shape(d=32), settings, Curriculum(warm_up=150, steps=60))


def monitors(device: str) -> Iterator[Case]:
    """A healthy run leads to no action; a collapse injected into it is flagged."""
    em = small_em()
    (stats,) = em.train(watch=210).values()
    yield Case(len(diagnose(stats)), 0, "<=", "actions for a healthy run")
    with torch.no_grad():  # every concept becomes the same one
        table = em.executor.concepts.weight
        table[:] = table.mean(0)
    found = {action.monitor for action in diagnose(em.observe(1.0))}
    yield Case("shuffled" in found, True, label="all concepts made equal")
    with torch.no_grad():  # planner and recogniser are sure of code 0, whatever they read
        for name, p in em.everything.named_parameters():
            if ".heads." in name:
                p.zero_()
                p[0] += 20.0 if name.endswith("bias") else 0.0
    actions: list[Action] = diagnose(em.observe(1.0))
    yield Case("entropy" in {a.monitor for a in actions}, True, label="the planner writes one plan")
