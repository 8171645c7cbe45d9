"""What a decoded token costs, counted: the bound that measured speed is held against.

A multiply-add is two operations. Norms, RoPE, softmax and the embedding lookup are left out: they
are under a hundredth of a layer at d >= 256.
"""

from dataclasses import dataclass
from typing import Any

from methods.concept_lm.config import ConceptConfig


@dataclass(frozen=True)
class Shape:
    """The numbers of a base that costs depend on."""

    d: int
    d_ff: int
    heads: int
    kv_heads: int
    d_head: int
    vocab: int
    layers: int

    @classmethod
    def of(cls, config: Any) -> "Shape":
        """Read a Qwen configuration."""
        d_head = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        return cls(
            config.hidden_size,
            config.intermediate_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            d_head,
            config.vocab_size,
            config.num_hidden_layers,
        )

    @property
    def layer(self) -> int:
        """Parameters of a layer's linear maps: P."""
        attention = self.d * self.d_head * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.d * self.d_ff

    def attend(self, keys: float) -> float:
        """Operations of one query over `keys` in one layer: scores and weighted values."""
        return 4 * self.heads * self.d_head * keys


QWEN3_SMALL = Shape(  # Qwen3-0.6B
    d=1024, d_ff=3072, heads=16, kv_heads=8, d_head=128, vocab=151_936, layers=28
)


def plain_token(shape: Shape, context: float, layers: int | None = None) -> float:
    """Operations to decode a token with `context` keys in each of `layers` layers."""
    count = shape.layers if layers is None else layers
    return count * (2 * shape.layer + shape.attend(context)) + 2 * shape.d * shape.vocab


def concept_token(
    shape: Shape, config: ConceptConfig, context: float, rho: float, tail: float
) -> float:
    """Operations to decode a token with v2, on average.

    2P (L_s + L_d + rho L_m) + attention over (T, rho T, rho T + tail) + lm_head + head.
    """
    window = config.shallow_window
    near = min(context, window) if window else context
    linear = 2 * shape.layer * (config.shallow + config.deep + rho * config.middle)
    attention = (
        config.shallow * shape.attend(near)
        + config.middle * rho * shape.attend(rho * context)
        + config.deep * shape.attend(rho * context + tail)
    )
    if config.readout == "token":  # the extra query at each concept
        extra = 2 * shape.layer + shape.attend(rho * context + 1)
        attention += rho * config.deep * extra
    return linear + attention + 2 * shape.d * shape.vocab + choosing(shape, config, rho)


def choosing(shape: Shape, config: ConceptConfig, rho: float) -> float:
    """Operations a token to place concepts and name them: the head, and a rule's own maps."""
    names = config.n_concepts + 1 if config.codes == "softmax" else config.places * (1 + rho)
    return 2 * shape.d * (names + (2 * shape.d if config.boundary == "hnet" else 0))


def speedup_bound(shape: Shape, config: ConceptConfig, context: float, rho: float) -> float:
    """How many times fewer operations v2 needs than its base; tails average (1 / rho - 1) / 2."""
    ours = concept_token(shape, config, context, rho, (1 / rho - 1) / 2)
    return plain_token(shape, context) / ours
