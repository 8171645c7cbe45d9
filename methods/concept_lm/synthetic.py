"""Tasks with known latent structure, and the entropies that no model can beat.

`PlanTask` for v3: a prompt u names one code of each type in scrambled form; every code writes a few
tokens of y, each of which carries one bit of the code and one of noise, so that all entropies are
known.

`recall` for v2: see its docstring.
"""

import math
from functools import cached_property
from itertools import product
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional as F

from ..kit.config import configuration
from .v3.planner import PlanShape


@configuration
class PlanTask:
    """Independent codes of one or more types, each writing `bits` tokens of 4 values.

    For each type: code c in [2^bits] is uniform; token i of its stretch takes one of two values
    that bit i of c selects, so each token holds one bit of the code and one of noise. The prompt
    names c through a random permutation, as two symbols. With more `slots` a type has 1 to `slots`
    codes, as many as the prompt names; where none stands y is noise.
    """

    types: PositiveInt = 2
    bits: Literal[2, 4, 6] = 6
    slots: PositiveInt = 1
    seed: int = 0

    @property
    def codes(self) -> int:
        """Codes of each type."""
        return int(2**self.bits)

    @property
    def side(self) -> int:
        """Values of one prompt symbol that name codes; two symbols name one."""
        return int(2 ** (self.bits // 2))

    @property
    def values(self) -> int:
        """Values of one prompt symbol; one more means that there is no code here."""
        return self.side + (self.slots > 1)

    @property
    def y_length(self) -> int:
        """Tokens of y."""
        return self.types * self.slots * self.bits

    def shape(self, d: int = 64) -> PlanShape:
        """Sizes of models that plan as many codes of each type."""
        words = 2 * self.types * self.slots * self.values
        return PlanShape(self.types, self.codes, self.slots, words, 4, d)

    @cached_property
    def table(self) -> Tensor:
        r"""P(y_i = v | c): (types, codes + 1, bits, 4), the last where no code stands.

        Of type k and token i, V^0 and V^1 are the 4 values split into two pairs at random.

        Equation: $P(y_i = v \mid c) = \frac{1}{2} [\, v \in V_{ki}^{b} \,], \quad
        b = \lfloor c / 2^i \rfloor \bmod 2$
        """
        generator = torch.Generator().manual_seed(self.seed)
        table = torch.zeros(self.types, self.codes + 1, self.bits, 4)
        table[:, -1] = 0.25
        for k, i in product(range(self.types), range(self.bits)):
            values = torch.randperm(4, generator=generator).view(2, 2)  # bit -> its two values
            bit = (torch.arange(self.codes) >> i) & 1
            table[k, torch.arange(self.codes)[:, None], i, values[bit]] = 0.5
        return table

    @cached_property
    def names(self) -> Tensor:
        r"""The prompt's name of each code, and of none: (types, codes + 1), the last its own name.

        Equation: $\mathrm{names}_{kc} = \pi_k(c), \quad \pi_k \sim \mathrm{Uniform}(S_{codes})$
        """
        generator = torch.Generator().manual_seed(self.seed + 1)
        drawn = [torch.randperm(self.codes, generator=generator) for _ in range(self.types)]
        return F.pad(torch.stack(drawn), (0, 1), value=self.codes)

    def sample(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Draw n prompts (n, 2 types slots), their codes (n, types slots), and y (n, y_length).

        From torch's global generator. Codes of type k stand in slots j < l_k, all of them where
        there is one slot. s is `side`, v `values`; i, the type and slot of a code, counts from 0.

        Equation: $z_{kj} \sim \mathrm{Uniform}\{0, \dots, \mathrm{codes} - 1\}, \quad
        l_k \sim \mathrm{Uniform}\{1, \dots, \mathrm{slots}\}, \quad
        u_i = (\lfloor \pi(z_i) / s \rfloor + 2 i v, \; \pi(z_i) \bmod s + (2 i + 1) v), \quad
        y_i \sim P(\cdot \mid z_i)$
        """
        z = torch.randint(self.codes, (n, self.types, self.slots))
        if self.slots > 1:
            length = 1 + torch.randint(self.slots, (n, self.types, 1))
            z = torch.where(torch.arange(self.slots) < length, z, self.codes)
        kind = torch.arange(self.types)[:, None]
        p = self.table[kind, z]  # (n, types, slots, bits, 4)
        y = torch.multinomial(p.view(-1, 4), 1).view(n, self.y_length)
        name = self.names[kind, z].flatten(1)  # (n, types slots)
        u = torch.stack([name // self.side, name % self.side], -1).flatten(1)
        return u + self.values * torch.arange(u.shape[1]), z.flatten(1), y

    held = sample  # held-out data: of the same distribution

    @property
    def floors(self) -> tuple[float, float]:
        r"""Entropies of y in nats: given its codes, or the prompt that names them; given nothing.

        Every token is uniform over 4 values, even given those before it. Of a type's S slots
        (S + 1) / 2 hold a code on average, and each token of a code carries one bit of it.

        Equation: $H(y \mid z) = H(y \mid u) = H(y) - \mathrm{types} \cdot \mathrm{bits} \cdot
        \frac{S + 1}{2} \log 2, \quad H(y) = \mathrm{types} \cdot \mathrm{bits} \cdot S \log 4$
        """
        free = self.y_length * math.log(4)
        return free - self.types * self.bits * (self.slots + 1) / 2 * math.log(2), free


SYMBOLS, GAP = 16, 10  # of `recall`: what may be recalled, and the filler before it is asked for
RECALL_VOCAB = 2 * SYMBOLS + 1  # symbols, as many fillers, and the query


def recall(n: int) -> Tensor:
    r"""A symbol, filler longer than the shallow window reaches, the symbol again: (n, GAP + 6).

    x = [noise x 3, s, filler x gap, query, s], from torch's global generator; the last token is the
    one to recall. With concepts at every fourth token the symbol stands on one. The deep layers see
    that concept and the last tail: when the shallow layers look back over a window only, nothing
    else connects the two places. S is `SYMBOLS`, and 2 S the query.

    Equation: $x = (f_1, f_2, f_3, s, f_4, \dots, f_{3 + gap}, 2 S, s), \quad
    s \sim \mathrm{Uniform}\{0, \dots, S - 1\}, \quad
    f_i \sim \mathrm{Uniform}\{S, \dots, 2 S - 1\}$
    """
    s = torch.randint(SYMBOLS, (n, 1))
    noise = torch.randint(SYMBOLS, (n, 3 + GAP)) + SYMBOLS
    query = torch.full((n, 1), 2 * SYMBOLS)
    return torch.cat([noise[:, :3], s, noise[:, 3:], query, s], 1)
