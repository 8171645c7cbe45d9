"""The notes' loop, as written: at every step, the deep layers run over what that step sees.

The oracle that the packed pass and the cached decoder are held against. It costs T deep passes.
"""

import torch
from torch import Tensor

from methods.concept_lm.model import ConceptLM, pack


def sequential_logits(model: ConceptLM, x: Tensor, noise: Tensor | None = None) -> Tensor:
    r"""Logits of every next token, one step at a time: (B, T) -> (B, T, V).

    n_t concepts stand up to t, the last of them at tau(t). With the token readout h_t is appended
    where t = tau(t). `noise` is (B, T, K + 1), or None for evaluation.

    Equation: $\mathrm{logits}_t = W \, \mathrm{norm}(\mathrm{Deep}([m_1, \dots, m_{n_t},
    h_{\tau(t) + 1}, \dots, h_t])_{-1})$
    """
    rows = [
        _row(model, x[b : b + 1], None if noise is None else noise[b : b + 1])
        for b in range(len(x))
    ]
    return torch.cat(rows)


def _row(model: ConceptLM, x: Tensor, noise: Tensor | None) -> Tensor:
    h = model.run_shallow(x)  # (1, T, d)
    routing = model.route(h, noise)
    packed = pack(routing.is_concept)
    m = model.run_middle(routing, packed)  # (1, C, d)
    compact = model.config.positions == "compact"
    steps = []
    n = 0  # concepts so far
    last = -1  # where the last one stands
    for t in range(x.shape[1]):
        if routing.is_concept[0, t]:
            n, last = n + 1, t
        visible = [m[:, :n], h[:, last + 1 : t + 1]]
        places = [packed.index[0, :n], torch.arange(last + 1, t + 1, device=x.device)]
        if routing.is_concept[0, t] and model.config.readout == "token":
            visible.append(h[:, t : t + 1])
            places.append(torch.tensor([t], device=x.device))
        seen = torch.cat(visible, 1)  # (1, n + tail, d)
        positions = torch.cat(places)[None]
        if compact:
            positions = torch.arange(seen.shape[1], device=x.device)[None]
        out = model.run_layers(model.deep, seen, positions)  # causal
        steps.append(model.read_out(out[:, -1:]))
    return torch.cat(steps, 1)
