"""transformers' GPT-2, with its own attention or grouped-head sparse attention.

Published weights load unchanged. `use_sparse_attention` replaces what lies between the projections
of each attention layer, and nothing else.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..kit.frozen import load_frozen
from .cache import SparseKVCache
from .config import SparseAttentionConfig, head_groups
from .module import SparseAttention

SHAPE = ("vocab_size", "n_positions", "n_layer", "n_head", "n_embd")  # transformers' names
# No dropout, and no special tokens: their ids lie outside a small vocabulary.
PLAIN: dict[str, Any] = dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop"), 0.0)
PLAIN |= {"bos_token_id": None, "eos_token_id": None}


@dataclass(frozen=True)
class GPT2Config:
    """GPT-2 small; 50304 is its 50257 tokens rounded up to a multiple of 64."""

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
            head_groups(self.sparse_config, self.n_head, self.n_positions)  # refuses what misfits

    def attending(self, sparse: SparseAttentionConfig | None) -> Self:
        """A copy that attends by `sparse`, or densely for None."""
        if sparse is None:
            return replace(self, use_sparse_attention=False)
        return replace(self, use_sparse_attention=True, sparse_config=sparse)


class GroupedHeads(nn.Module):
    """Sparse attention between the projections of one of GPT-2's attention layers."""

    def __init__(self, theirs: Any, config: GPT2Config) -> None:
        super().__init__()
        self.at = theirs.layer_idx
        self.sparse = SparseAttention(
            config.n_embd, config.sparse_config, context=config.n_positions
        )
        self.sparse.c_attn, self.sparse.c_proj = theirs.c_attn, theirs.c_proj

    def forward(
        self,
        x: Tensor,
        *,
        key_lengths: Tensor | None = None,
        caches: list[SparseKVCache] | None = None,
        past_key_values: object = None,
        encoder_hidden_states: object = None,
        **_: object,
    ) -> tuple[Tensor, None]:
        r"""(batch, n, n_embd) -> the same, and no weights; `_` takes a block's other arguments.

        Equation: $y = W_o\, \mathrm{SparseAttn}(q, k, v) + b_o, \quad [q, k, v] = W x + b$

        Raises:
            InputError: for a cache of transformers, as its own `generate` brings.
        """
        if past_key_values is not None or encoder_hidden_states is not None:
            raise InputError(
                "this model keeps keys in caches of its own: call GPT2.generate, or load it with "
                'attn_implementation="assay_sparse" (hugging_face) for transformers\' generate'
            )
        cache = caches[self.at] if caches else None
        return self.sparse(x, key_lengths=key_lengths, cache=cache).output, None


class GPT2(nn.Module):
    """The language model, with random weights unless `weights` is one of transformers'."""

    def __init__(self, config: GPT2Config, weights: Any = None) -> None:
        from transformers import GPT2Config as TheirConfig  # noqa: PLC0415 - slow to import
        from transformers import GPT2LMHeadModel  # noqa: PLC0415

        super().__init__()
        self.config = config
        shape = {name: getattr(config, name) for name in SHAPE}
        self.model: Any = weights or GPT2LMHeadModel(TheirConfig(**shape, **PLAIN))
        if config.use_sparse_attention:
            for block in self.model.transformer.h:
                block.attn = GroupedHeads(block.attn, config)

    def forward(
        self,
        tokens: Tensor,
        *,
        key_lengths: Tensor | None = None,
        caches: list[SparseKVCache] | None = None,
    ) -> Tensor:
        r"""(batch, n) token ids -> (batch, n, vocab_size) logits.

        Equation: $\mathrm{logits}_i = E\, \mathrm{LN}_f(h^L_i), \quad
        h^{l + 1} = \mathrm{Block}_l(h^l), \quad h^0_i = E_{x_i} + P_{c + i}$

        E are the embeddings of tokens, P of positions; c tokens stand in the cache, 0 without one.

        Args:
            tokens: integers below `vocab_size`.
            key_lengths: (batch,) real tokens of right-padded samples; sparse attention only.
            caches: one a layer, from `new_caches`; tokens then continue what they hold.

        Raises:
            InputError: if the tokens exceed the model's positions.
        """
        longest, positions = self.config.n_positions, None
        if caches:
            positions = caches[0].lengths[:, None] + torch.arange(tokens.shape[1]).to(tokens.device)
            positions = positions.clamp(max=longest - 1)  # padding may stand beyond
        elif tokens.shape[1] > longest:
            raise InputError(f"{tokens.shape[1]} tokens exceed {longest} positions")
        logits: Tensor = self.model(
            tokens, position_ids=positions, use_cache=False, key_lengths=key_lengths, caches=caches
        ).logits
        return logits

    def new_caches(self, batch: int) -> list[SparseKVCache]:
        """Empty caches, one a layer. Raises InputError for a dense model, which has none."""
        if not self.config.use_sparse_attention:
            raise InputError("only a model with use_sparse_attention has caches")
        return [block.attn.sparse.new_cache(batch) for block in self.model.transformer.h]

    @torch.no_grad()
    def generate(self, tokens: Tensor, new: int, *, key_lengths: Tensor | None = None) -> Tensor:
        r"""Greedy continuation: (batch, n) right-padded prompts -> (batch, new) token ids.

        Equation: $y_t = \arg\max_v \mathrm{logits}_v(x_0, \ldots, x_{l - 1},
        y_0, \ldots, y_{t - 1})$

        l is the prompt's own length, from `key_lengths` (batch,), n where they are not given.

        Raises:
            InputError: for a prompt without tokens, or `new` below 1.
        """
        if new < 1 or (key_lengths is not None and int(key_lengths.min()) < 1):
            raise InputError("a prompt and its continuation need at least one token each")
        caches = self.new_caches(tokens.shape[0])
        logits = self(tokens, key_lengths=key_lengths, caches=caches)
        last = caches[0].lengths - 1
        logits = logits[torch.arange(tokens.shape[0], device=tokens.device), last]
        out = [logits.argmax(-1)]
        while len(out) < new:
            out.append(self(out[-1][:, None], caches=caches)[:, -1].argmax(-1))
        return torch.stack(out, dim=1)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, sparse_config: SparseAttentionConfig | None = None
    ) -> Self:
        """GPT-2 weights from the hub or a folder, attending densely or by `sparse_config`.

        Raises:
            InputError: if the weights do not exist or cannot be read.
        """
        from transformers import GPT2LMHeadModel  # noqa: PLC0415 - slow to import

        weights = load_frozen(GPT2LMHeadModel, name_or_path, **PLAIN)
        config = GPT2Config(**{name: getattr(weights.config, name) for name in SHAPE})
        return cls(config.attending(sparse_config), weights.requires_grad_(True))
