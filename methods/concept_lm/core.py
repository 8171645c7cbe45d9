"""The packed pass: online compression into concepts, exactly as the step-by-step loop computes it.

    h  = Shallow(x)                        every token, causal
    c  = Head(h)                           NULL, or one of K concepts
    m  = Middle(gather(e, is_concept))     concepts only, causal
    D  = h with m scattered where is_concept
    logits = lm_head(norm(Deep(D, allow))) allow: concepts before me, and my own segment

The notes' loop gives each step t its own deep pass over [concepts <= tau(t), tokens after tau(t)].
tau(t), the last concept, is constant inside a segment, so a token sees the same set at every later
step of its segment, and a concept sees only earlier concepts: by induction over the layers no state
depends on t, and one pass under `deep_allow` computes them all. `model` has all that is optional.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..kit.noise import gumbel
from ..kit.rows import take
from .base import check_tokens
from .cache import SlotCache, run_cached
from .config import ConceptConfig
from .head import Routing, cap_runs, since

Codes = Callable[[Tensor, Tensor], Tensor]  # (ids, is_concept) -> ids, to replace what was chosen


def window_allow(n: int, window: int, device: torch.device) -> Tensor:
    r"""Causal attention that looks back over `window` tokens: (n, n) bool.

    Equation: $\mathrm{allow}(q, k) = 0 \le q - k < w$
    """
    return torch.ones(n, n, dtype=torch.bool, device=device).tril().triu(1 - window)


def deep_allow(is_concept: Tensor) -> Tensor:
    r"""The deep layers' mask, c (B, T) bool -> (B, T, T) bool, queries before keys.

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (c_k \vee \mathrm{seg}_k = \mathrm{seg}_q),
    \quad \mathrm{seg}_t = \sum_{s \le t} c_s$
    """
    seg = is_concept.long().cumsum(1)  # (B, T)
    return (is_concept[:, None, :] | (seg[:, None, :] == seg[:, :, None])).tril()


def pack(is_concept: Tensor) -> Tensor:
    r"""Positions of the concepts, left-packed: (B, T) bool -> (B, C), C the most in any row.

    Slots j and positions count from 0; unused slots hold 0.

    Equation: $p_{bj} = \min \{t : \sum_{s \le t} c_{bs} = j + 1\}, \quad
    j < n_b = \sum_t c_{bt}, \quad C = \max_b n_b$
    """
    C = int(is_concept.sum(1).max())
    order = is_concept.byte().argsort(dim=1, descending=True, stable=True)[:, :C]
    return torch.where(is_concept.gather(1, order), order, 0)


@dataclass
class ConceptOutput:
    """The results of a packed pass."""

    logits: Tensor  # (B, T, V)
    routing: Routing
    h: Tensor  # (B, T, d) shallow hidden states


class PackedPass(nn.Module):
    """A decoder whose layers are split into shallow, middle and deep ones; subclasses build it."""

    config: ConceptConfig
    base_config: Any
    qwen: Any  # the base's decoder: embed_tokens, layers, norm, rotary_emb
    causal_lm: Any  # the same with its lm_head
    head: Any
    shallow: list[Any]  # see every token
    middle: list[Any]  # see concepts only
    deep: list[Any]  # see concepts and the current tail

    def forward(
        self,
        x: Tensor,
        *,
        lengths: Tensor | None = None,
        noise: Tensor | Literal["draw"] | None = None,
        is_concept: Tensor | None = None,
        codes: Codes | None = None,
    ) -> ConceptOutput:
        r"""Logits of every next token in one packed pass.

        Equation: $h = \mathrm{Shallow}(x), \quad m = \mathrm{Middle}(\mathrm{gather}(e)), \quad
        \mathrm{logits} = W \, \mathrm{norm}(\mathrm{Deep}(D(h, m)))$

        x are token ids (B, T), rows of `lengths` (B,) padded on the right. Noise is Gumbel's
        (B, T, K + 1), "draw" to draw it, or None for evaluation. `is_concept` (B, T) forces the
        boundaries, `codes` replaces the chosen ids, to measure what the concepts carry.

        Raises:
            InputError: for tokens the base cannot read.
        """
        check_tokens(x, self.base_config)
        h = self.run_shallow(x)  # (B, T, d)
        if isinstance(noise, str):
            noise = gumbel(h, (*x.shape, self.config.n_concepts + 1))
        routing = self.route(h, x, noise, lengths=lengths)
        if is_concept is not None:
            routing.is_concept = is_concept
        if codes is not None:
            routing.ids = codes(routing.ids, routing.is_concept)
        packed = pack(routing.is_concept)
        m = self.run_middle(routing, packed)  # (B, C, d)
        logits = self.read_out(self.run_deep(h, m, routing.is_concept, packed))
        return ConceptOutput(logits, routing, h)

    def run_layers(
        self,
        layers: Any,
        x: Tensor,
        positions: Tensor | None = None,
        *,
        mask: Any = None,
        cache: SlotCache | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        r"""Run decoder layers on x: (B, n, d) -> (B, n, d).

        Equation: $a = x_l + \mathrm{Attention}_l(\mathrm{norm}(x_l)), \quad
        x_{l + 1} = a + \mathrm{MLP}_l(\mathrm{norm}'(a))$

        Positions (B or 1, n or 1) are for RoPE; where not given entries count themselves, from 0 or
        on from those that are cached. The mask is bool, broadcast to (B, 1, n, keys), a flex block
        mask, or None for causal; a cache, of which x are `rows`, masks attention itself.
        """
        n = x.shape[1]
        slots = torch.arange(n)[None] if cache is None else cache.open(n, rows)
        rope = self.qwen.rotary_emb(x, slots.to(x.device) if positions is None else positions)
        if cache is not None:
            return run_cached(layers, rope, x, cache)
        for layer in layers:
            x = layer(x, attention_mask=mask, position_embeddings=rope)
        return x

    def run_shallow(self, x: Tensor, cache: SlotCache | None = None) -> Tensor:
        r"""Embed tokens and run the shallow layers: (B, T) -> (B, T, d).

        Equation: $h = \mathrm{Shallow}(x)$
        """
        window, mask = self.config.shallow_window, None
        if window and cache is None:
            mask = window_allow(x.shape[1], window, x.device)[None, None]
        return self.run_layers(self.shallow, self.qwen.embed_tokens(x), mask=mask, cache=cache)

    def route(
        self, h: Tensor, x: Tensor, noise: Tensor | None = None, *, lengths: Tensor | None = None,
        probe: SlotCache | None = None, memory: Tensor | None = None,
    ) -> Routing:  # fmt: skip
        r"""Decide the concepts of a batch from its shallow hidden states (B, T, d) and ids (B, T).

        The head chooses NULL or a concept, with noise g (B, T, K + 1) in training; after R NULLs a
        concept is forced. A row has n = `lengths` (B,) tokens. `decide` is given the rest.

        Equation: $c_t = \mathrm{cap}_R(\mathrm{rule}(h_1, \dots, h_t)) \wedge t < n, \quad
        \mathrm{id}_t = \arg\max_k (\mathrm{Head}(h_t) + g_t)_k$
        """
        routing: Routing = self.head.route(self.head(h), noise)
        self.decide(routing, h, x, lengths, probe, memory)
        routing.is_concept = cap_runs(routing.chosen, self.config.run_cap)
        if lengths is not None:
            inside = torch.arange(h.shape[1], device=h.device) < lengths[:, None]  # (B, T)
            routing.is_concept = routing.is_concept & inside
        return routing

    def decide(self, routing: Routing, *read: Any) -> None:
        """Another rule of where concepts stand than the head's choice of NULL; none here."""

    def run_middle(
        self, routing: Routing, packed: Tensor, cache: SlotCache | None = None
    ) -> Tensor:
        r"""Embed the chosen concepts and run the middle layers on them alone: m (B, C, d).

        Equation: $m = \mathrm{Middle}(\mathrm{gather}(e))$
        """
        e = self.embedded(routing, packed)  # (B, C, d)
        if not e.shape[1]:
            return e
        # Unused slots lie to the right of the used ones, so the causal mask already hides them.
        positions = None if self.config.positions == "compact" else packed
        m = self.run_layers(self.middle, e, positions, cache=cache)  # (B, C, d)
        return self.given(m, routing, packed)

    def embedded(self, routing: Routing, packed: Tensor) -> Tensor:
        r"""Embeddings of the concepts at packed places (B, C): (B, C, d). Equation: $e = E_{id}$"""
        e: Tensor = self.head.embed(routing.ids.gather(1, packed), take(routing.noisy, packed))
        return e

    def given(self, m: Tensor, routing: Routing, packed: Tensor) -> Tensor:
        r"""A change to the middle layers' output (B, C, d); none here. Equation: $m = m$"""
        return m

    def deep_positions(self, is_concept: Tensor) -> Tensor:
        r"""Deep positions: the index, (1, T), or the place in [concepts | tail], (B, T).

        since is how many tokens ago the last concept stood.

        Equation: $\mathrm{pos}_t = t \;\mathrm{or}\; \sum_{s \le t} c_s + \mathrm{since}_t - 1$
        """
        if self.config.positions == "absolute":
            return torch.arange(is_concept.shape[1], device=is_concept.device)[None]
        n = is_concept.long().cumsum(1)  # concepts so far, this one included
        return n + since(is_concept) - 1  # concept: its rank n - 1; tail: n + offset

    def run_deep(self, h: Tensor, m: Tensor, is_concept: Tensor, packed: Tensor) -> Tensor:
        r"""The deep layers over concepts and tails at once: (B, T, d) -> (B, T, d).

        Equation: $D_t = m_c \;\mathrm{where\ a\ concept\ stands}, \quad D_t = h_t
        \;\mathrm{elsewhere}$
        """
        C = m.shape[1]
        slot = (is_concept.long().cumsum(1) - 1).clamp(0, max(C - 1, 0))  # (B, T)
        D = torch.where(is_concept[..., None], take(m, slot), h) if C else h  # (B, T, d)
        return self.look(D, h, is_concept, packed, slot)

    def look(
        self, D: Tensor, h: Tensor, is_concept: Tensor, packed: Tensor, slot: Tensor
    ) -> Tensor:
        r"""Deep layers on D (B, T, d), under who may look at whom: (B, T, d).

        Equation: $y = \mathrm{Deep}(D, \mathrm{allow})$
        """
        allow = deep_allow(is_concept)[:, None]  # (B, 1, T, T)
        return self.run_layers(self.deep, D, self.deep_positions(is_concept), mask=allow)

    def read_out(self, x: Tensor) -> Tensor:
        r"""Final norm and vocabulary: (B, n, d) -> (B, n, V).

        Equation: $\mathrm{logits} = W \, \mathrm{norm}(\mathrm{Deep}(D))$
        """
        logits: Tensor = self.causal_lm.lm_head(self.qwen.norm(x))
        return logits
