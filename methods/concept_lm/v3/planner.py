"""The planner p(z | u): typed concept sequences, each from its own vocabulary, each ended by EOS.

All types are written in parallel: the rows of type k see the prompt and their own past, and their
positions restart after the prompt, so one pass gives the same log-probabilities as one pass a type.
In sequence, an option, type k also sees the concepts of the types before it.
"""

from itertools import product
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache

from ...kit.config import configuration
from ...kit.precision import unrounded
from ...kit.seeds import seeded
from ..base import load_base, tiny_config
from ..head import draw
from .role import Role, fit


@configuration
class PlanShape:
    """Sizes shared by planner, executor and recogniser.

    Raises:
        InputError: for an empty vocabulary or no types.
    """

    types: PositiveInt
    codes: PositiveInt  # concepts of each type; the head has one more logit, EOS
    slots: PositiveInt  # concepts of each type at most
    u_vocab: PositiveInt
    y_vocab: PositiveInt
    d: PositiveInt = 64
    mtp: NonNegativeInt = 0  # extra heads that predict z_{t+k}
    sequence: bool = False  # types one after another, each knowing those before it

    @property
    def eos(self) -> int:
        """The id that ends a type's sequence, and pads after it."""
        return self.codes

    def heads(self) -> nn.ModuleList:
        """New heads over the codes and EOS, one for each type."""
        return nn.ModuleList(nn.Linear(self.d, self.codes + 1) for _ in range(self.types))

    def backbone(self, seed: int) -> Any:
        """A Qwen3 decoder whose parameters are all trained."""
        config = tiny_config(vocab=1, d=self.d, layers=2, d_ff=2 * self.d)
        return load_base(config, seed=seed).model.requires_grad_(True)


def run(
    backbone: Any, x: Tensor, positions: Tensor, allow: Tensor | None, cache: Any = None
) -> Tensor:
    r"""A backbone over embeddings: (B, n, d), (n,) or (B, n), bool (B or 1, n, n) -> (B, n, d).

    With a cache of m entries `allow` is (B or 1, n, m + n); None is causal.

    Equation: $a = x_l + \mathrm{Attention}_l(\mathrm{norm}(x_l)), \quad
    x_{l + 1} = a + \mathrm{MLP}_l(\mathrm{norm}'(a)), \quad y = \mathrm{norm}(x_L)$
    """
    positions = positions.expand(x.shape[:2])
    mask = None if allow is None else allow[:, None].expand(len(x), 1, -1, -1)
    rope = backbone.rotary_emb(x, positions)
    for layer in backbone.layers:
        x = layer(x, attention_mask=mask, position_embeddings=rope, past_key_values=cache)
    out: Tensor = backbone.norm(x)
    return out


def typed_logits(heads: nn.ModuleList, h: Tensor) -> Tensor:
    r"""The logits of each type by its own head: (B, types, n, d) -> (B, types, n, codes + 1).

    Equation: $\mathrm{logits}_{ks} = W_k h_{ks} + b_k$
    """
    return torch.stack([unrounded(head, h[:, k]) for k, head in enumerate(heads)], 1)


def sequence_mask(z: Tensor, eos: int) -> Tensor:
    r"""True up to and with the first EOS: (..., n) -> (..., n) bool.

    Equation: $M_s = \prod_{r < s} [\, z_r \ne \mathrm{EOS} \,]$
    """
    ended = (z == eos).long().cumsum(-1)
    return (ended - (z == eos).long()) == 0


def choices(z: Tensor, eos: int) -> Tensor:
    r"""True for the entries of a plan that are choices: (..., slots + 1) -> (..., slots + 1) bool.

    The last entry is EOS whatever the model thinks, so it is no choice and costs nothing: the
    probabilities of all plans that can be written sum to 1.

    Equation: $C_s = M_s \, [\, s \le \mathrm{slots} \,]$
    """
    mask = sequence_mask(z, eos)
    mask[..., -1] = False
    return mask


