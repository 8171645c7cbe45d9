"""A Qwen of three layers with a tokenizer of bytes, saved as people have theirs."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from methods.concept_lm.base import load_base, tiny_config


def save(folder: Path, dtype: torch.dtype = torch.float32, family: str = "qwen3") -> None:
    """Weights and tokenizer of a new model."""
    sizes = {"d": 32, "layers": 3, "d_ff": 64, "heads": 2, "kv_heads": 1}
    base = load_base(tiny_config(family, **sizes), dtype=dtype)
    base.save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=plain).save_pretrained(folder)
