"""What pruner and discriminator minimise, and the discriminator: the judge of adversarial training.

    G = w_adv BCE(D(fake), 1) + w_task CE(answer)
        + sum_l l relu(mean m_l - rho_l)^2 / sum_l l + count term
    D = BCE(D(real), 1) + BCE(D(sg(fake)), 0)

`mse` puts feature matching in the place of the adversarial term, `none` nothing.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import PruningConfig

SQUASH = 100.0  # hidden states of a large model reach hundreds; tanh(h / 100) bounds them


class Discriminator(nn.Module):
    """A logit for each answer position; its sigmoid is D.

    A layer: tanh(h / 100), d_model -> d with GELU, then a residual d -> d. The layers' features are
    concatenated and go through d -> d -> 1.
    """

    def __init__(self, d_model: int, config: PruningConfig) -> None:
        super().__init__()
        d, layers = config.d_discriminator, len(config.discriminator_layers)
        self.enter = nn.ModuleList(nn.Linear(d_model, d) for _ in range(layers))
        self.residual = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.judge = nn.Sequential(
            nn.Linear(layers * d, d), nn.GELU(), nn.Linear(d, d), nn.GELU(), nn.Linear(d, 1)
        )

    def forward(self, states: list[Tensor]) -> Tensor:
        r"""Hidden states at answer positions, one (B, a, d_model) a layer -> logits (B, a).

        Equation: $x_l = \mathrm{GELU}(W_l \tanh(h_l / 100)), \quad
            D = \sigma(\mathrm{MLP}([x_l + W'_l x_l]_l))$
        """
        seen = []
        for h, enter, residual in zip(states, self.enter, self.residual, strict=True):
            x = F.gelu(enter(torch.tanh(h.float() / SQUASH)))  # the model may be of half precision
            seen.append(x + residual(x))
        return torch.squeeze(self.judge(torch.cat(seen, dim=-1)), -1)


def bce(logits: Tensor, target: float) -> Tensor:
    r"""Binary cross entropy of sigmoid(logits) with one target, mean over logits of any shape: ().

    Equation: $\operatorname{mean}(-y \log \sigma(x) - (1 - y) \log(1 - \sigma(x)))$
    """
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


def discriminator_loss(judge: Discriminator, real: list[Tensor], fake: list[Tensor]) -> Tensor:
    r"""D's loss (); neither side's states, (a, d) a layer, get a gradient.

    Equation: $L_D = \mathrm{BCE}(D(\mathrm{real}), 1)
        + \mathrm{BCE}(D(\mathrm{sg}(\mathrm{fake})), 0)$
    """
    right = bce(judge([h.detach() for h in real]), 1.0)
    return right + bce(judge([h.detach() for h in fake]), 0.0)


def sparsity(log_gates: dict[int, Tensor], rho: dict[int, float]) -> Tensor:
    r"""How far heads keep more than they should, log m (B, n) each: (). Later layers weigh more.

    Equation: $L_s = \frac{\sum_l w_l \max(\bar m_l - \rho_l, 0)^2}{\sum_l w_l}$

    w_l = max(l, 1): a head before layer 0 would otherwise be free to keep everything.
    """
    weights = {layer: max(layer, 1) for layer in log_gates}
    over = {layer: F.relu(gate.exp().mean() - rho[layer]) ** 2 for layer, gate in log_gates.items()}
    total = sum((weights[layer] * square for layer, square in over.items()), torch.zeros(()))
    return total / max(1, sum(weights.values()))


def count_term(scores: Tensor, keep: int) -> Tensor:
    r"""The merger's scores (B, n) should ask for M tokens, not all; the mean over B: ().

    Equation: $L_c = \operatorname{mean}_b \left( \frac{1}{M} \sum_i \sigma(s_{bi}) - 1 \right)^2$
    """
    return ((scores.sigmoid().sum(dim=1) / keep - 1) ** 2).mean()


def matching(real: list[Tensor], fake: list[Tensor]) -> Tensor:
    r"""Mean squared difference of hidden states over the mean square of the real ones, by layer.

    States are (a, d) a layer; the mean over layers is ().

    Equation: $L_m = \operatorname{mean}_l
        \frac{\operatorname{mean} (f_l - r_l)^2}{\operatorname{mean} r_l^2}$
    """
    terms = [
        F.mse_loss(f, r) / r.pow(2).mean().clamp_min(1e-9)
        for r, f in ((r.detach().float(), f.float()) for r, f in zip(real, fake, strict=True))
    ]
    return torch.stack(terms).mean()


def closeness(
    config: PruningConfig, judge: Discriminator | None, real: list[Tensor], fake: list[Tensor]
) -> Tensor:
    r"""The term that pulls pruned hidden states towards unpruned ones, by the configured loss.

    Equation: $w_{adv} \mathrm{BCE}(D(\mathrm{fake}), 1) \;\mathrm{if\ adversarial}, \quad
    w_{adv} L_m \;\mathrm{if\ mse}, \quad 0 \;\mathrm{if\ none}$

    States are (a, d) a layer, the term is ().
    """
    if config.loss == "adversarial" and judge is not None:
        return config.adv_loss_weight * bce(judge(fake), 1.0)
    if config.loss == "mse":
        return config.adv_loss_weight * matching(real, fake)
    return fake[0].new_zeros(())
