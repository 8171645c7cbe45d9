"""The E-step of Hard-EM: candidates for each example's plan, and the best of them."""

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from .executor import Executor, Recogniser
from .planner import Planner, close


@dataclass
class Choice:
    """The plans that an E-step chose for a batch."""

    z: Tensor  # (B, types, slots + 1)
    score: Tensor  # (B,) S of the choice
    old: Tensor  # (B,) S of the plan kept so far
    margin: Tensor  # (B,) S(best) - S(second distinct)


def edited(a: Tensor, b: Tensor, eos: int) -> Tensor:
    r"""Edit distance of plans, (B, types, slots + 1) twice, as a share of their concepts: (B,).

    Equation: $d_{ij} = \min(d_{i - 1, j} + 1, d_{i, j - 1} + 1, d_{i - 1, j - 1}
    + [\, a_i \ne b_j \,])$, over the length of the longer, all types together
    """
    long_a, long_b = ((z != eos).sum(-1) for z in (a, b))  # (B, types)
    n = a.shape[-1]
    d = torch.zeros(*a.shape[:2], n, n, device=a.device)  # (B, types, n, n)
    d[..., 0] = d[..., 0, :] = torch.arange(n, device=a.device)
    for i, j in product(range(1, n), range(1, n)):
        other = d[..., i - 1, j - 1] + (a[..., i - 1] != b[..., j - 1])  # (B, types)
        d[..., i, j] = torch.minimum(other, torch.minimum(d[..., i - 1, j], d[..., i, j - 1]) + 1)
    edits = d.flatten(2).gather(2, (long_a * n + long_b)[..., None])[..., 0].sum(1)  # (B,)
    return edits / torch.maximum(long_a, long_b).sum(1).clamp_min(1)


class EStep:
    """Chooses plans by what executor and planner think of them."""

    def __init__(
        self, planner: Planner, executor: Executor, recogniser: Recogniser | None, beams: int = 0
    ) -> None:
        self.shape, self.beams = planner.shape, beams
        self.planner, self.executor, self.recogniser = planner, executor, recogniser

    def random_plans(self, n: int) -> Tensor:
        r"""Plans of full length, uniformly drawn: (n, types, slots + 1).

        Equation: $z_{ks} \sim \mathrm{Uniform}\{0, \dots, V - 1\}, \quad
        z_{k, S + 1} = \mathrm{EOS}$
        """
        size, device = (n, self.shape.types, self.shape.slots), self.planner.start.weight.device
        ids = torch.randint(self.shape.codes, size, device=device)
        return close(ids, self.shape.eos)

    def mutated(self, z: Tensor) -> Tensor:
        r"""Each plan (B, types, slots + 1) with one of its concepts redrawn, or ended there.

        Equation: $z_{ks} \leftarrow c \;\mathrm{if}\; z_{ks} \ne \mathrm{EOS}, \quad
        (k, s, c) \sim \mathrm{Uniform}, \; 0 \le c \le V = \mathrm{EOS}$
        """
        z = z.clone()
        sizes = self.shape.types, self.shape.slots, self.shape.codes + 1
        kind, slot, new = (torch.randint(n, (len(z),), device=z.device) for n in sizes)
        place = torch.arange(len(z), device=z.device), kind, slot
        z[place] = torch.where(z[place] == self.shape.eos, self.shape.eos, new)
        return close(z[:, :, :-1], self.shape.eos)

    def variants(self, z: Tensor, kind: int, slot: int) -> Tensor:
        r"""Every code and EOS in one place of plans (B, types, slots + 1).

        One that ended before is left; one that ends there grows by a concept; EOS ends it there.

        Equation: $z^c_{ks} = c \;\mathrm{if}\; \mathrm{EOS} \notin \{z_{k1}, \dots,
        z_{k, s - 1}\}, \quad 0 \le c \le V = \mathrm{EOS}$

        Returns:
            (codes + 1, B, types, slots + 1).
        """
        many = z.expand(self.shape.codes + 1, *z.shape).clone()
        codes = torch.arange(self.shape.codes + 1, device=z.device)[:, None].expand(-1, len(z))
        ended = (z[:, kind, :slot] == self.shape.eos).any(-1)  # (B,)
        many[:, :, kind, slot] = torch.where(ended, self.shape.eos, codes)
        return close(many[..., :-1], self.shape.eos)

    @torch.no_grad()
    def candidates(self, u: Tensor, y: Tensor, z: Tensor) -> Tensor:
        r"""(K, B, types, slots + 1): the old plan, q's, mutations, the planner's.

        From u (B, U), y (B, L) and z (B, types, slots + 1). The middle three with a recogniser
        only; a hat marks the likeliest. z^1 .. z^G come of a diverse beam search, G = 1 + `beams`.

        Equation: $Z = \{z, \mathrm{mut}(z)\} \cup \{\hat z_q, z_q, \mathrm{mut}(\hat z_q)\} \cup
        \{z_p, z^1, \dots, z^G\}, \quad
        z_q \sim q(\cdot \mid y), \; z_p \sim p(\cdot \mid u)$
        """
        plans = [z, self.mutated(z)]
        if self.recogniser is not None:
            best = self.recogniser.plans(y)
            plans += [best, self.recogniser.plans(y, sample=True), self.mutated(best)]
        plans += [self.planner.sample(u, 1.0), *self.planner.diverse(u, 1 + self.beams)]
        return torch.stack(plans)

    @torch.no_grad()
    def score(self, u: Tensor, y: Tensor, plans: Tensor, beta: float) -> Tensor:
        r"""S of plans (K, B, types, slots + 1): (K, B) nats.

        Equation: $S(z) = \log p(y \mid z) + \beta \log p(z \mid u)$
        """
        K, B = plans.shape[:2]
        flat = plans.flatten(0, 1)
        score = -self.executor.nll(flat, y.repeat(K, 1)).sum(1)
        if beta > 0:
            score = score + beta * self.planner.log_prob(u.repeat(K, 1), flat)
        return score.view(K, B)

    @torch.no_grad()
    def choose(
        self, u: Tensor, y: Tensor, z: Tensor, beta: float, *, sweep: bool = False
    ) -> Choice:
        r"""The E-step for a batch: score every candidate, keep the best.

        u (B, U), y (B, L), z (B, types, slots + 1); Z are the `candidates`. A sweep adds the
        `variants` of the best so far, place by place: coordinate ascent, V + 1 times the work of a
        candidate for each place, which finds what few draws leave unfound.

        Equation: $z^* = \arg\max_{z \in Z} \log p(y \mid z) + \beta \log p(z \mid u)$
        """
        plans = self.candidates(u, y, z)  # (K, B, types, slots + 1)
        score = self.score(u, y, plans, beta)  # (K, B)
        rows = torch.arange(len(z), device=z.device)
        places = [(k, s) for k in range(self.shape.types) for s in range(self.shape.slots)]
        for kind, slot in places if sweep else []:
            more = self.variants(plans[score.argmax(0), rows], kind, slot)
            plans = torch.cat([plans, more])
            score = torch.cat([score, self.score(u, y, more, beta)])
        chosen = plans[score.argmax(0), rows]  # (B, types, slots + 1)
        other = (plans != chosen).flatten(2).any(-1)  # distinct from the choice
        second = torch.where(other, score, -math.inf).amax(0)
        top = score.amax(0)
        return Choice(chosen, top, score[0], (top - second)[second > -math.inf])
