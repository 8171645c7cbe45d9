"""v2: a Qwen with LoRA, a concept head and a concept embedding around the packed pass.

Beside the pass it has what may be chosen: boundary rules in the place of NULL, the token's
own readout, FlexAttention; and the loss that trains it.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..kit.precision import at_least_single
from ..kit.rows import take
from ..kit.seeds import seeded
from . import boundaries
from .base import add_lora, widen_norms
from .config import ConceptConfig
from .core import ConceptOutput, PackedPass, deep_allow
from .head import ConceptHead, Routing, usage


def with_readout(allow: Tensor, is_concept: Tensor, packed: Tensor) -> Tensor:
    r"""Extend `deep_allow` by one extra query for each concept, which nobody else can see.

    Equation: $\mathrm{allow}(T + j, k) = c_k \wedge k \le p_j, \quad
    \mathrm{allow}(q, T + j) = (q = T + j)$

    Args:
        allow: (B, T, T) bool from `deep_allow`.
        is_concept: (B, T) bool.
        packed: (B, C) the position of each concept, 0 in unused slots, whose results nobody reads.

    Returns:
        (B, T + C, T + C) bool. The extra query of concept p sees concepts <= p and itself.
    """
    T, C = is_concept.shape[1], packed.shape[1]
    index = torch.arange(T, device=allow.device)
    sees = is_concept[:, None] & (index <= packed[..., None])  # (B, C, T)
    whole = F.pad(torch.cat([allow, sees], 1), (0, C))  # (B, T + C, T + C)
    whole[:, T:, T:] = torch.eye(C, dtype=torch.bool, device=allow.device)
    return whole


def block_mask(is_concept: Tensor) -> Any:
    r"""`deep_allow` as a FlexAttention block mask: computed blockwise, never stored as (T, T).

    T must be padded to a multiple of 128 for the compiled kernel to reuse one graph.

    is_concept is (B, T) bool; every head has the same mask.

    Equation: $\mathrm{allow}(q, k) = k \le q \wedge (c_k \vee \mathrm{seg}_k = \mathrm{seg}_q)$
    """
    # torch.nn.attention.flex_attention pulls in torch._dynamo, over a second of import.
    from torch.nn.attention.flex_attention import create_block_mask  # noqa: PLC0415

    seg = is_concept.long().cumsum(1)
    B, T = is_concept.shape

    def allow(b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (is_concept[b, k] | (seg[b, k] == seg[b, q]))

    return create_block_mask(allow, B, None, T, T, device=str(is_concept.device))


class ConceptLM(PackedPass):
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
        split, count = ((config.shallow, config.middle, config.deep), base.config.num_hidden_layers)
        if sum(split) != count:
            adds_up = f"split {'/'.join(map(str, split))} adds up to {sum(split)} layers"
            raise InputError(f"{adds_up}; the base model has {count}")
        self.config = config
        self.base_config = base.config
        self.peft = add_lora(base, config, seed=seed)
        # In lists: a slice of a ModuleList is a new module, slow at every step.
        layers, ends = (list(self.qwen.layers), (config.shallow, config.shallow + config.middle))
        self.shallow = layers[: ends[0]]
        self.middle = layers[ends[0] : ends[1]]
        self.deep = layers[ends[1] :]
        table = base.get_input_embeddings().weight
        with seeded(seed):
            d = base.config.hidden_size
            self.head = ConceptHead(d, config, float(table.float().std())).to(table)
            rule = boundaries.RULES.get(config.boundary)  # none for NULL: the head decides
            self.boundary = rule(config.rho, d).to(table) if rule else None
        self.attention: Literal["sdpa", "flex"] = "sdpa"  # of the deep layers in a packed pass

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

    def trainable(self) -> dict[str, nn.Parameter]:
        """LoRA, concept head and concept embedding, by name: all that training changes."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def decide(self, routing: Routing, *read: Any) -> None:
        """Let a boundary rule, if there is one, place the concepts instead of NULL.

        It reads h (B, T, d) and ids (B, T); `lengths` (B,) are of the rows, `probe` is a cache of
        decoding, and `memory` (B, memory) what the rule remembers of the tokens before.
        """
        if self.boundary is not None:
            h, x, lengths, probe, memory = read
            routing.signal = self.boundary.signal(self, h, x, probe)
            routing.chosen, routing.memory = self.boundary.packed(routing.signal, lengths, memory)

    def embedded(self, routing: Routing, packed: Tensor) -> Tensor:
        r"""Embeddings (B, C, d) of the concepts at (B, C), with the gradient of a rule.

        Equation: $e = g_t E_{id}$
        """
        e = super().embedded(routing, packed)
        if self.boundary is None or routing.signal is None or not e.shape[1]:
            return e
        return e * take(self.boundary.gain(routing.signal), packed)

    def given(self, m: Tensor, routing: Routing, packed: Tensor) -> Tensor:
        r"""The middle layers' output (B, C, d), smoothed under H-Net's rule.

        Equation: $\bar m_j = p_j m_j + (1 - p_j) \bar m_{j - 1}$
        """
        if not isinstance(self.boundary, boundaries.HNet) or routing.signal is None:
            return m
        p = self.boundary.share(routing.signal).gather(1, packed)  # (B, C)
        return self.boundary.smooth(m, p, m[:, 0])

    def look(
        self, D: Tensor, h: Tensor, is_concept: Tensor, packed: Tensor, slot: Tensor
    ) -> Tensor:
        r"""Deep layers on D (B, T, d), by FlexAttention or with the token's readout where asked.

        With that the token itself asks beside its concept: an extra query that is never a key.

        Equation: $y = \mathrm{Deep}(D, \mathrm{allow})$
        """
        T, C = h.shape[1], packed.shape[1]
        if self.attention == "flex":
            return self._flex(D, is_concept)
        if self.config.readout == "seed" or not C:
            return super().look(D, h, is_concept, packed, slot)
        allow = with_readout(deep_allow(is_concept), is_concept, packed)  # (B, T + C, T + C)
        positions = self.deep_positions(is_concept).expand(is_concept.shape)  # (B, T)
        extra = positions.gather(1, packed) + int(self.config.positions == "compact")
        D, places = torch.cat([D, take(h, packed)], 1), torch.cat([positions, extra], 1)
        out = self.run_layers(self.deep, D, places, mask=allow[:, None])  # (B, T + C, d)
        return torch.where(is_concept[..., None], take(out[:, T:], slot), out[:, :T])

    def _flex(self, D: Tensor, is_concept: Tensor) -> Tensor:
        if self.config.readout == "token":
            raise InputError("FlexAttention runs the seed readout; use sdpa for token")
        # For these layers alone: the others give no mask, which FlexAttention takes for none.
        self.base_config._attn_implementation = "flex_attention"
        try:
            positions, mask = self.deep_positions(is_concept), block_mask(is_concept)
            return self.run_layers(self.deep, D, positions, mask=mask)
        finally:
            self.base_config._attn_implementation = "sdpa"

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
