"""Savings of pruning, counted: operations and cache bytes of the tokens that reach each layer.

A multiply-add is two operations. Norms, softmax, rotary embedding and activation are left out, as
in torch's FlopCounterMode, with which `full` counting agrees to the operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..spec import Count
from .config import PruningConfig

Attention = Literal["causal", "full"]


@dataclass(frozen=True)
class Shape:
    """The numbers of a LLaVA that costs depend on; widths of the decoder, then of the tower."""

    d: int
    d_kv: int
    d_ff: int
    layers: int
    vocab: int
    d_vision: int
    d_vision_ff: int
    vision_layers: int
    visual: int  # patches of an image
    patch: int  # pixels of a patch's side

    @classmethod
    def of(cls, config: Any) -> "Shape":
        """Read a LlavaConfig."""
        text, vision = config.text_config, config.vision_config
        d_head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return cls(
            text.hidden_size,
            text.num_key_value_heads * d_head,
            text.intermediate_size,
            text.num_hidden_layers,
            text.vocab_size,
            vision.hidden_size,
            vision.intermediate_size,
            vision.num_hidden_layers,
            (vision.image_size // vision.patch_size) ** 2,
            vision.patch_size,
        )


LLAVA_7B = Shape(4096, 4096, 11008, 32, 32_064, 1024, 4096, 24, 576, 14)


def token_counts(config: PruningConfig, layers: int, visual: int, text: int) -> list[int]:
    r"""Tokens that each layer reads, one count for each decoder layer.

    Equation: $n_l = t + k_l, \quad k_l = K_{\max \{ h \le l \}}$

    k_l is the budget of the last head at or before layer l, M where there is none; where `drop` is
    "after", of the last head before layer l.

    Raises:
        InputError: for layers that do not exist or budgets above the tokens there.
    """
    config.fit(layers, visual)
    late = config.drop == "after"
    counts, here = [], config.merged(visual)
    budgets = dict(zip(config.pruning_layers, config.keep_tokens, strict=True))
    for layer in range(layers):
        budget = budgets.get(layer, here)
        counts.append(text + (here if late else budget))
        here = budget
    return counts


def layer_flops(shape: Shape, n: float, attention: Attention = "causal") -> float:
    r"""Operations of one decoder layer over n tokens.

    Equation: $F_l = 2 n (2 d^2 + 2 d d_{kv} + 3 d m) + 2 n^2 d$

    `full` counts the square of attention that a kernel with a mask computes, 4 n^2 d.
    """
    d = shape.d
    linear = 2 * n * (2 * d * d + 2 * d * shape.d_kv + 3 * d * shape.d_ff)
    return linear + (2 if attention == "causal" else 4) * n * n * d


def prefill_flops(shape: Shape, counts: Sequence[float], attention: Attention = "causal") -> float:
    r"""Operations of reading a prompt whose layers see `counts` tokens, one prediction included.

    Equation: $F = \sum_l F_l(n_l) + 2 d V$
    """
    return sum(layer_flops(shape, n, attention) for n in counts) + 2 * shape.d * shape.vocab


def vision_flops(shape: Shape) -> float:
    r"""Operations of the vision tower: the patches' convolution, then every layer with its CLS.

    Equation: $F_v = 6 N d_v p^2 + L_v (2 n (4 d_v^2 + 2 d_v m_v) + 4 n^2 d_v), \quad n = N + 1$
    """
    d, n = shape.d_vision, shape.visual + 1
    patches = 2 * shape.visual * d * 3 * shape.patch**2
    layer = 2 * n * (4 * d * d + 2 * d * shape.d_vision_ff) + 4 * n * n * d
    return patches + shape.vision_layers * layer


def projector_flops(shape: Shape, tokens: int) -> float:
    r"""Operations of the two-layer projector.

    Equation: $2 n (d_v d + d^2)$
    """
    return 2 * tokens * (shape.d_vision * shape.d + shape.d * shape.d)


def _asking(n: int, t: int, d_visual: int, d_text: int, d: int) -> float:
    """n patches and t words mapped to width d, attention of patches to words, and a scorer."""
    maps, half = 2 * (n * d_visual + t * d_text) * d, max(1, d // 2)
    return maps + 4 * (n + t) * d * d + 4 * n * t * d + 2 * n * (d * half + half)


def merger_flops(shape: Shape, config: PruningConfig, text: int) -> float:
    r"""Operations of the merger: scorer, W_q and W_k, A, A^T V; the question's part if it looks.

    Equation: $F_m = F_s + 2 (N + M) d^2 + 2 N M d + 2 N M d_v$
    """
    n, keep, d = shape.visual, config.merged(shape.visual), config.d_internal
    if config.merger_type == "none":
        return 0.0
    d_v = shape.d_vision
    if config.merger_type == "simple":
        score, inner = float(2 * n * (d_v * d + d)), d_v
    else:
        score, inner = _asking(n, text, d_v, shape.d, d), d
    if keep == n and config.scored_merge:
        return score
    merging = 2 * (n + keep) * inner * inner + 2 * n * keep * inner
    out = 2 * n * keep * d_v
    if not config.scored_merge and config.merger_type == "question_aware":
        out = 2 * n * keep * d + 2 * keep * d * d_v  # inner features, projected back
    return score + merging + out


def head_flops(shape: Shape, config: PruningConfig, visual: int, text: int) -> float:
    r"""Operations of one layer head over `visual` tokens and a question of `text`.

    Equation: $2 (n + t) d_{model} d + 4 (n + t) d^2 + 4 n t d + n (d^2 + d)$
    """
    return _asking(visual, text, shape.d, shape.d, config.d_internal)


def pruner_flops(shape: Shape, config: PruningConfig, text: int) -> float:
    r"""Operations of the merger and all heads; each head reads what the stage before left.

    Equation: $F_p = F_m + \sum_l F_h(n_{l-1}, t)$
    """
    here, total = config.merged(shape.visual), merger_flops(shape, config, text)
    for keep in config.keep_tokens:
        total += head_flops(shape, config, here, text)
        here = keep
    return total


def reading_flops(
    shape: Shape, config: PruningConfig | None, text: int, attention: Attention = "causal"
) -> float:
    r"""Operations of reading a prompt, projector and pruner included; no config: unpruned.

    Equation: $2 n_0 (d_v d + d^2) + F_p + F$
    """
    if config is None:
        counts, entering, pruner = [shape.visual + text] * shape.layers, shape.visual, 0.0
    else:
        counts = token_counts(config, shape.layers, shape.visual, text)
        entering = config.merged(shape.visual)
        pruner = pruner_flops(shape, config, text)
    return projector_flops(shape, entering) + pruner + prefill_flops(shape, counts, attention)


def total_flops(
    shape: Shape, config: PruningConfig | None, text: int, attention: Attention = "causal"
) -> float:
    r"""Operations to the first token: the vision tower, then reading.

    Equation: $F_v + 2 n_0 (d_v d + d^2) + F_p + F$
    """
    return vision_flops(shape) + reading_flops(shape, config, text, attention)


def kv_bytes(shape: Shape, counts: Sequence[float], itemsize: int = 2) -> float:
    r"""Bytes of keys and values kept: sum_l n_l 2 d_kv bytes.

    Equation: $\sum_l 2 n_l d_{kv} b$
    """
    return sum(counts) * 2 * shape.d_kv * itemsize


TEXT = 100  # tokens of text beside the image
_WHOLE = LLAVA_7B.visual + TEXT
_READ = token_counts(PruningConfig(), LLAVA_7B.layers, LLAVA_7B.visual, TEXT)  # by each layer


def tokens_saved() -> Count:
    """The share of the tokens that the layers no longer read, on average and in the last."""
    saved = 100 * (1 - sum(_READ) / (len(_READ) * _WHOLE))
    last = 100 * (1 - _READ[-1] / _WHOLE)
    steps = " -> ".join(str(count) for count in dict.fromkeys([_WHOLE, *_READ]))
    return Count(
        low=saved,
        high=saved,
        working=f"{steps}: {saved:.1f} % saved on average over the layers, {last:.1f} % in the "
        "last layer alone",
    )


def operations_saved() -> Count:
    """The share of a prompt's operations that is saved, without and with the vision tower."""
    dense = prefill_flops(LLAVA_7B, [_WHOLE] * LLAVA_7B.layers)
    pruned = prefill_flops(LLAVA_7B, _READ)
    tower = vision_flops(LLAVA_7B)
    saved = 100 * (1 - pruned / dense)
    return Count(
        low=saved,
        high=saved,
        working=f"{saved:.1f} % saved, {dense / pruned:.2f} times fewer; "
        f"{(dense + tower) / (pruned + tower):.2f} times with the vision tower",
    )
