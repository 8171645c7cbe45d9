"""The definition, as slow and plain as can be: every other implementation must agree with this.

    o_i = sum_j p_ij v_j,    p_i = softmax_j ( q_i . k_j / sqrt(d)  where M_ij,  -inf elsewhere )

computed in float64 over explicit n x n masks M (True = may attend). A row with no key gives 0.
"""

import math

import torch
from torch import Tensor

from .config import Group, LocalGroup, SparseAttentionConfig, head_groups


def group_mask(group: Group, n: int, rows: Tensor | None = None) -> Tensor:
    r"""Mask of one head of a group over token positions, (n, n) bool; of `rows` (r,): (r, n).

    Equation: $M_{ij} = [\, j \le i \wedge i - j < w \,] \;\mathrm{in\ a\ local\ group}$
    Equation: $M_{ij} = [\, j \le i \wedge j \bmod s = 0 \,] \;\mathrm{in\ a\ global\ one}$
    """
    i, j = (torch.arange(n) if rows is None else rows)[:, None], torch.arange(n)[None, :]
    if isinstance(group, LocalGroup):
        return (j <= i) & (i - j < group.window)
    return (j <= i) & (j % group.stride == 0)


def head_masks(config: SparseAttentionConfig, n: int, context: int) -> Tensor:
    r"""Masks of all heads over n tokens, (heads, n, n) bool.

    Equation: $M_{hij} = M^G_{ij}, \quad \mathrm{start}_G \le h < \mathrm{stop}_G$

    M^G is the `group_mask` of a group G of `head_groups`, its window resolved for `context`.
    """
    groups = head_groups(config, config.heads, context)
    return torch.cat([group_mask(g, n).expand(g.stop - g.start, -1, -1) for g in groups])


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    r"""Softmax attention of q (..., n_q, d) to k and v (..., n_k, d): (..., n_q, d).

    The bool mask broadcasts to (..., n_q, n_k); a row without a key gives 0. `scale` replaces
    1 / sqrt(d); a `softcap` c makes s of scores c tanh(s / c); `sinks` (..., 1, 1) are one more
    score z each, of a key without a value.

    Equation: $o_i = \sum_j \frac{e^{s_{ij}} M_{ij}}{e^z + \sum_l e^{s_{il}} M_{il}} v_j, \quad
    s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}$
    """
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~mask, -math.inf)
    empty = ~mask.any(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    if sinks is not None:
        scores = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : k.shape[-2]].masked_fill(empty, 0.0)
    return weights @ v


def block_mask(
    blocks: Tensor,
    n_q: int,
    n_k: int,
    *,
    query_block: int,
    key_block: int,
    causal: bool = True,
    offset: int | None = None,
    window: int | None = None,
    key_range: Tensor | None = None,
) -> Tensor:
    r"""Mask of queries that read chosen blocks, (batch, heads that choose, n_q, n_k) bool.

    Query i stands at position p = offset + i, n_k - n_q + i where no offset is given. `blocks`
    (batch, heads that choose, ceil(n_q / query_block), most) are negative where there is none;
    `key_range` (batch, 2) is the first key of a sample and one past its last: blocks are counted
    from the first.

    Equation: $M_{ij} = [\, \lfloor (j - a) / b_k \rfloor \in C_{\lfloor i / b_q \rfloor} \wedge
    a \le j < e \wedge j \le p_i \wedge p_i - j < w \,]$
    """
    p = torch.arange(n_q) + (n_k - n_q if offset is None else offset)
    if key_range is None:
        key_range = torch.tensor([[0, n_k]])
    first, end = (key_range[:, c, None, None, None].cpu() for c in (0, 1))
    i, j = p[:, None], torch.arange(n_k)
    mask = (j >= first) & (j < end)  # (batch, 1, 1, n_k)
    if causal:
        mask = mask & (j <= i)
    if window is not None:
        mask = mask & (i - j < window)
    at = (j - first).div(key_block, rounding_mode="floor")[..., None]  # (batch, 1, 1, n_k, 1)
    rows = blocks.cpu()[:, :, torch.arange(n_q) // query_block, None]  # (..., n_q, 1, most)
    return mask & (at == rows).any(-1)


def oracle_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    config: SparseAttentionConfig,
    *,
    context: int | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    r"""Grouped-head sparse attention by its definition, in float64.

    Equation: $o_{hi} = \frac{\sum_j M^h_{ij} e^{s_{hij}} v_{gj}}
    {\sum_j M^h_{ij} e^{s_{hij}}}, \quad s_{hij} = \frac{q_{hi} \cdot k_{gj}}{\sqrt{d}}, \quad
    g = \lfloor h H_{kv} / H \rfloor$

    M^h is the `group_mask` of head h's group.

    Args:
        q: (batch, heads, n, d_head).
        k: (batch, kv_heads, n, d_head), `kv_heads` dividing `heads`.
        v: as k.
        config: the heads and what they see.
        context: the length that the window is resolved for; n if not given.
        rows: (r,) the queries to answer, for lengths at which n x n is too much; all if not given.

    Returns:
        (batch, heads, n or r, d_head) float64.
    """
    heads, n = q.shape[1], q.shape[2]
    groups = head_groups(config, heads, n if context is None else context, k.shape[1])
    sharing = heads // k.shape[1]
    q, k, v = q.double(), k.double(), v.double()
    # Grouped queries: each head gets the keys and values that it shares.
    k, v = k.repeat_interleave(sharing, 1), v.repeat_interleave(sharing, 1)
    i = torch.arange(n) if rows is None else rows
    q = q[:, :, i.to(q.device)]
    outs = []
    for group in groups:
        h = slice(group.start, group.stop)
        keys, values, mask = k[:, h], v[:, h], group_mask(group, n, i)
        outs.append(masked_attention(q[:, h], keys, values, mask.to(q.device)))
    return torch.cat(outs, dim=1)
