"""The base model: Qwen2, Qwen3 or Llama, tiny and random or real, with LoRA.

LoRA: Hu et al., arXiv:2106.09685, W x + (alpha / r) B A x with B = 0 at the start, so that a model
with fresh adapters computes exactly what its base computes.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

from ..errors import InputError
from ..kit.frozen import load_frozen, read_config
from ..kit.seeds import seeded
from .config import ConceptConfig

MODELS: dict[str, Any] = {
    "qwen2": Qwen2ForCausalLM, "qwen3": Qwen3ForCausalLM, "llama": LlamaForCausalLM,
}  # fmt: skip
LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def tiny_config(
    family: str = "qwen3",
    *,
    vocab: int = 256,
    d: int = 64,
    layers: int = 6,
    heads: int = 4,
    kv_heads: int = 2,
    d_ff: int = 128,
    max_positions: int = 4096,
) -> Any:
    """A small configuration for tests and CPU benchmarks."""
    return MODELS[family].config_class(
        vocab_size=vocab,
        hidden_size=d,
        intermediate_size=d_ff,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=d // heads,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )


def load_base(source: Any, *, dtype: torch.dtype | None = None, seed: int = 0) -> Any:
    """A causal language model from a configuration (random weights), a folder, file or hub id.

    Args:
        source: a configuration, a path written by `save_pretrained`, a hub id, or a GGUF file.
        dtype: of the weights; the checkpoint's own where not given.
        seed: of the random weights.

    Raises:
        InputError: when there is no such model, it is of another family, or it uses sliding
            windows, which the split of its layers would silently change.
    """
    config = read_config(source, "base model")
    if config.model_type not in MODELS:
        kinds = ", ".join(MODELS)
        raise InputError(f"the base is a {config.model_type!r} model; this method reads {kinds}")
    if "sliding_attention" in (getattr(config, "layer_types", None) or []):
        raise InputError("the base uses sliding-window layers; load it with use_sliding_window off")
    return load_frozen(MODELS[config.model_type], source, dtype=dtype, seed=seed)


def check_tokens(x: Tensor, config: Any) -> None:
    """Check token ids and their number against the base.

    Raises:
        InputError: for an empty batch, ids outside the vocabulary, or too many positions.
    """
    if x.ndim != 2 or x.numel() == 0 or x.is_floating_point():
        given = f"{tuple(x.shape)} {x.dtype}"
        raise InputError(f"tokens are {given}; non-empty integers (batch, time) are needed")
    most, last = config.max_position_embeddings, config.vocab_size - 1
    if x.shape[1] > most:
        raise InputError(f"{x.shape[1]} tokens, but the base has {most} positions")
    low, high = int(x.min()), int(x.max())
    if low < 0 or high > last:
        raise InputError(f"token ids lie in {low}..{high}, the base's vocabulary in 0..{last}")


def add_lora(
    base: Any, config: ConceptConfig, *, seed: int = 0, names: Sequence[str] = ("default",)
) -> Any:
    """Freeze a base and put LoRA on every linear map of its layers, an adapter for each name."""
    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules=LORA_TARGETS,
        task_type="CAUSAL_LM",
    )
    with seeded(seed), warnings.catch_warnings():
        # peft asks for an old name of this, and the log of each run would say so.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        peft = get_peft_model(base, lora, adapter_name=names[0])
        for name in names[1:]:
            peft.add_adapter(name, lora)
    return peft


def widen_norms(model: nn.Module) -> None:
    """Replace every RMSNorm of a model by torch's, with the same weights: one call, all precision.

    Qwen rounds to fp32 inside its norm. Two orders of summation that agree to 1e-16 can then land
    on either side of a rounding step and differ by 1e-7; comparing algorithms to 1e-12 needs a norm
    without that step.
    """
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child).__name__ in ("Qwen2RMSNorm", "Qwen3RMSNorm", "LlamaRMSNorm"):
                old: Any = child
                norm = nn.RMSNorm(len(old.weight), old.variance_epsilon)
                norm.weight = old.weight
                setattr(module, name, norm)
