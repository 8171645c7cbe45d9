"""The planner p(z | u): typed concept sequences, each from its own vocabulary, each ended by EOS.

All types are written in parallel: the rows of type k see the prompt and their own past, and their
positions restart after the prompt, so one pass gives the same log-probabilities as one pass a type.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.config import ConceptError
from methods.concept_lm.head import draw


@dataclass(frozen=True)
class PlanShape:
    """Sizes shared by planner, executor and recogniser.

    Raises:
        ConceptError: for an empty vocabulary or no types.
    """

    types: int
    codes: int  # concepts of each type; the head has one more logit, EOS
    slots: int  # concepts of each type at most
    u_vocab: int
    y_vocab: int
    d: int = 64
    layers: int = 2
    mtp: int = 0  # extra heads that predict z_{t+k}

    def __post_init__(self) -> None:
        if min(self.types, self.codes, self.slots, self.u_vocab, self.y_vocab) < 1:
            raise ConceptError("types, codes, slots and vocabularies must hold at least one entry")

    @property
    def eos(self) -> int:
        """The id that ends a type's sequence, and pads after it."""
        return self.codes

    def backbone(self, seed: int) -> Any:
        """A Qwen3 decoder whose parameters are all trained."""
        config = tiny_config(vocab=1, d=self.d, layers=self.layers, d_ff=2 * self.d)
        return load_base(config, seed=seed).model.requires_grad_(True)


def run(backbone: Any, x: Tensor, positions: Tensor, allow: Tensor) -> Tensor:
    """A backbone over embeddings: (B, n, d), (n,) or (B, n), bool (B or 1, n, n) -> (B, n, d)."""
    positions = positions.expand(x.shape[:2])
    mask = allow[:, None].expand(len(x), 1, -1, -1)
    rope = backbone.rotary_emb(x, positions)
    for layer in backbone.layers:
        x = layer(x, attention_mask=mask, position_embeddings=rope)
    out: Tensor = backbone.norm(x)
    return out


def sequence_mask(z: Tensor, eos: int) -> Tensor:
    """Which entries count: up to and with the first EOS. (..., slots + 1) -> bool."""
    ended = (z == eos).long().cumsum(-1)
    return (ended - (z == eos).long()) == 0


class Planner(nn.Module):
    """A Qwen decoder over [u, type 1, type 2, ..], with a head for each type."""

    def __init__(self, shape: PlanShape, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.prompt = nn.Embedding(shape.u_vocab, shape.d)
            self.start = nn.Embedding(shape.types, shape.d)  # begins each type's sequence
            self.concepts = nn.Embedding(shape.types * (shape.codes + 1), shape.d)
            self.heads = nn.ModuleList(
                nn.Linear(shape.d, shape.codes + 1) for _ in range(shape.types)
            )
            self.mtp = nn.ModuleList(nn.Linear(shape.d, shape.d) for _ in range(shape.mtp))
        self.backbone = shape.backbone(seed)

    def states(self, u: Tensor, z: Tensor) -> Tensor:
        """Hidden states that predict every entry of z.

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
        """(B, types, slots + 1, codes + 1)."""
        h = self.states(u, z)
        return torch.stack([head(h[:, k]) for k, head in enumerate(self.heads)], 1)

    def log_prob(self, u: Tensor, z: Tensor) -> Tensor:
        """log p(z | u) of whole plans, (B,) nats."""
        logp = F.log_softmax(self.logits(u, z), -1).gather(-1, z[..., None])[..., 0]
        return (logp * sequence_mask(z, self.shape.eos)).sum((1, 2))

    def loss(self, u: Tensor, z: Tensor, mtp_weight: float = 0.3) -> Tensor:
        """-log p(z | u) a plan, and lambda sum_k CE(head_k(h_t), z_{t+k}) where heads exist."""
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
        """Plans for prompts: (B, U) -> (B, types, slots + 1). Greedy at temperature 0."""
        slots = self.shape.slots
        z = torch.full((len(u), self.shape.types, slots + 1), self.shape.eos, device=u.device)
        for t in range(slots):
            logits = self.logits(u, z)[:, :, t]  # (B, types, codes + 1)
            drawn = draw(logits, temperature, generator)
            over = (z[:, :, :t] == self.shape.eos).any(-1)
            z[:, :, t] = torch.where(over, self.shape.eos, drawn)
        return z


def type_mask(prompt: int, types: int, n: int, device: torch.device) -> Tensor:
    """Causal, and types blind to each other: (1, prompt + types n, prompt + types n) bool."""
    kind = torch.cat([torch.full((prompt,), -1), torch.arange(types).repeat_interleave(n)]).to(
        device
    )
    index = torch.arange(len(kind), device=device)
    causal = index[:, None] >= index[None, :]
    return (causal & ((kind[None, :] == -1) | (kind[:, None] == kind[None, :])))[None]
