"""v1, the baseline: full-attention LoRA tuning of the same base, on the same data and steps."""

from typing import Any

from torch import Tensor, nn

from methods.concept_lm.base import add_lora, check_tokens
from methods.concept_lm.config import ConceptConfig


class FullAttentionLM(nn.Module):
    """The base with LoRA and nothing else: every layer sees every token."""

    def __init__(self, base: Any, config: ConceptConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.base_config = base.config
        self.peft = add_lora(base, config, seed=seed)

    def forward(self, x: Tensor) -> Tensor:
        r"""Logits of every next token: (B, T) -> (B, T, V).

        Equation: $\mathrm{logits}_t = \mathrm{LM}_{W + (\alpha / r) B A}(x_{\le t})$

        Raises:
            ConceptError: for tokens the base cannot read.
        """
        check_tokens(x, self.base_config)
        logits: Tensor = self.peft(input_ids=x, use_cache=False).logits
        return logits
