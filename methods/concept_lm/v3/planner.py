"""The planner p(z | u): typed concept sequences, each from its own vocabulary, each ended by EOS.

All types are written in parallel: the rows of type k see the prompt and their own past, and their
positions restart after the prompt, so one pass gives the same log-probabilities as one pass a type.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.head import draw
from methods.concept_lm.v3.role import Role, fit
from methods.kit.config import Count, Some, configuration
from methods.kit.seeds import seeded


@configuration
class PlanShape:
    """Sizes shared by planner, executor and recogniser.

    Raises:
        InputError: for an empty vocabulary or no types.
    """

    types: Some
    codes: Some  # concepts of each type; the head has one more logit, EOS
    slots: Some  # concepts of each type at most
    u_vocab: Some
    y_vocab: Some
    d: Some = 64
    mtp: Count = 0  # extra heads that predict z_{t+k}

    @property
    def eos(self) -> int:
        """The id that ends a type's sequence, and pads after it."""
        return self.codes

    def backbone(self, seed: int) -> Any:
        """A Qwen3 decoder whose parameters are all trained."""
        config = tiny_config(vocab=1, d=self.d, layers=2, d_ff=2 * self.d)
        return load_base(config, seed=seed).model.requires_grad_(True)


def run(backbone: Any, x: Tensor, positions: Tensor, allow: Tensor, cache: Any = None) -> Tensor:
    r"""A backbone over embeddings: (B, n, d), (n,) or (B, n), bool (B or 1, n, n) -> (B, n, d).

    With a cache of m entries `allow` is (B or 1, n, m + n).

    Equation: $a = x_l + \mathrm{Attention}_l(\mathrm{norm}(x_l)), \quad
    x_{l + 1} = a + \mathrm{MLP}_l(\mathrm{norm}'(a)), \quad y = \mathrm{norm}(x_L)$
    """
    positions = positions.expand(x.shape[:2])
    mask = allow[:, None].expand(len(x), 1, -1, -1)
    rope = backbone.rotary_emb(x, positions)
    for layer in backbone.layers:
        x = layer(x, attention_mask=mask, position_embeddings=rope, past_key_values=cache)
    out: Tensor = backbone.norm(x)
    return out


