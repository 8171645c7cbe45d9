"""The judge of adversarial training: do these hidden states come from the pruned model?"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.token_pruning.config import PruningConfig

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
        logits: Tensor = self.judge(torch.cat(seen, dim=-1))
        return logits[..., 0]