def close(ids: Tensor, eos: int) -> Tensor:
    r"""Append EOS, and let everything after the first EOS be EOS: (.., S) -> (.., S + 1).

    Equation: $z_{ks} = \mathrm{EOS} \;\mathrm{if}\; \mathrm{EOS}
    \in \{\mathrm{id}_{k1}, \dots, \mathrm{id}_{ks}\} \;\mathrm{or}\; s = S + 1,
    \;\mathrm{else}\; \mathrm{id}_{ks}$
    """
    ended = (ids == eos).long().cumsum(-1) > 0
    return F.pad(torch.where(ended, eos, ids), (0, 1), value=eos)


class Planner(nn.Module):
    """A Qwen decoder over [u, type 1, type 2, ..], with a head for each type."""

    def __init__(self, shape: PlanShape, seed: int = 0, role: Role | None = None) -> None:
        super().__init__()
        self.shape = shape
        with seeded(seed):
            self.prompt = nn.Embedding(shape.u_vocab, shape.d)
            self.start = nn.Embedding(shape.types, shape.d)  # begins each type's sequence
            self.concepts = nn.Embedding(shape.types * (shape.codes + 1), shape.d)
            self.heads = shape.heads()
            self.mtp = nn.ModuleList(nn.Linear(shape.d, shape.d) for _ in range(shape.mtp))
            if role is not None:
                self.prompt = fit(self, role)
        self.backbone: Any = shape.backbone(seed) if role is None else role

    def states(self, u: Tensor, z: Tensor, cache: Any = None) -> Tensor:
        r"""Hidden states that predict every entry of z.

        In sequence the types before k stand between u and START_k, each up to its EOS.

        Equation: $h_{ks} = \mathrm{Decoder}([u, \mathrm{START}_k, z_{k, 1}, \dots,
        z_{k, s - 1}])_{-1}$

        Args:
            u: (B, U) prompts.
            z: (B, types, slots + 1) concepts and EOS; the last entry is predicted, never read.
            cache: holds what was read of the prompts, and so it stays.

        Returns:
            (B, types, slots + 1, d).
        """
        B, types, n = z.shape
        U = u.shape[1]
        offset = (torch.arange(types, device=z.device) * (self.shape.codes + 1))[:, None]
        read = self.concepts(z[:, :, :-1] + offset)  # (B, types, slots, d)
        first = self.start.weight[:types][None, :, None].expand(B, types, 1, -1)
        x = torch.cat([self.prompt(u), torch.cat([first, read], 2).flatten(1, 2)], 1)
        places = torch.arange(U + n, device=u.device)
        positions = torch.cat([places[:U], places[U:].repeat(types)])
        seen = None  # by later types: START and concepts
        if self.shape.sequence:
            seen = F.pad(z[:, :, :-1] != self.shape.eos, (1, 0), value=True)
        cached = 0 if cache is None else U
        allow = type_mask(U, types, n, u.device, seen)[:, cached:]
        out = run(self.backbone, x[:, cached:], positions[None, cached:], allow, cache)
        if cache is not None:
            cache.crop(-types * n)
        return out[:, U - cached :].view(B, types, n, -1)

    def logits(self, u: Tensor, z: Tensor, cache: Any = None) -> Tensor:
        r"""(B, U), (B, types, slots + 1) -> (B, types, slots + 1, codes + 1).

        Equation: $\mathrm{logits}_{ks} = W_k h_{ks} + b_k$
        """
        return typed_logits(self.heads, self.states(u, z, cache))

    def log_prob(self, u: Tensor, z: Tensor) -> Tensor:
        r"""log p(z | u) of whole plans: (B, U), (B, types, slots + 1) -> (B,) nats.

        C are the `choices`.

        Equation: $\log p(z \mid u) = \sum_k \sum_s C_{ks} \log p(z_{ks} \mid u, z_{k, < s})$
        """
        logp = F.log_softmax(self.logits(u, z), -1).gather(-1, z[..., None])[..., 0]
        return (logp * choices(z, self.shape.eos)).sum((1, 2))

    def loss(self, u: Tensor, z: Tensor, mtp_weight: float = 0.3) -> Tensor:
        r"""-log p(z | u) a plan, and lambda sum_a CE(head_a(h_s), z_{s+a}) where heads exist.

        A scalar from prompts (B, U) and plans (B, types, slots + 1); C are the `choices`.

        Equation: $L = \operatorname{mean}_b (-\log p(z \mid u)
        + \lambda \sum_{a \ge 1} \sum_{k, s} C_{k, s + a}
        \mathrm{CE}(W_k (h_{ks} + A_a h_{ks}) + b_k, z_{k, s + a}))$
        """
        h = self.states(u, z)
        mask = choices(z, self.shape.eos)
        total = h.new_zeros(())
        for ahead in range(min(len(self.mtp) + 1, z.shape[2])):
            g = h if ahead == 0 else h + self.mtp[ahead - 1](h)
            n = z.shape[2] - ahead
            logits = typed_logits(self.heads, g[:, :, :n])  # (B, types, n, codes + 1)
            ce = F.cross_entropy(logits.flatten(0, 2), z[:, :, ahead:].flatten(), reduction="none")
            counted = ce * mask[:, :, ahead:].flatten()
            total = total + (mtp_weight if ahead else 1.0) * counted.sum() / len(z)
        return total

    @torch.no_grad()
    def sample(
        self,
        u: Tensor,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
        less: Tensor | None = None,
    ) -> Tensor:
        r"""Plans for prompts: (B, U) -> (B, types, slots + 1). Greedy at temperature 0.

        Prompts are read once. `less` (B, types, slots, codes + 1) is taken off the logits.

        Equation: $z_{ks} \sim \mathrm{softmax}(\mathrm{logits}_{ks}(u, z_{k, < s}) / \tau)
        \;\mathrm{until\ EOS}, \quad z_{k, slots + 1} = \mathrm{EOS}$
        """
        types, slots, eos = self.shape.types, self.shape.slots, self.shape.eos
        z = torch.full((len(u), types, slots + 1), eos, device=u.device)
        turns = [slice(k, k + 1) for k in range(types)] if self.shape.sequence else [slice(None)]
        places = list(product(turns, range(slots)))
        cache = DynamicCache() if len(places) > 1 else None
        if cache is not None:
            positions = torch.arange(u.shape[1], device=u.device)[None]
            run(self.backbone, self.prompt(u), positions, None, cache)
        for kinds, t in places:
            logits = self.logits(u, z, cache)[:, kinds, t]  # (B, types in turn, codes + 1)
            if less is not None:
                logits = logits - less[:, kinds, t]
            drawn = draw(logits, temperature, generator)
            over = (z[:, kinds, :t] == eos).any(-1)
            z[:, kinds, t] = torch.where(over, eos, drawn)
        return z

    def diverse(self, u: Tensor, n: int) -> Tensor:
        r"""n plans a prompt (B, U) that differ: (n, B, types, slots + 1).

        Diverse beam search (Vijayakumar et al., arXiv:1610.02424) with a beam in each of n groups:
        what earlier groups chose at a place costs a nat for each of them.

        Equation: $z^g_{ks} = \arg\max_c (\mathrm{logits}_{ks}(u, z^g_{k, < s})_c
        - \sum_{h < g} [\, z^h_{ks} = c \,])$
        """
        shape, plans = self.shape, list[Tensor]()
        used = torch.zeros(len(u), shape.types, shape.slots, shape.codes + 1, device=u.device)
        for _ in range(n):
            plans.append(self.sample(u, 0.0, less=used))
            used = used + F.one_hot(plans[-1][:, :, :-1], shape.codes + 1)
        return torch.stack(plans)


def type_mask(
    prompt: int, types: int, n: int, device: torch.device, seen: Tensor | None = None
) -> Tensor:
    r"""Causal, and types blind to each other: (1 or B, N, N) bool, N = U + types n, U the prompt.

    In sequence a type also looks at what is `seen` (B, types, n) of those before it.

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (k < U \vee \mathrm{type}_k = \mathrm{type}_q
    \vee \mathrm{seen}_k)$
    """
    kind = F.pad(torch.arange(types, device=device).repeat_interleave(n), (prompt, 0), value=-1)
    allow = ((kind[None, :] == -1) | (kind[:, None] == kind[None, :]))[None]
    if seen is not None:
        allow = allow | F.pad(seen.flatten(1), (prompt, 0))[:, None]
    return allow.tril()