def sequence_mask(z: Tensor, eos: int) -> Tensor:
    r"""Which entries count, up to and with the first EOS: (..., n) -> (..., n) bool.

    Equation: $M_s = \prod_{r < s} [\, z_r \ne \mathrm{EOS} \,]$
    """
    ended = (z == eos).long().cumsum(-1)
    return (ended - (z == eos).long()) == 0


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
            self.heads = nn.ModuleList(
                nn.Linear(shape.d, shape.codes + 1) for _ in range(shape.types)
            )
            self.mtp = nn.ModuleList(nn.Linear(shape.d, shape.d) for _ in range(shape.mtp))
            if role is not None:
                fit(self, role)
                self.prompt = role.causal_lm.get_input_embeddings()
        self.backbone: Any = shape.backbone(seed) if role is None else role

    def states(self, u: Tensor, z: Tensor) -> Tensor:
        r"""Hidden states that predict every entry of z.

        Equation: $h_{ks} = \mathrm{Decoder}([u, \mathrm{START}_k, z_{k, 1}, \dots,
        z_{k, s - 1}])_{-1}$

        Args:
            u: (B, U) prompts.
            z: (B, types, slots + 1) concepts and EOS; the last entry is predicted, never read.

        Returns:
            (B, types, slots + 1, d).
        """
        B, types, n = z.shape
        U = u.shape[1]
        kind = torch.arange(types, device=z.device)
        offset = (kind * (self.shape.codes + 1))[:, None]
        read = self.concepts(z[:, :, :-1] + offset)  # (B, types, slots, d)
        first = self.start.weight[:types][None, :, None].expand(B, types, 1, -1)
        x = torch.cat([self.prompt(u), torch.cat([first, read], 2).flatten(1, 2)], 1)
        positions = torch.cat(
            [torch.arange(U, device=u.device), U + torch.arange(n, device=u.device).repeat(types)]
        )
        out = run(self.backbone, x, positions[None], type_mask(U, types, n, u.device))
        return out[:, U:].view(B, types, n, -1)

    def logits(self, u: Tensor, z: Tensor) -> Tensor:
        r"""(B, U), (B, types, slots + 1) -> (B, types, slots + 1, codes + 1).

        Equation: $\mathrm{logits}_{ks} = W_k h_{ks} + b_k$
        """
        h = self.states(u, z)
        return torch.stack([head(h[:, k]) for k, head in enumerate(self.heads)], 1)

    def log_prob(self, u: Tensor, z: Tensor) -> Tensor:
        r"""log p(z | u) of whole plans: (B, U), (B, types, slots + 1) -> (B,) nats.

        M is `sequence_mask`.

        Equation: $\log p(z \mid u) = \sum_k \sum_s M_{ks} \log p(z_{ks} \mid u, z_{k, < s})$
        """
        logp = F.log_softmax(self.logits(u, z), -1).gather(-1, z[..., None])[..., 0]
        return (logp * sequence_mask(z, self.shape.eos)).sum((1, 2))

    def loss(self, u: Tensor, z: Tensor, mtp_weight: float = 0.3) -> Tensor:
        r"""-log p(z | u) a plan, and lambda sum_a CE(head_a(h_s), z_{s+a}) where heads exist.

        A scalar from prompts (B, U) and plans (B, types, slots + 1); M is `sequence_mask`.

        Equation: $L = \operatorname{mean}_b (-\log p(z \mid u)
        + \lambda \sum_{a \ge 1} \sum_{k, s} M_{k, s + a}
        \mathrm{CE}(W_k (h_{ks} + A_a h_{ks}) + b_k, z_{k, s + a}))$
        """
        h = self.states(u, z)
        mask = sequence_mask(z, self.shape.eos)
        total = h.new_zeros(())
        for ahead in range(len(self.mtp) + 1):
            g = h if ahead == 0 else h + self.mtp[ahead - 1](h)
            n = z.shape[2] - ahead
            if n < 1:
                break
            logits = torch.stack([head(g[:, k, :n]) for k, head in enumerate(self.heads)], 1)
            ce = F.cross_entropy(logits.flatten(0, 2), z[:, :, ahead:].flatten(), reduction="none")
            counted = ce * mask[:, :, ahead:].flatten()
            total = total + (mtp_weight if ahead else 1.0) * counted.sum() / len(z)
        return total

    @torch.no_grad()
    def sample(
        self, u: Tensor, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Plans for prompts: (B, U) -> (B, types, slots + 1). Greedy at temperature 0.

        Equation: $z_{ks} \sim \mathrm{softmax}(\mathrm{logits}_{ks}(u, z_{k, < s}) / \tau)
        \;\mathrm{until\ EOS}, \quad z_{k, slots + 1} = \mathrm{EOS}$
        """
        slots = self.shape.slots
        z = torch.full((len(u), self.shape.types, slots + 1), self.shape.eos, device=u.device)
        for t in range(slots):
            logits = self.logits(u, z)[:, :, t]  # (B, types, codes + 1)
            drawn = draw(logits, temperature, generator)
            over = (z[:, :, :t] == self.shape.eos).any(-1)
            z[:, :, t] = torch.where(over, self.shape.eos, drawn)
        return z


def type_mask(prompt: int, types: int, n: int, device: torch.device) -> Tensor:
    r"""Causal, and types blind to each other: (1, U + types n, U + types n) bool, U the prompt.

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (k < U \vee \mathrm{type}_k = \mathrm{type}_q)$
    """
    kind = F.pad(torch.arange(types, device=device).repeat_interleave(n), (prompt, 0), value=-1)
    index = torch.arange(len(kind), device=device)
    causal = index[:, None] >= index[None, :]
    return (causal & ((kind[None, :] == -1) | (kind[:, None] == kind[None, :])))[None]
