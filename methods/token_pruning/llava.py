"""The model that is pruned: a LLaVA from a folder, the hub or a configuration, and its inputs.

LLaVA: Liu et al., arXiv:2304.08485; LLaVA-1.5: arXiv:2310.03744. Models of `FAMILIES` are read as
well, by what their own classes give the decoder (`families`).
"""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText, LlavaConfig, LlavaForConditionalGeneration
from transformers.models.llama.modeling_llama import rotate_half

from ..errors import InputError
from ..kit.frozen import load_frozen, read_config

# Whose layers take the same arguments.
DECODERS = ("llama", "mistral", "qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text")
FAMILIES = ("llava_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
NOTHING = torch.empty(0)
MIN_MASK = torch.finfo(torch.float32).min
Rotary = tuple[Tensor, Tensor]  # cos and sin of positions, (B, n, d_head) each


def sized(
    size: str = "tiny", vision: dict[str, Any] | None = None, text: dict[str, Any] | None = None
) -> LlavaConfig:
    """A LLaVA-1.5 of a size of `sizes.toml`: features from the tower's last layer but one.

    `vision` and `text` change the configurations of the tower, a CLIP, and of the decoder: a Llama,
    or what `model_type` says.
    """
    sizes = tomllib.loads(Path(__file__).with_name("sizes.toml").read_text("utf-8"))[size]
    tower = {"model_type": "clip_vision_model"} | sizes["vision"] | (vision or {})
    decoder = {"model_type": "llama", "tie_word_embeddings": False} | sizes["text"] | (text or {})
    patches = (tower["image_size"] // tower["patch_size"]) ** 2
    return LlavaConfig(
        vision_config=tower, text_config=decoder, image_token_id=2, image_seq_length=patches
    )


def load_llava(source: Any, *, dtype: torch.dtype | None = None, seed: int = 0) -> Any:
    """A frozen LLaVA, or model of `FAMILIES`, from a configuration, a folder or a hub id.

    Args:
        source: a configuration (random weights), a path written by `save_pretrained`, or a hub id.
        dtype: of the weights; the checkpoint's own where not given.
        seed: of the random weights.

    Raises:
        InputError: when there is no such model here, it is of another kind, weights are missing
            or of other shapes, or one of them is no number.
    """
    config = read_config(source, "LLaVA")
    check_kind(config)
    model_class: Any = LlavaForConditionalGeneration
    if config.model_type in FAMILIES:
        model_class = AutoModelForImageTextToText._model_mapping[type(config)]
    return load_frozen(model_class, source, dtype=dtype, seed=seed)


def check_kind(config: Any) -> None:
    """Refuse a configuration of a model that is not read here; raises InputError."""
    kinds = ("llava", *FAMILIES)
    if config.model_type not in kinds:
        listed = ", ".join(kinds)
        raise InputError(
            f"the model is a {config.model_type!r}; this method prunes {listed} models"
        )
    text, tower = config.text_config, getattr(config.vision_config, "model_type", "no vision tower")
    if text.model_type not in DECODERS:
        raise InputError(f"a llava on {text.model_type}; {', '.join(DECODERS)} are read")
    if getattr(text, "sliding_window", None) is not None:
        raise InputError("a decoder with a sliding window: its cache drops what pruning keeps")
    if config.model_type != "llava":
        return
    if tower != "clip_vision_model":
        raise InputError(f"a llava with {tower}; the tower must be a clip_vision_model")
    if config.vision_feature_select_strategy != "default":
        raise InputError("a llava that reads CLS beside the patches; `default` features are read")
    if not isinstance(config.vision_feature_layer, int):
        raise InputError("visual features of several layers at once are not supported")


@dataclass(frozen=True)
class Vision:
    """The output of the vision tower.

    `features` (B, N, d_vision) before the projector and `cls` (B, d_vision) beside them; `layer`
    made both from `states` (B, 1 + N, d_vision), CLS first. Keys and saliency are computed
    on demand. Of other families there are the features alone, as the decoder reads them.
    """

    features: Tensor
    layer: Any = None
    states: Tensor = NOTHING
    cls: Tensor = NOTHING

    @cached_property
    def _inside(self) -> tuple[Any, Tensor]:
        """Attention of the layer, and what it reads."""
        if self.layer is None:
            raise InputError("this choice reads a CLIP's CLS and keys, which this model has not")
        return self.layer.self_attn, self.layer.layer_norm1(self.states)

    @cached_property
    def keys(self) -> Tensor:
        r"""Keys of the layer that made the features, mean over H heads: (B, N, d_head).

        Equation: $k_i = \frac{1}{H} \sum_h (W_k\, \mathrm{LN}_1(s_{i + 1}) + b_k)_h$, s the
        `states`, CLS being s_0
        """
        attention, inside = self._inside
        keys: Tensor = attention.k_proj(inside)[:, 1:].float()
        return torch.unflatten(keys, 2, (attention.num_heads, -1)).mean(2)

    @cached_property
    def saliency(self) -> Tensor:
        r"""Attention of CLS to each patch in that layer, mean over H heads: (B, N).

        Equation: $a_i = \frac{1}{H} \sum_h \frac{e^{S_{h, i + 1}}}{\sum_{j = 0}^{N} e^{S_{hj}}},
        \quad S_{hj} = \frac{q_{h0} \cdot k_{hj}}{\sqrt{d_{head}}}$, CLS being 0
        """
        attention, inside = self._inside
        heads = attention.num_heads
        q = attention.q_proj(inside[:, :1]).unflatten(2, (heads, -1)).transpose(1, 2)
        k = attention.k_proj(inside).unflatten(2, (heads, -1)).transpose(1, 2)
        S = q.float() @ k.float().mT / q.shape[-1] ** 0.5  # (B, heads, 1, 1 + N)
        return torch.softmax(S, -1).mean(1)[:, 0, 1:]

    def rows(self, index: Tensor) -> "Vision":
        r"""Select images by their indices i (R,), which may repeat: R of them.

        Equation: $y_r = x_{i_r}$ for features and states
        """
        return Vision(self.features[index], self.layer, self.states[index], self.cls[index])


def visual_tokens(llava: Any) -> int:
    """N: the patches that an image becomes."""
    vision = llava.config.vision_config
    return int((vision.image_size // vision.patch_size) ** 2)


def encode(llava: Any, pixels: Tensor | None) -> Vision:
    r"""Run the vision tower up to the layer that the projector reads.

    Equation: $V_i = h^a_{i + 1}, \quad h^l = \mathrm{Layer}_l(h^{l - 1})$

    h^0 are the normed embeddings of CLS and patches, a is `vision_feature_layer`, counted from the
    last of h where it is negative.

    Args:
        llava: the model.
        pixels: (B, 3, image_size, image_size).

    Returns:
        V (B, N, d_vision), and what its layer read.

    Raises:
        InputError: for no images, or of another size or number of channels.
    """
    if pixels is None:
        raise InputError("there are no images to look at; pixels are None")
    side = llava.config.vision_config.image_size
    if pixels.ndim != 4 or tuple(pixels.shape[1:]) != (3, side, side):
        raise InputError(
            f"images have shape {tuple(pixels.shape)}; the vision tower reads (batch, 3, {side}, "
            f"{side}); resize them with the model's processor"
        )
    tower = llava.model.vision_tower
    dtype = tower.embeddings.patch_embedding.weight.dtype
    states = tower(pixels.to(dtype), output_hidden_states=True).hidden_states
    layer = llava.config.vision_feature_layer % len(states)
    before = max(layer - 1, 0)
    features = states[layer]
    return Vision(features[:, 1:], tower.encoder.layers[before], states[before], features[:, 0])


def attention_scores(layer: Any, hidden: Tensor, rotary: Rotary, queries: slice) -> Tensor:
    r"""Logits of a decoder layer's attention from some tokens to all; no mask is applied.

    Equation: $S = \frac{R(W_q x)\, R(W_k x)^T}{\sqrt{d_{head}}}, \quad x = \mathrm{RMSNorm}(h)$

    Queries and keys are normed head by head where the layer does that (Qwen3).

    Args:
        layer: a LlamaDecoderLayer, or one of `DECODERS`.
        hidden: h, its input (B, n, d).
        rotary: R as cos and sin (B, n, d_head).
        queries: which tokens look.

    Returns:
        S (B, heads, n_queries, n) float32.
    """
    attention = layer.self_attn
    inside = layer.input_layernorm(hidden)
    q = attention.q_proj(inside[:, queries]).unflatten(2, (-1, attention.head_dim))
    k = attention.k_proj(inside).unflatten(2, (-1, attention.head_dim))
    if hasattr(attention, "q_norm"):
        q, k = attention.q_norm(q), attention.k_norm(k)
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    cos, sin = (part[:, None] for part in rotary)  # (B, 1, n, d_head)
    q = q * cos[:, :, queries] + rotate_half(q) * sin[:, :, queries]
    k = k * cos + rotate_half(k) * sin
    k = k.repeat_interleave(attention.num_key_value_groups, dim=1)
    scores: Tensor = (q @ k.mT).float() * attention.scaling
    return scores
