"""Native sparse attention (Yuan et al., 2502.11089): three branches under a gate, as one layer.

    o = g_cmp Attn(q, K_cmp, V_cmp) + g_slc Attn(q, K_slc, V_slc) + g_win Attn(q, K_win, V_win)

(equation 5). Compressed keys and values are a learned map of blocks (equation 7); their attention
weights also say which blocks the selected branch reads (equations 8 to 12, with compression and
selection blocks alike); the third branch is a sliding window. The gate is a sigmoid of the input,
one number for each head and branch. All branches run on `block_sparse_attention`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .block_sparse import block_sparse_attention
from .selectors import best_past, by_group, in_blocks, positions


class NativeSparseAttention(nn.Module):
    """NSA's layer in the place of causal attention.

    Args:
        n_embd: width of the model, divisible by the heads.
        heads: query heads, a multiple of `kv_heads`, whose groups choose together.
        kv_heads: key-value heads.
        block: tokens of a block, compressed and selected alike.
        top: blocks that are selected besides the first and the own one.
        window: keys of the sliding branch.

    Raises:
        InputError: if the heads do not divide the width or each other.
    """

    def __init__(
        self, n_embd: int, *, heads: int, kv_heads: int, block: int = 64, top: int = 14,
        window: int = 512,
    ) -> None:  # fmt: skip
        super().__init__()
        if n_embd % heads or heads % kv_heads:
            raise InputError(f"{heads} heads on {kv_heads} do not fit a width of {n_embd}")
        self.heads, self.kv_heads, self.d_head = heads, kv_heads, n_embd // heads
        self.block, self.top, self.window = block, top, window
        self.query = nn.Linear(n_embd, n_embd, bias=False)
        width = kv_heads * self.d_head
        # Each branch has keys and values of its own, so that none learns another's part.
        self.keys, self.values = (nn.Linear(n_embd, 3 * width, bias=False) for _ in "kv")
        self.compress_key, self.compress_value = (
            nn.Linear(block * self.d_head, self.d_head) for _ in "kv"
        )
        self.gate = nn.Linear(n_embd, 3 * heads)
        self.out = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        r"""(batch, n, n_embd) -> the same.

        Equation: $o_t = \sum_{c \in \{cmp, slc, win\}} g^c_t\, \mathrm{Attn}(q_t, K^c_t, V^c_t)$
        """
        q = self._split(self.query(x))
        keys, values = (
            map(self._split, layer(x).chunk(3, 2)) for layer in (self.keys, self.values)
        )
        (k_cmp, k_slc, k_win), (v_cmp, v_slc, v_win) = keys, values
        compressed, chosen = self._compressed(q, k_cmp, v_cmp)
        selected = block_sparse_attention(q, k_slc, v_slc, chosen, key_block=self.block)
        near = block_sparse_attention(q, k_win, v_win, None, window=self.window)
        gates = torch.unflatten(torch.sigmoid(self.gate(x)), 2, (3, self.heads))
        gates = gates.permute(2, 0, 3, 1)[..., None]  # (3, batch, heads, n, 1)
        mixed = gates[0] * compressed + gates[1] * selected + gates[2] * near
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, 2, (-1, self.d_head)).transpose(1, 2)

    def _compressed(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The compressed branch, and the blocks that its weights choose."""
        n, size = q.shape[2], self.block
        whole = n // size * size
        current = positions(n, n, q.device) // size
        if not whole:
            first = torch.zeros(1, 1, n, 1, dtype=torch.int32, device=q.device)
            return torch.zeros_like(q), first
        k, v = (in_blocks(x[:, :, :whole], size, 0.0).flatten(3) for x in (k, v))
        keys, values = self.compress_key(k), self.compress_value(v)
        past = torch.arange(keys.shape[2], device=q.device) < current[:, None]  # (n, blocks)
        scores = by_group(q, self.kv_heads) @ keys[:, :, None].transpose(-1, -2)
        scores = (scores / self.d_head**0.5).masked_fill(~past, -torch.inf)
        seen = past.any(-1)[:, None]  # a query of the first block has no complete one before it
        weights = torch.softmax(scores.masked_fill(~seen, 0.0), -1) * past
        out = (weights @ values[:, :, None]).flatten(1, 2)
        importance = weights.detach().sum(2)  # (batch, kv_heads, n, blocks): a group's heads agree
        importance = F.pad(importance, (0, -(-n // size) - importance.shape[-1]))
        return out, best_past(importance, current, self.top)
