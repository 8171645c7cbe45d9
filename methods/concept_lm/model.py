"""v2, online concept compression: one packed pass that equals the step-by-step loop.

    h  = Shallow(x)                        every token, causal
    c  = Head(h)                           NULL, or one of K concepts
    m  = Middle(gather(e, is_concept))     concepts only, causal
    D  = h with m scattered where is_concept
    logits = lm_head(norm(Deep(D, allow))) allow: concepts before me, and my own segment

The notes' loop gives each step t its own deep pass over [concepts <= tau(t), tokens after tau(t)].
tau(t), the last concept, is constant inside a segment, so a token sees the same set at every later
step of its segment, and a concept sees only earlier concepts: by induction over the layers no state
depends on t, and one pass under `masks.deep_allow` computes them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..kit.noise import gumbel
from ..kit.precision import at_least_single
from ..kit.seeds import seeded
from . import boundaries, masks
from .base import add_lora, check_tokens, widen_norms
from .cache import SlotCache, run_cached
from .config import ConceptConfig
from .head import ConceptHead, FSQHead, Routing, cap_runs, since, usage

Codes = Callable[[Tensor, Tensor], Tensor]  # (ids, is_concept) -> ids, to replace what was chosen


@dataclass
class ConceptOutput:
    """What a packed pass computed."""

    logits: Tensor  # (B, T, V)
    routing: Routing
    h: Tensor  # (B, T, d) shallow hidden states


def pack(is_concept: Tensor) -> Tensor:
    r"""Positions of the concepts, left-packed: (B, T) bool -> (B, C), C the most in any row.

    Slots j and positions count from 0; unused slots hold 0.

    Equation: $p_{bj} = \min \{t : \sum_{s \le t} c_{bs} = j + 1\}, \quad
    j < n_b = \sum_t c_{bt}, \quad C = \max_b n_b$
    """
    C = int(is_concept.sum(1).max())
    order = is_concept.byte().argsort(dim=1, descending=True, stable=True)[:, :C]
    return torch.where(is_concept.gather(1, order), order, 0)


def gather(x: Tensor, index: Tensor) -> Tensor:
    """Rows of x at `index`: (B, T, n), (B, C) -> (B, C, n).

    Equation: $y_{bj} = x_{b, i_{bj}}$
    """
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


class ConceptLM(nn.Module):
    """A Qwen base with LoRA, a concept head and a concept embedding.

    Args:
        base: a Qwen2ForCausalLM or Qwen3ForCausalLM; it is frozen and adapted in place.
        config: the split of its layers and the rules for concepts.
        seed: of the new parameters.

    Raises:
        InputError: when the split does not fit the base.
    """

    def __init__(self, base: Any, config: ConceptConfig, *, seed: int = 0) -> None:
        super().__init__()
        split, count = (config.shallow, config.middle, config.deep), base.config.num_hidden_layers
        if sum(split) != count:
            adds_up = f"split {'/'.join(map(str, split))} adds up to {sum(split)} layers"
            raise InputError(f"{adds_up}; the base model has {count}")
        self.config = config
        self.base_config = base.config
        self.peft = add_lora(base, config, seed=seed)
        # In lists: a slice of a ModuleList is a new module, slow at every step.
        layers, ends = list(self.qwen.layers), (config.shallow, config.shallow + config.middle)
        self.shallow = layers[: ends[0]]  # see every token
        self.middle = layers[ends[0] : ends[1]]  # see concepts only
        self.deep = layers[ends[1] :]  # see concepts and the current tail
        table = base.get_input_embeddings().weight
        with seeded(seed):
            d = base.config.hidden_size
            kind: Any = ConceptHead if config.codes == "softmax" else FSQHead
            self.head = kind(d, config, float(table.float().std())).to(table)
            rule = boundaries.RULES.get(config.boundary)  # none for NULL: the head decides
            self.boundary = rule(config.rho, d).to(table) if rule else None
        self.gate = nn.Parameter(table.new_zeros(d)) if config.residual else None
        self.attention: Literal["sdpa", "flex"] = "sdpa"  # of the deep layers in a packed pass

    # -- the parts of the base, found through PEFT's wrapper ------------------------------------

    @property
    def causal_lm(self) -> Any:
        """The adapted base, with its lm_head."""
        return self.peft.base_model.model if hasattr(self.peft, "peft_config") else self.peft

    @property
    def qwen(self) -> Any:
        """The base's decoder: embed_tokens, layers, norm, rotary_emb."""
        return self.causal_lm.model

    def fold(self) -> None:
        """Add LoRA into the base's weights for good, and let torch's norms do their work.

        Decoding then runs plain linear maps, and a norm is one call instead of eight.
        """
        self.peft = self.peft.merge_and_unload()
        widen_norms(self.peft)

    def read_out(self, x: Tensor) -> Tensor:
        r"""Final norm and vocabulary: (B, n, d) -> (B, n, V).

        Equation: $\mathrm{logits} = W \, \mathrm{norm}(\mathrm{Deep}(D))$
        """
        logits: Tensor = self.causal_lm.lm_head(self.qwen.norm(x))
        return logits

    def trainable(self) -> dict[str, nn.Parameter]:
        """LoRA, concept head and concept embedding, by name: all that training changes."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    # -- one pass -------------------------------------------------------------------------------

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

        Args:
            layers: a slice of the base's layers.
            x: hidden states.
            positions: (B or 1, n or 1), for RoPE; where not given entries count themselves, from 0
                or on from those that are cached.
            mask: bool, broadcast to (B, 1, n, keys), a flex block mask, or None for causal.
            cache: stores keys and values, and masks attention itself.
            rows: of the cache that x are; all where not given.
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
            mask = masks.window_allow(x.shape[1], window, x.device)[None, None]
        return self.run_layers(self.shallow, self.qwen.embed_tokens(x), mask=mask, cache=cache)

    def route(
        self,
        h: Tensor,
        x: Tensor,
        noise: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        probe: SlotCache | None = None,
        memory: Tensor | None = None,
    ) -> Routing:
        r"""Decide the concepts of a batch from its shallow hidden states (B, T, d) and ids (B, T).

        The rule is the boundary's, or the head's own choice of NULL, which the noise g takes part
        in: (B, T, K + 1). A row has n = `lengths` (B,) tokens. While decoding `probe` is a cache,
        and `memory` what the rule remembers of the tokens before: (B, memory).

        Equation: $c_t = \mathrm{cap}_R(\mathrm{rule}(h_1, \dots, h_t)) \wedge t < n, \quad
        \mathrm{id}_t = \arg\max_k (\mathrm{Head}(h_t) + g_t)_k$
        """
        routing: Routing = self.head.route(self.head(h), noise)
        if self.boundary is not None:
            routing.signal = self.boundary.signal(self, h, x, probe)
            routing.chosen, routing.memory = self.boundary.packed(routing.signal, lengths, memory)
        routing.is_concept = cap_runs(routing.chosen, self.config.run_cap)
        if lengths is not None:
            inside = torch.arange(h.shape[1], device=h.device) < lengths[:, None]
            routing.is_concept = routing.is_concept & inside
        return routing

    def run_middle(
        self, h: Tensor, routing: Routing, packed: Tensor, cache: SlotCache | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Embed the chosen concepts and run the middle layers on them alone: twice (B, C, d).

        What stands in for the tokens, and m as the layers gave it (smoothed under H-Net's rule),
        which the next concept needs. gamma starts at zero and is there with `residual` only.

        Equation: $m = \mathrm{Middle}(\mathrm{gather}(e)), \quad D_p = m \;\mathrm{or}\;
        h_p + \gamma \odot m$
        """
        ids = routing.ids.gather(1, packed)
        e = self.head.embed(ids, gather(routing.noisy, packed))
        if not e.shape[1]:
            return e, e
        if self.boundary is not None and routing.signal is not None:
            e = e * gather(self.boundary.gain(routing.signal), packed)
        # Unused slots lie to the right of the used ones, so the causal mask already hides them.
        positions = None if self.config.positions == "compact" else packed
        m = self.run_layers(self.middle, e, positions, cache=cache)
        if isinstance(self.boundary, boundaries.HNet) and routing.signal is not None:
            p = self.boundary.share(routing.signal).gather(1, packed)
            m = self.boundary.smooth(m, p, m[:, 0])
        return self.stand_in(gather(h, packed), m), m

    def stand_in(self, h: Tensor, m: Tensor) -> Tensor:
        r"""What stands for a token that became a concept: (B, C, d), (B, C, d) -> (B, C, d).

        Equation: $D_p = m \;\mathrm{or}\; h_p + \gamma \odot m$
        """
        return m if self.gate is None else h + self.gate * m

    def deep_positions(self, is_concept: Tensor) -> Tensor:
        r"""Deep positions: the index, (1, T), or the place in [concepts | tail], (B, T).

        since is how many tokens ago the last concept stood.

        Equation: $\mathrm{pos}_t = t \;\mathrm{or}\; \sum_{s \le t} c_s + \mathrm{since}_t - 1$
        """
        if self.config.positions == "absolute":
            return torch.arange(is_concept.shape[1], device=is_concept.device)[None]
        n = is_concept.long().cumsum(1)  # concepts so far, this one included
        return n + since(is_concept) - 1  # concept: its rank n - 1; tail: n + offset

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

        Args:
            x: (B, T) token ids, padded on the right.
            lengths: (B,) tokens in each row; all of them where not given.
            noise: Gumbel noise (B, T, K + 1), "draw" to draw it, or None for evaluation.
            is_concept: (B, T) bool to force the boundaries, for baselines.
            codes: replaces the chosen ids, to measure what the concepts carry.

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
        m, _ = self.run_middle(h, routing, packed)  # (B, C, d)
        logits = self.read_out(self.run_deep(h, m, routing.is_concept, packed))
        return ConceptOutput(logits, routing, h)

    def run_deep(self, h: Tensor, m: Tensor, is_concept: Tensor, packed: Tensor) -> Tensor:
        r"""The deep layers over concepts and tails at once: (B, T, d) -> (B, T, d).

        Equation: $D_t = m_c \;\mathrm{where\ a\ concept\ stands}, \quad D_t = h_t
        \;\mathrm{elsewhere}$
        """
        T, C = h.shape[1], m.shape[1]
        slot = (is_concept.long().cumsum(1) - 1).clamp(0, max(C - 1, 0))  # (B, T)
        D = torch.where(is_concept[..., None], gather(m, slot), h) if C else h
        positions = self.deep_positions(is_concept)
        if self.attention == "flex":
            if self.config.readout == "token":
                raise InputError("FlexAttention runs the seed readout; use sdpa for token")
            # For these layers alone: the others give no mask, which FlexAttention takes for none.
            self.base_config._attn_implementation = "flex_attention"
            try:
                return self.run_layers(self.deep, D, positions, mask=masks.block_mask(is_concept))
            finally:
                self.base_config._attn_implementation = "sdpa"
        allow = masks.deep_allow(is_concept)  # (B, T, T)
        if self.config.readout == "seed" or not C:
            return self.run_layers(self.deep, D, positions, mask=allow[:, None])
        # The token itself asks beside its concept: an extra query that is never a key.
        allow = masks.with_readout(allow, is_concept, packed)
        positions = positions.expand(is_concept.shape)
        extra = positions.gather(1, packed) + int(self.config.positions == "compact")
        out = self.run_layers(
            self.deep,
            torch.cat([D, gather(h, packed)], 1),  # (B, T + C, d)
            torch.cat([positions, extra], 1),
            mask=allow[:, None],
        )
        return torch.where(is_concept[..., None], gather(out[:, T:], slot), out[:, :T])

    def loss(self, output: ConceptOutput, x: Tensor) -> Tensor:
        r"""Mean next-token cross entropy in nats, less the usage bonus where it is on: a scalar.

        x is (B, T). L_rule is what the boundary rule adds.

        Equation: $L = -\operatorname{mean}_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})
        - \lambda U + L_{rule}$
        """
        loss, routing = token_nll(output.logits, x).mean(), output.routing
        if self.config.usage_bonus and bool(routing.is_concept.any()):
            named = routing.logits[..., :-1][routing.is_concept]  # (N, K)
            loss = loss - self.config.usage_bonus * usage(named)
        return loss if self.boundary is None else loss + self.boundary.loss(self, output, x)

    @torch.no_grad()
    def observe(self, output: ConceptOutput) -> None:
        """Let the boundary rule learn its rate from a training batch."""
        routing, chosen = output.routing, output.routing.chosen.flatten()
        if self.boundary is None:
            self.head.control.update(self.head.margin(routing.logits).flatten(), chosen)
        elif routing.signal is not None:
            self.boundary.observe(routing.signal.flatten(0, 1), chosen)

    @torch.no_grad()
    def settle(self, batches: list[Tensor]) -> None:
        r"""Set the evaluation threshold for the weights as they are now, from training batches.

        While training, the running threshold lags behind the weights; where a byte as common as the
        space has nearly one margin everywhere, a small lag flips a quarter of all positions.

        Equation: $\theta = Q_\rho(\mathrm{margin}), \quad
        \mathrm{margin} = \mathrm{margin}(\mathrm{Head}(\mathrm{Shallow}(x)))$
        """
        if self.boundary is not None:
            return
        margins = [self.head.margin(self.head(self.run_shallow(x))).flatten() for x in batches]
        self.head.control.calibrate(torch.cat(margins))


def token_nll(logits: Tensor, x: Tensor) -> Tensor:
    r"""Negative log-likelihood of each next token: (B, T, V), (B, T) -> (B, T - 1) nats.

    Equation: $-\log p(x_{t+1} \mid x_{\le t})$
    """
    logits = at_least_single(logits[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), x[:, 1:], reduction="none")
