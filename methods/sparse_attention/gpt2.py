"""transformers' GPT-2, dense or with the source's grouped heads.

The source's configuration for a model of transformers, whose weights, caches and `generate` stay as
they are: only what its layers attend to changes (`hugging_face`).
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import InputError
from .config import SparseAttentionConfig, head_groups


@dataclass(frozen=True)
class GPT2Config:
    """GPT-2 small; 50304 is its 50257 tokens rounded up to a multiple of 64.

    Raises:
        InputError: if the heads do not divide the width or fit `sparse_config`.
    """

    vocab_size: int = 50304
    n_positions: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    use_sparse_attention: bool = False
    sparse_config: SparseAttentionConfig = field(default_factory=SparseAttentionConfig)

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise InputError(f"n_embd {self.n_embd} does not divide into {self.n_head} heads")
        if self.use_sparse_attention:
            head_groups(self.sparse_config, self.n_head, self.n_positions)  # refuses a misfit


def gpt2(config: GPT2Config) -> Any:
    """Make a `GPT2LMHeadModel` with random weights, without dropout and special tokens."""
    from transformers import GPT2Config as TheirConfig  # noqa: PLC0415 - slow to import
    from transformers import GPT2LMHeadModel  # noqa: PLC0415

    shape = asdict(config)
    sparse = shape.pop("sparse_config")
    rates = dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop"), 0.0)
    tokens = {"bos_token_id": None, "eos_token_id": None}  # theirs exceed a small vocabulary
    if not shape.pop("use_sparse_attention"):
        return GPT2LMHeadModel(TheirConfig(**shape, **rates, **tokens))
    from .hugging_face import GROUPED, NAME, choose  # noqa: PLC0415

    model = GPT2LMHeadModel(TheirConfig(**shape, **rates, **tokens, attn_implementation=NAME))
    choose(model, GROUPED, **sparse)
    return model
