"""The rows of the table of checks that hold v3 to its equations."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..kit.compare import difference, largest
from ..kit.seeds import generator, seeded
from ..spec import Case
from .base import load_base, tiny_config, widen_norms
from .reference import executor_nll, planner_log_prob
from .synthetic import PlanTask
from .v3.curriculum import Curriculum, EMSettings
from .v3.em import HardEM
from .v3.executor import Executor
from .v3.planner import Planner, PlanShape
from .v3.role import Role, adapters

SHAPE = PlanShape(types=3, codes=5, slots=3, u_vocab=7, y_vocab=4, d=32)


def typed_plans(device: str) -> Iterator[Case]:
    """Planner and executor == their equations, one type and one example at a time."""
    yield from _against_equations(device, SHAPE, {}, "")
    yield from _against_equations(device, replace(SHAPE, sequence=True), {}, " in sequence")
    base = load_base(tiny_config(vocab=7, d=32, layers=2, heads=2, kv_heads=1), dtype=torch.float64)
    widen_norms(base)
    on = adapters(base.to(device), rank=4)
    source = generator(5)
    for role in (on["planner"], on["executor"]):  # so that the adapters differ, and matter
        for name, p in role.named_parameters():
            if "lora_B" in name:
                p.data += torch.randn(p.shape, generator=source).to(p) * 0.1
    yield from _against_equations(device, replace(SHAPE, y_vocab=7), on, " on a shared base")


def _against_equations(
    device: str, shape: PlanShape, on: dict[str, Role], where: str
) -> Iterator[Case]:
    planner = Planner(shape, 0, on.get("planner")).to(device).double()
    executor = Executor(shape, 0, on.get("executor")).to(device).double()
    for model in (planner, executor):
        widen_norms(model)
    source = generator(0)
    u = torch.randint(7, (4, 5), generator=source).to(device)
    z = torch.randint(6, (4, 3, 4), generator=source).to(device)
    y = torch.randint(4, (4, 8), generator=source).to(device)
    z = torch.where((z == SHAPE.eos).long().cumsum(-1) > 0, SHAPE.eos, z)
    z[:, :, -1] = SHAPE.eos
    with torch.no_grad():
        executor.kind.weight.mul_(3)
        alone = [planner_log_prob(planner, *one) for one in zip(u, z, strict=True)]
        error = difference(planner.log_prob(u, z), torch.stack(alone))
        yield Case(error, 1e-12, label=f"planner{where}")
        alone = [executor_nll(executor, *one) for one in zip(z, y, strict=True)]
        error = difference(executor.nll(z, y), torch.stack(alone))
        yield Case(error, 1e-12, label=f"executor{where}")
    e = executor.embed(z[:, :, :-1]).requires_grad_()
    used = z[:, :, :-1] != SHAPE.eos
    nll = executor.token_nll(e, used, y).sum()
    theirs = [planner.start.weight, *planner.backbone.parameters()]
    to_e, *to_planner = torch.autograd.grad(nll, [e, *theirs], allow_unused=True)
    apart = all(grad is None for grad in to_planner)
    yield Case(apart, True, label=f"no path from the planner to the executor{where}")
    yield Case(float(to_e[~used].abs().max()), 0.0, label=f"gradient to slots after EOS{where}")


def small(plan_drop: float = 0.0, **changes: Any) -> HardEM:
    """v3 on 2-bit codes, untrained, with the given shares of what training hides."""
    task = PlanTask(types=2, bits=2)
    settings = EMSettings(samples=32, batch=16, plan_drop=plan_drop)
    plan = replace(Curriculum(warm_up=4, steps=4, drop=0.0, warm_up_drop=0.0), **changes)
    return HardEM(task, task.shape(d=32), settings, plan)


def flow(em: HardEM, loss: Tensor, part: nn.Module) -> float:
    """The largest gradient that a loss sends to a part of v3."""
    em.everything.zero_grad()
    torch.autograd.backward(loss)
    grads = [p.grad for p in part.parameters() if p.grad is not None]
    return largest([float(grad.abs().max()) for grad in grads]) if grads else 0.0


def objectives(device: str) -> Iterator[Case]:
    """The losses hide what they should, and the E-step weighs log p(z | u) by beta."""
    with seeded(0):
        for when, drop in product(("em_loss", "warm_up_loss"), (1.0, 0.0)):
            em = small(drop=drop, warm_up_drop=drop)
            reached = flow(em, getattr(em, when)(0), em.executor.tokens)
            yield Case(reached == 0, drop == 1, label=f"{when}: text all dropped {drop == 1}")
            em = small(plan_drop=drop)
            reached = flow(em, getattr(em, when)(0), em.executor.concepts)
            yield Case(reached == 0, drop == 1, label=f"{when}: plans dropped {drop}")
    em = small()
    with torch.no_grad():
        for p in em.planner.heads.parameters():
            p.mul_(20)  # so that what the planner thinks of a plan matters
        for beta in (0.0, 0.5, 4.0):
            chosen = em.search.choose(em.u, em.y, em.z, beta, sweep=True)
            nll = [executor_nll(em.executor, *one) for one in zip(chosen.z, em.y, strict=True)]
            plans = zip(em.u, chosen.z, strict=True)
            prior = [planner_log_prob(em.planner, *one) for one in plans]
            wanted = beta * torch.stack(prior) - torch.stack(nll).sum(-1)
            error = difference(chosen.score, wanted)
            yield Case(error, 1e-4, label=f"S of the choice, beta {beta}")
