"""A tiny concept model on random tokens: what `read` runs to show its shapes."""

from __future__ import annotations

import torch

from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.config import recommended
from methods.concept_lm.decode import prefill, step
from methods.concept_lm.model import ConceptLM


def main() -> None:
    """One packed pass with its gradients, then a prompt and two tokens with caches."""
    rows, length = 2, 24
    base = load_base(tiny_config(d=32, layers=3, d_ff=64, heads=2, kv_heads=1))
    model = ConceptLM(base, recommended(1, 1, 1, n_concepts=16))
    x = torch.randint(256, (rows, length))  # (rows, length)
    output = model(x, noise="draw")
    torch.autograd.backward(model.loss(output, x))
    model.eval()
    with torch.no_grad():
        logits, state = prefill(model, x, torch.tensor([length, 9]), room=4)  # (rows, 256)
        for _ in range(2):
            logits = step(model, logits.argmax(-1), state)  # (rows, 256)
