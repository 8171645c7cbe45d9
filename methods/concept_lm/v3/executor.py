"""The executor p(y | z) and the recogniser q(z | y).

The executor reads [BOS, SEP_1, C1.., SEP_2, C2.., SEP_y, y] and never the prompt: whatever it knows
of u came through the concepts. Positions restart at 1 for each type; a learned type embedding on
separators and concepts tells them apart. SEP_y gives the first token of y a place to be asked from,
whatever the lengths of the plans before it.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache

from ...kit.noise import gumbel
from ...kit.precision import at_least_single
from ...kit.seeds import seeded
from ..head import draw
from .planner import PlanShape, close, run, typed_logits
from .role import Role, fit


class Executor(nn.Module):
    """A Qwen decoder with a prefix of concepts."""

    def __init__(self, shape: PlanShape, seed: int = 0, role: Role | None = None) -> None:
        super().__init__()
        self.shape = shape
        with seeded(seed):
            self.bos = nn.Parameter(torch.randn(shape.d) * 0.02)
            self.separator = nn.Embedding(shape.types + 1, shape.d)  # the last is SEP_y
            self.kind = nn.Embedding(shape.types, shape.d)
            self.concepts = nn.Embedding(shape.types * shape.codes, shape.d)
            self.tokens = nn.Embedding(shape.y_vocab, shape.d)
            self.dropped = nn.Parameter(torch.zeros(shape.d))  # stands for a dropped token of y
            self.head = nn.Linear(shape.d, shape.y_vocab, bias=False)
            if role is not None:
                self.tokens = fit(self, role)
                self.head = role.causal_lm.get_output_embeddings()
        self.backbone: Any = shape.backbone(seed + 1) if role is None else role

    def embed(self, z: Tensor) -> Tensor:
        r"""Plans (B, types, slots) to embeddings (B, types, slots, d); zeros from EOS on.

        V is `codes`, and types k count from 0.

        Equation: $e_{ks} = [\, z_{ks} < V \,] \, E_{k V + z_{ks}}$
        """
        offset = (torch.arange(self.shape.types, device=z.device) * self.shape.codes)[:, None]
        inside = z < self.shape.codes
        e: Tensor = self.concepts(torch.where(inside, z, 0) + offset)
        return e * inside[..., None]

    def read(self, z: Tensor) -> tuple[Tensor, Tensor]:
        r"""Whole plans (B, types, slots + 1): embeddings, and which slots hold a concept.

        Equation: $\mathrm{used}_{ks} = [\, \mathrm{EOS} \notin \{z_{k1}, \dots, z_{ks}\} \,]$
        """
        z = z[:, :, :-1]
        return self.embed(z), (z == self.shape.eos).long().cumsum(-1) == 0

    def mixed(self, weights: Tensor) -> Tensor:
        r"""Weights over concepts (B, types, slots, codes) to embeddings (B, types, slots, d).

        Equation: $e_{ks} = \sum_c w_{ksc} E_{k V + c}$
        """
        table = self.concepts.weight.view(self.shape.types, self.shape.codes, -1)
        return torch.einsum("bksc,kcd->bksd", weights, table)

    def prefix(self, e: Tensor, used: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""[BOS, SEP_1, C1.., SEP_2, C2.., SEP_y] from concept embeddings.

        S is `slots`, kappa_k the embedding of type k, P = types (S + 1) + 2; BOS stands at 0, SEP_y
        at S + 2.

        Equation: $x = [\mathrm{BOS}, \dots, \mathrm{SEP}_k + \kappa_k, e_{k 1}
        + \kappa_k, \dots, e_{k S} + \kappa_k, \dots, \mathrm{SEP}_y], \quad
        \mathrm{pos}(\mathrm{SEP}_k) = 1, \; \mathrm{pos}(e_{ks}) = s + 1$

        Args:
            e: (B, types, slots, d).
            used: (B, types, slots) bool, which slots hold a concept.

        Returns:
            embeddings (B, P, d), positions (P,), which may be looked at (B, P).
        """
        B, types, slots, d = e.shape
        kind = self.kind.weight[None, :, None]  # (1, types, 1, d)
        sep = self.separator.weight[:types][None, :, None].expand(B, types, 1, d) + kind
        body = torch.cat([sep, e + kind], 2).flatten(1, 2)  # (B, types (slots + 1), d)
        ends = self.separator.weight[types].expand(B, 1, d)
        x = torch.cat([self.bos.expand(B, 1, d), body, ends], 1)
        restart = torch.arange(1, slots + 2, device=e.device).repeat(types)
        positions = F.pad(F.pad(restart, (1, 0)), (0, 1), value=slots + 2)
        seen = F.pad(used, (1, 0), value=True).flatten(1)  # a type's separator is
        return x, positions, F.pad(seen, (1, 1), value=True)

    def logits(self, e: Tensor, used: Tensor, y: Tensor, drop: float = 0.0) -> Tensor:
        r"""Predictions of every token of y: (B, L, y_vocab).

        Equation: $\mathrm{logits}_t = W \, \mathrm{Decoder}([\mathrm{prefix}(e), y_1, \dots,
        y_{t - 1}])_{-1}$

        Args:
            e: (B, types, slots, d) concept embeddings.
            used: (B, types, slots) bool.
            y: (B, L).
            drop: share of y's tokens hidden from the executor's input, so that it must use z.
        """
        x, places, seen = self.prefix(e, used)
        P, L = x.shape[1], y.shape[1]
        read = self.tokens(y[:, :-1])
        if drop > 0:
            hidden = torch.rand(read.shape[:2], device=read.device) < drop
            read = torch.where(hidden[..., None], self.dropped, read)
        positions = torch.cat([places, places[-1] + torch.arange(1, L, device=y.device)])
        allow = look_back(F.pad(seen, (0, L - 1), value=True))
        out = run(self.backbone, torch.cat([x, read], 1), positions[None], allow)
        return at_least_single(self.head(out[:, P - 1 :]))

    def nll(self, z: Tensor, y: Tensor) -> Tensor:
        r"""-log p(y | z) a token: plans (B, types, slots + 1), y (B, L) -> (B, L) nats.

        Equation: $-\log p(y_t \mid z, y_{< t})$
        """
        return self.token_nll(*self.read(z), y)

    def token_nll(self, e: Tensor, used: Tensor, y: Tensor, drop: float = 0.0) -> Tensor:
        r"""The same from embeddings (B, types, slots, d), `used` (B, types, slots) of them.

        Equation: $-\log \mathrm{softmax}(\mathrm{logits}_t(e, y_{< t}))_{y_t}$
        """
        logits = self.logits(e, used, y, drop)
        return F.cross_entropy(logits.transpose(1, 2), y, reduction="none")

    @torch.no_grad()
    def write(
        self, z: Tensor, n: int, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Write n tokens from plans with a cache: (B, types, slots + 1) -> (B, n).

        Equation: $y_t \sim \mathrm{softmax}(\mathrm{logits}_t(z, y_{< t}) / \tau), \quad
        \arg\max_v \mathrm{logits}_{tv} \;\mathrm{at}\; \tau = 0$
        """
        x, places, seen = self.prefix(*self.read(z))
        cache, out = DynamicCache(), list[Tensor]()
        for t in range(n):
            keys = F.pad(seen, (0, t), value=True)  # (B, P + t)
            allow = look_back(keys) if t == 0 else keys[:, None]
            logits = self.head(run(self.backbone, x, places[None], allow, cache)[:, -1])
            token = draw(logits, temperature, generator)
            out.append(token)
            x, places = self.tokens(token)[:, None], places[-1:] + 1
        return torch.stack(out, 1)


def look_back(seen: Tensor) -> Tensor:
    r"""Causal, at what is `seen` (B, n) and at oneself: (B, n, n) bool.

    Equation: $\mathrm{allow}(q, k) = k = q \vee (k < q \wedge \mathrm{seen}_k)$
    """
    itself = torch.eye(seen.shape[1], dtype=torch.bool, device=seen.device)
    return (seen[:, None] & torch.ones_like(itself).tril()) | itself


class Recogniser(nn.Module):
    """q(z | y): every slot of every type from one look at the whole of y."""

    def __init__(self, shape: PlanShape, seed: int = 0, role: Role | None = None) -> None:
        super().__init__()
        self.shape = shape
        with seeded(seed):
            self.tokens = nn.Embedding(shape.y_vocab, shape.d)
            self.ask = nn.Embedding(shape.types * shape.slots, shape.d)
            self.heads = shape.heads()
            if role is not None:
                self.tokens = fit(self, role)
        self.backbone: Any = shape.backbone(seed + 2) if role is None else role

    def logits(self, y: Tensor) -> Tensor:
        r"""(B, L) -> (B, types, slots, codes + 1).

        Everything sees everything; a_ks asks for slot s of type k.

        Equation: $\mathrm{logits}_{ks} = W_k \, \mathrm{Encoder}([y, a_{11}, \dots, a_{KS}])_{ks}
        + b_k$
        """
        B, L = y.shape
        asks = self.ask.weight[None].expand(B, -1, -1)
        x = torch.cat([self.tokens(y), asks], 1)
        n = x.shape[1]
        allow = torch.ones(1, n, n, dtype=torch.bool, device=y.device)
        out = run(self.backbone, x, torch.arange(n, device=y.device)[None], allow)[:, L:]
        return typed_logits(self.heads, out.view(B, self.shape.types, self.shape.slots, -1))

    def plans(self, y: Tensor, *, sample: bool = False) -> Tensor:
        r"""Plans from q(z | y): the best, or a draw. (B, L) -> (B, types, slots + 1).

        g is Gumbel noise for a draw, else 0.

        Equation: $z_{ks} = \mathrm{close}(\arg\max_c (\log q_{ks}(c \mid y) + g_{ksc}))$
        """
        logits = self.logits(y)
        if sample:
            logits = logits + gumbel(logits)
        return close(logits.argmax(-1), self.shape.eos)
