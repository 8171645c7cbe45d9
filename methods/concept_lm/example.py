"""Tiny concept models on random tokens: what `read` runs to show its shapes."""

import torch

from .base import load_base, tiny_config
from .config import recommended
from .decode import prefill, step
from .model import ConceptLM
from .synthetic import PlanTask
from .v3.em import Curriculum, EMSettings, HardEM


def main() -> None:
    """v2 compresses while it decodes; v3 plans, and writes from the plan."""
    compress()
    plan()


def compress() -> None:
    """One packed pass with its gradients, then a prompt and two tokens with caches."""
    rows, length = 2, 24
    base = load_base(tiny_config(d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
    model = ConceptLM(base, recommended(1, 1, 1, n_concepts=16))
    x = torch.randint(256, (rows, length))  # (rows, length)
    output = model(x, noise="draw")
    torch.autograd.backward(model.loss(output, x))
    model.eval()
    logits, state = prefill(model, x, torch.tensor([length, 9]), room=4)  # (rows, 256)
    for _ in range(2):
        logits = step(model, logits.argmax(-1), state)[0]  # (rows, 256)


def plan() -> None:
    """Two steps of warm-up and two of Hard-EM, then a plan for each prompt and a text from it."""
    task = PlanTask(types=2, bits=2)
    settings = EMSettings(samples=8, batch=4, held=8)
    em = HardEM(task, task.shape(d=32), settings, Curriculum(warm_up=2, steps=2))
    em.train(watch=4)
    z = em.planner.sample(em.u, 0.0)  # (8, 2, 2)
    y = em.executor.write(z, task.y_length, 0.0)  # (8, 4)
    em.executor.nll(z, y)
