"""GPT-2 with grouped-head sparse attention in the place of its own, or not.

The model is Radford et al. (2019) in the manner of nanoGPT; parameter names are those of the
transformers library, so published weights load. `use_sparse_attention` swaps the attention alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.errors import InputError
from methods.sparse_attention.cache import SparseKVCache
from methods.sparse_attention.config import SparseAttentionConfig
from methods.sparse_attention.module import SparseAttention


@dataclass(frozen=True)
class GPT2Config:
    """GPT-2 small; 50304 is its 50257 tokens rounded up to a multiple of 64."""

    vocab_size: int = 50304
    n_positions: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    use_sparse_attention: bool = False
    sparse_config: SparseAttentionConfig = field(default_factory=SparseAttentionConfig)

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise InputError(f"n_embd {self.n_embd} does not divide into {self.n_head} heads")
        if self.use_sparse_attention and self.sparse_config.heads != self.n_head:
            raise InputError(
                f"sparse_config has {self.sparse_config.local_heads} + "
                f"{self.sparse_config.global_heads} heads, the model {self.n_head}"
            )


class CausalAttention(nn.Module):
    """GPT-2's own attention, dense."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.n_head, self.dropout = config.n_head, config.dropout
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        r"""(batch, n, n_embd) -> the same.

        Equation: $y = W_o [o^h]_h + b_o, \quad o^h_i = \sum_{j \le i}
        \frac{e^{s^h_{ij}}}{\sum_{l \le i} e^{s^h_{il}}} v^h_j, \quad
        s^h_{ij} = \frac{q^h_i \cdot k^h_j}{\sqrt{d}}$

        In training, dropout follows.
        """
        q, k, v = (
            part.unflatten(2, (self.n_head, -1)).transpose(1, 2)  # (batch, heads, n, d_head)
            for part in self.c_attn(x).chunk(3, dim=2)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = self.c_proj(out.transpose(1, 2).flatten(2))
        return F.dropout(out, self.dropout, self.training)


class MLP(nn.Module):
    """Two layers around a GELU (the tanh form, as GPT-2 was trained)."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        r"""(batch, n, n_embd) -> the same.

        Equation: $y = W_2\, g(W_1 x + b_1) + b_2, \quad g(z) = \frac{z}{2} \left( 1 + \tanh \left(
        \sqrt{2 / \pi}\, (z + 0.044715 z^3) \right) \right)$

        In training, dropout follows.
        """
        out: Tensor = self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))
        return out


class Block(nn.Module):
    """Attention, then MLP, each behind a layer norm and added to the stream."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = (
            SparseAttention(
                config.n_embd,
                config.sparse_config,
                context=config.n_positions,
                dropout=config.dropout,
            )
            if config.use_sparse_attention
            else CausalAttention(config)
        )
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = MLP(config)

    def forward(
        self, x: Tensor, key_lengths: Tensor | None = None, cache: SparseKVCache | None = None
    ) -> Tensor:
        r"""(batch, n, n_embd) -> the same. Lengths (batch,) and cache are for sparse attention.

        Equation: $y = x' + \mathrm{MLP}(\mathrm{LN}_2(x')), \quad
        x' = x + \mathrm{Attn}(\mathrm{LN}_1(x))$
        """
        if isinstance(self.attn, SparseAttention):
            x = x + self.attn(self.ln_1(x), key_lengths=key_lengths, cache=cache).output
        else:
            x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT2(nn.Module):
    """The language model; input and output embeddings are one."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self._initialise()

    def _initialise(self) -> None:
        """GPT-2's: normal 0.02, and less by the square root of its depth into the stream."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for name, weight in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(weight, std=0.02 / (2 * self.config.n_layer) ** 0.5)

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

        E are the rows of `wte`, P of `wpe`; c tokens stand in the cache, 0 without one. In
        training, h^0 goes through dropout.

        Args:
            tokens: integers below `vocab_size`.
            key_lengths: (batch,) real tokens of right-padded samples; sparse attention only.
            caches: one a layer, from `new_caches`; tokens then continue what they hold.

        Raises:
            InputError: if the tokens exceed the model's positions.
        """
        start = caches[0].lengths[:, None] if caches else 0  # (batch, 1)
        positions = start + torch.arange(tokens.shape[1], device=tokens.device)
        if not caches and tokens.shape[1] > self.config.n_positions:
            raise InputError(f"{tokens.shape[1]} tokens exceed {self.config.n_positions} positions")
        positions = positions.clamp(max=self.config.n_positions - 1)  # padding may stand beyond
        x = self.wte(tokens) + self.wpe(positions)
        x = F.dropout(x, self.config.dropout, self.training)
        for i, block in enumerate(self.h):
            x = block(x, key_lengths, caches[i] if caches else None)
        return F.linear(self.ln_f(x), self.wte.weight)

    def new_caches(self, batch: int) -> list[SparseKVCache]:
        """Empty caches, one a layer. Raises InputError for a dense model, which has none."""
        layers = [block.attn for block in self.h]
        sparse = [layer.new_cache(batch) for layer in layers if isinstance(layer, SparseAttention)]
        if not sparse:
            raise InputError("only a model with use_sparse_attention has caches")
        return sparse

    @torch.no_grad()
    def generate(self, tokens: Tensor, new: int, *, key_lengths: Tensor | None = None) -> Tensor:
        r"""Greedy continuation: (batch, n) right-padded prompts -> (batch, new) token ids.

        Equation: $y_t = \arg\max_v \mathrm{logits}_v(x_0, \ldots, x_{l - 1},
        y_0, \ldots, y_{t - 1})$

        l is the prompt's own length, from `key_lengths` (batch,), n where they are not given.
        """
        caches = self.new_caches(tokens.shape[0])
        logits = self(tokens, key_lengths=key_lengths, caches=caches)
        last = caches[0].lengths - 1
        logits = logits[torch.arange(tokens.shape[0], device=tokens.device), last]
        out = []
        for step in range(new):
            out.append(logits.argmax(-1))
            if step + 1 < new:
                logits = self(out[-1][:, None], caches=caches)[:, -1]
        return torch.stack(out, dim=1)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path, *, sparse_config: SparseAttentionConfig | None = None
    ) -> GPT2:
        """GPT-2 weights from the hub or a folder, attending densely or by `sparse_config`.

        Raises:
            InputError: if there are no such weights, naming what was looked for.
        """
        from transformers import GPT2LMHeadModel  # noqa: PLC0415 - slow, and only needed here

        try:
            source = GPT2LMHeadModel.from_pretrained(name_or_path)
        except (OSError, ValueError) as error:
            raise InputError(f"no GPT-2 weights at {str(name_or_path)!r}: {error}") from error
        known: Any = source.config
        model = cls(
            GPT2Config(
                vocab_size=known.vocab_size,
                n_positions=known.n_positions,
                n_layer=known.n_layer,
                n_head=known.n_head,
                n_embd=known.n_embd,
                use_sparse_attention=sparse_config is not None,
                sparse_config=sparse_config or SparseAttentionConfig(),
            )
        )
        weights = {}
        for name, weight in source.transformer.state_dict().items():
            if name.endswith((".attn.bias", ".attn.masked_bias")):
                continue  # buffers of masks, not weights
            is_matrix = weight.dim() == 2 and ".c_" in name
            weights[name] = weight.T if is_matrix else weight  # its Conv1D stores (in, out)
        model.load_state_dict(weights)
        return model
