"""The decoder's layers run one by one, so that tokens can leave between them.

transformers builds one mask for all layers and reads gapped `position_ids` without mask or cache as
packed sequences. Here every layer has its own: hidden states, positions and flags are gathered
together, rotary embeddings follow the original positions, and each layer's cache is as long as what
it saw. The next token's position is the prompt's original length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from methods.token_pruning.config import PruningError
from methods.token_pruning.llava import (
    MIN_MASK,
    Vision,
    check_prompt,
    encode,
    last_attention,
    visual_tokens,
)
from methods.token_pruning.selectors import Context, Entered, Selector, take

IGNORE = -100


@dataclass(frozen=True)
class Prompt:
    """What is read.

    `ids` (B, T) with N image placeholders a row; `pixels` (B, 3, side, side); `mask` (B, T) bool,
    False for padding (on the left where an answer is to follow); `asked` (B, T) bool, the words
    that choices may look at, all but image and answers; `targets` (B, T), what is to be predicted
    at each place, or IGNORE; `needed` (B, 2) for the oracle.
    """

    ids: Tensor
    pixels: Tensor
    mask: Tensor | None = None
    asked: Tensor | None = None
    targets: Tensor | None = None
    needed: Tensor | None = None

    def real(self) -> Tensor:
        r"""What is no padding (B, T). Equation: $r_{bt} = m_{bt}$, all True without a mask m."""
        return torch.ones_like(self.ids, dtype=torch.bool) if self.mask is None else self.mask


@dataclass
class Stream:
    """Tokens on their way: all (B, n, ...). `patch` is -1 for words; `gate` is a bias on keys."""

    hidden: Tensor
    positions: Tensor
    visual: Tensor
    valid: Tensor
    asked: Tensor
    targets: Tensor
    patch: Tensor
    gate: Tensor | None = None

    def gather(self, index: Tensor) -> "Stream":
        r"""The tokens at i (B, k), in every field x. Equation: $y_{bj} = x_{b, i_{bj}}$"""
        moved: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "hidden":
                moved[one.name] = take(value, index)
            else:
                moved[one.name] = None if value is None else value.gather(1, index)
        return Stream(**moved)

    def places(self) -> Tensor:
        r"""Visual places (B, n_v). Equation: $\{ p_{b0} < p_{b1} < \ldots \} = \{ t : v_{bt} \}$"""
        return self.visual.nonzero()[:, 1].view(len(self.visual), -1)

    def words(self) -> tuple[Tensor, Tensor]:
        r"""Hidden states of all words (B, t, d) and which belong to the question (B, t).

        Equation: $y_{bj} = h_{b, w_{bj}}, \quad \{ w_{b0} < w_{b1} < \ldots \} =
        \{ t : \neg v_{bt} \}$
        """
        places = (~self.visual).nonzero()[:, 1].view(len(self.visual), -1)
        return take(self.hidden, places), self.asked.gather(1, places)

    def keep_visual(self, index: Tensor) -> "Stream":
        r"""Drop visual tokens but those at i (B, k) among them.

        Equation: $y_{bj} = x_{b, t_{bj}}, \quad \{ t_{b0} < t_{b1} < \ldots \} =
        \{ t : \neg v_{bt} \} \cup \{ p_{b, i_{bj}} \}_j$
        """
        kept = ~self.visual
        kept = kept.scatter(1, self.places().gather(1, index), True)
        return self.gather(kept.nonzero()[:, 1].view(len(kept), -1))

    def bias(self) -> Tensor | None:
        r"""The mask of causal attention with padding and gates: (B, 1, n, n); None if plain.

        Equation: $B_{bij} = g_{bj} + \mu\, [\, \neg ((j \le i \wedge r_{bj}) \vee j = i) \,]$
        with r = `valid` and mu the least float32
        """
        if self.gate is None and bool(self.valid.all()):
            return None
        n = self.valid.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=self.valid.device).tril()
        self_only = torch.eye(n, dtype=torch.bool, device=self.valid.device)
        allowed = causal & self.valid[:, None] | self_only  # padding sees itself: no empty row
        mask = torch.where(allowed, 0.0, MIN_MASK).to(self.hidden.dtype)[:, None]
        return mask if self.gate is None else mask + self.gate[:, None, None].to(mask)


@dataclass(frozen=True)
class Stage:
    """Keep `keep` visual tokens before decoder layer `layer`; BEFORE stands for the whole model."""

    layer: int
    keep: int
    selector: Selector
    late: bool = False  # drop behind the layer, as the source does


BEFORE = -1
Before = tuple[Any, Stream, tuple[Tensor, Tensor]]  # a layer, what it read, cos and sin


@dataclass
class Cache:
    """Keys and values of every layer, as long as what that layer saw, and what masks need."""

    kv: Any
    valid: list[Tensor] = field(default_factory=list)  # (B, n_l) a layer
    gates: list[Tensor | None] = field(default_factory=list)
    position: Tensor = field(default_factory=lambda: torch.empty(0))  # (B, 1) of the next token

    def lengths(self) -> list[int]:
        """Entries kept in each layer."""
        return [v.shape[1] for v in self.valid]

    def bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(t.numel() * t.element_size() for x in self.kv.layers for t in (x.keys, x.values))


@dataclass
class Reading:
    """What reading a prompt gave.

    `logits` (B, n_out, V) of the last token, or of all; `counts` tokens each layer read; `kept`
    patches (B, k) after each stage, by layer; `positions` of the tokens that reached the end.
    """

    logits: Tensor
    counts: list[int]
    kept: dict[int, Tensor]
    positions: Tensor
    cache: Cache | None


def embed(llava: Any, prompt: Prompt, vision: Vision, first: Entered | None) -> Stream:
    """Words and visual tokens in their order; those that did not enter leave their positions."""
    ids, mask = prompt.ids, prompt.real()
    visual, asked = marks(llava, prompt)
    targets = torch.full_like(ids, IGNORE) if prompt.targets is None else prompt.targets
    B, N = len(ids), visual_tokens(llava)
    hidden = llava.model.language_model.embed_tokens(ids)
    features = vision.features if first is None else first.features
    index = torch.arange(N, device=ids.device).expand(B, N) if first is None else first.index
    projected = llava.model.multi_modal_projector(features).to(hidden.dtype)  # (B, k, d)
    places = visual.nonzero()[:, 1].view(B, N).gather(1, index)  # (B, k)
    patch = torch.full_like(ids, -1).scatter(1, places, index)
    hidden = hidden.scatter(1, places[..., None].expand_as(projected), projected)
    gate = None
    if first is not None and first.bias is not None:
        gate = torch.zeros(ids.shape, dtype=hidden.dtype, device=ids.device)
        gate = gate.scatter(1, places, first.bias.to(gate))
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    stream = Stream(hidden, positions, visual, mask, asked, targets, patch, gate)
    entered = ~visual | (patch >= 0)
    return stream.gather(entered.nonzero()[:, 1].view(B, -1))


def first_context(
    llava: Any, prompt: Prompt, vision: Vision, generator: torch.Generator | None
) -> Context:
    """What a choice before the language model may look at."""
    visual, asked = marks(llava, prompt)
    B, n = len(visual), visual_tokens(llava)
    places = (~visual).nonzero()[:, 1].view(B, -1)
    words = llava.model.language_model.embed_tokens(prompt.ids.gather(1, places))
    return Context(
        lambda: llava.model.multi_modal_projector(vision.features),
        torch.arange(n, device=visual.device).expand(B, n),
        words,
        asked.gather(1, places),
        vision,
        generator=generator,
        needed=prompt.needed,
    )


def marks(llava: Any, prompt: Prompt) -> tuple[Tensor, Tensor]:
    r"""Where the image stands and where the question, (B, T) bool each, once both are checked.

    Equation: $v_{bt} = (x_{bt} = \mathrm{image}) \wedge r_{bt}, \quad
    q_{bt} = a_{bt} \wedge r_{bt} \wedge \neg v_{bt}$, a being `asked`, all True where not given
    """
    mask = prompt.real()
    check_prompt(llava, prompt.ids, mask)
    visual = (prompt.ids == llava.config.image_token_id) & mask
    asked = (mask if prompt.asked is None else prompt.asked & mask) & ~visual
    if not bool(asked.any(1).all()):
        raise PruningError("a row has no words beside the image; choices need a question to read")
    return visual, asked


@torch.no_grad()
def read(
    llava: Any,
    prompt: Prompt,
    stages: Sequence[Stage] = (),
    *,
    cached: bool = False,
    all_logits: bool = False,
    generator: torch.Generator | None = None,
    vision: Vision | None = None,
) -> Reading:
    """Read a prompt, dropping visual tokens on the way.

    Args:
        llava: the model.
        prompt: rows of equal length.
        stages: where tokens leave, by whose choice; without any this is the plain model.
        cached: keep keys and values, for `step`.
        all_logits: predictions at every place that reached the end, not only the last.
        generator: of random choices.
        vision: what the tower saw, where it has been run before.

    Raises:
        PruningError: for stages out of order, layers that do not exist, budgets above what is
            there, and prompts or images that do not fit the model.
    """
    by_layer = check_stages(llava, stages)
    vision = encode(llava, prompt.pixels) if vision is None else vision
    first = by_layer.pop(BEFORE, None)
    kept: dict[int, Tensor] = {}
    entered = None
    if first is not None:
        context = first_context(llava, prompt, vision, generator)
        entered = first.selector.enter(context, first.keep)
        kept[BEFORE] = entered.index
    stream = embed(llava, prompt, vision, entered)
    position = stream.positions[:, -1:] + 1
    decoder = llava.model.language_model
    cache = Cache(DynamicCache()) if cached else None
    rotary, mask = decoder.rotary_emb(stream.hidden, stream.positions), stream.bias()
    counts: list[int] = []
    previous: Before | None = None
    for at, layer in enumerate(decoder.layers):
        stage, index = by_layer.get(at), None
        if stage is not None:
            context = _inside(stream, vision, prompt, generator, previous)
            index = stage.selector.select(context, stage.keep)
            kept[at] = context.patches.gather(1, index)
            if not stage.late:
                stream = stream.keep_visual(index)
                mask = stream.bias()
                rotary = decoder.rotary_emb(stream.hidden, stream.positions)
        counts.append(stream.hidden.shape[1])
        previous = (layer, stream, rotary)
        hidden = _layer(layer, stream.hidden, mask, rotary, positions=stream.positions, cache=cache)
        if cache is not None:
            cache.valid.append(stream.valid)
            cache.gates.append(stream.gate)
        stream = replace(stream, hidden=hidden)
        if stage is not None and stage.late and index is not None:
            stream = stream.keep_visual(index)
            mask = stream.bias()
            rotary = decoder.rotary_emb(stream.hidden, stream.positions)
    last = decoder.norm(stream.hidden if all_logits else stream.hidden[:, -1:])
    if cache is not None:
        cache.position = position
    return Reading(llava.lm_head(last), counts, kept, stream.positions, cache)


@torch.no_grad()
def step(llava: Any, token: Tensor, cache: Cache) -> Tensor:
    r"""Predict after one more token of each row: (B, 1) ids -> (B, V) logits; the cache grows.

    Equation: $\mathrm{logits} = W\, \mathrm{norm}(h^L), \quad
    h^{l + 1} = \mathrm{Layer}_l(h^l; K_l, V_l), \quad h^0 = E_x$
    """
    decoder = llava.model.language_model
    hidden = decoder.embed_tokens(token)
    rotary = decoder.rotary_emb(hidden, cache.position)
    for at, layer in enumerate(decoder.layers):
        valid = torch.cat((cache.valid[at], torch.ones_like(token, dtype=torch.bool)), 1)
        gate = cache.gates[at]
        if gate is not None:
            gate = torch.cat((gate, gate.new_zeros(token.shape)), 1)
        mask = None
        if gate is not None or not bool(valid.all()):
            mask = torch.where(valid, 0.0, MIN_MASK).to(hidden.dtype)
            mask = (mask if gate is None else mask + gate)[:, None, None]  # (B, 1, 1, n)
        hidden = _layer(layer, hidden, mask, rotary, positions=cache.position, cache=cache)
        cache.valid[at], cache.gates[at] = valid, gate
    cache.position = cache.position + 1
    logits: Tensor = llava.lm_head(decoder.norm(hidden))[:, 0]
    return logits


@torch.no_grad()
def generate(llava: Any, prompt: Prompt, stages: Sequence[Stage], new: int) -> Tensor:
    r"""Greedy continuation: (B, new) token ids.

    Equation: $y_t = \arg\max_v \mathrm{logits}_v(x, y_0, \ldots, y_{t - 1})$, x pruned by stages

    Raises:
        PruningError: for no token to make, or more positions than the model has.
    """
    room = llava.config.text_config.max_position_embeddings - prompt.ids.shape[1]
    if not 1 <= new <= room:
        raise PruningError(f"{new} new tokens; the model has room for 1 to {room}")
    found = read(llava, prompt, stages, cached=True)
    assert found.cache is not None
    out = [found.logits[:, -1].argmax(-1)]
    while len(out) < new:
        out.append(step(llava, out[-1][:, None], found.cache).argmax(-1))
    return torch.stack(out, 1)


def check_stages(llava: Any, stages: Sequence[Stage]) -> dict[int, Stage]:
    """Stages by layer.

    Raises:
        PruningError: for layers that do not exist or repeat, budgets that grow or exceed the
            visual tokens, and selectors that cannot stand where they were put.
    """
    layers = llava.config.text_config.num_hidden_layers
    here, last = visual_tokens(llava), BEFORE - 1
    for stage in stages:
        if not BEFORE <= stage.layer < layers:
            raise PruningError(
                f"pruning layer {stage.layer} does not exist: the model has layers 0 to "
                f"{layers - 1}, and {BEFORE} is before all"
            )
        if stage.layer <= last:
            raise PruningError("pruning layers must rise")
        if not 1 <= stage.keep <= here:
            raise PruningError(f"a budget of {stage.keep} visual tokens; {here} are there")
        usable = stage.selector.before if stage.layer == BEFORE else stage.selector.inside
        if not usable:
            where = "before" if stage.layer == BEFORE else "inside"
            raise PruningError(f"{stage.selector.label} cannot choose {where} the language model")
        here, last = stage.keep, stage.layer
    return {stage.layer: stage for stage in stages}


def _inside(
    stream: Stream,
    vision: Vision,
    prompt: Prompt,
    generator: torch.Generator | None,
    previous: Before | None,
) -> Context:
    text, asked = stream.words()
    places = stream.places()

    def attention() -> Tensor:
        assert previous is not None
        layer, before, rotary = previous
        weights = last_attention(layer, before.hidden, rotary, before.valid)
        return weights.gather(1, before.places())

    return Context(
        lambda: take(stream.hidden, places),
        stream.patch.gather(1, places),
        text,
        asked,
        vision,
        attention=None if previous is None else attention,
        generator=generator,
        needed=prompt.needed,
    )


def _layer(
    layer: Any,
    hidden: Tensor,
    mask: Tensor | None,
    rotary: tuple[Tensor, Tensor],
    *,
    positions: Tensor,
    cache: Cache | None,
) -> Tensor:
    out: Tensor = layer(
        hidden,
        attention_mask=mask,
        position_ids=positions,
        position_embeddings=rotary,
        past_key_values=None if cache is None else cache.kv,
        use_cache=cache is not None,
    )
    return out
