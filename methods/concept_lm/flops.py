"""Operations of a decoded token: the bound that measured speed is compared with.

A multiply-add is two operations. Norms, RoPE, softmax and the embedding lookup are left out: they
are under a hundredth of a layer at d >= 256.
"""

from typing import Any

from transformers import Qwen3Config

from .config import ConceptConfig

QWEN3_SMALL = Qwen3Config(  # Qwen3-0.6B
    hidden_size=1024,
    intermediate_size=3072,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    vocab_size=151_936,
    num_hidden_layers=28,
)


def head_width(base: Any) -> int:
    """Size of a head of a Qwen configuration; Qwen2's does not state it."""
    return int(getattr(base, "head_dim", None) or base.hidden_size // base.num_attention_heads)


def linear_maps(base: Any) -> int:
    """Parameters of the linear maps of a layer: P."""
    heads = 2 * base.num_attention_heads + 2 * base.num_key_value_heads
    return int(base.hidden_size * (heads * head_width(base) + 3 * base.intermediate_size))


def attend(base: Any, keys: float) -> float:
    """Operations of one query over `keys` in one layer: scores and weighted values."""
    return float(4 * base.num_attention_heads * head_width(base) * keys)


def read_out(base: Any) -> int:
    """Operations of the map to the vocabulary."""
    return int(2 * base.hidden_size * base.vocab_size)


def plain_token(base: Any, context: float, layers: int | None = None) -> float:
    """Operations to decode a token with `context` keys in each of `layers` layers."""
    count: int = base.num_hidden_layers if layers is None else layers
    return count * (2 * linear_maps(base) + attend(base, context)) + read_out(base)


def concept_token(
    base: Any, config: ConceptConfig, context: float, rho: float, tail: float
) -> float:
    """Operations to decode a token with v2, on average.

    2P (L_s + L_d + rho L_m) + attention over (T, rho T, rho T + tail) + lm_head + head.
    """
    near = min(context, config.shallow_window or context)
    linear = 2 * linear_maps(base) * (config.shallow + config.deep + rho * config.middle)
    attention = (
        config.shallow * attend(base, near)
        + config.middle * rho * attend(base, rho * context)
        + config.deep * attend(base, rho * context + tail)
    )
    if config.readout == "token":  # the extra query at each concept
        extra = 2 * linear_maps(base) + attend(base, rho * context + 1)
        attention += rho * config.deep * extra
    return linear + attention + read_out(base) + choosing(base, config)


def choosing(base: Any, config: ConceptConfig) -> float:
    """Operations a token to place concepts and name them: the head, and a rule's own maps."""
    d: int = base.hidden_size
    return 2 * d * (config.n_concepts + 1 + (2 * d if config.boundary == "hnet" else 0))


def speedup_bound(base: Any, config: ConceptConfig, context: float, rho: float) -> float:
    """Operations of the base over those of v2; tails average (1 / rho - 1) / 2."""
    ours = concept_token(base, config, context, rho, (1 / rho - 1) / 2)
    return plain_token(base, context) / ours
