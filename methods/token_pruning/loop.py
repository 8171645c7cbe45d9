"""The decoder's layers run one by one, so that tokens can leave between them.

transformers builds one mask for all layers and reads gapped `position_ids` without mask or cache as
packed sequences. Here every layer has its own: hidden states, positions and flags are gathered
together, rotary embeddings follow the original positions, and each layer's cache is as long as what
it saw. The next token's position is the prompt's original length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Generator, Tensor
from transformers import DynamicCache

from ..errors import InputError
from .choice import Context, Entered, Selector, no_attention, wide
from .llava import Rotary, Vision, attention_scores, encode, visual_tokens
from .stream import IGNORE, Prompt, Stream, fitting, images_of, marks


@dataclass(frozen=True)
class Stage:
    """Keep `keep` tokens of each image before decoder layer `layer`; BEFORE is the whole model."""

    layer: int
    keep: int
    selector: Selector
    late: bool = False  # drop behind the layer, as the source does


BEFORE = -1


@dataclass(frozen=True)
class Before:
    """A decoder layer and what it reads: tokens, cos and sin of their positions."""

    layer: Any
    stream: Stream
    rotary: Rotary

    def context(
        self, vision: Vision, prompt: Prompt, generator: Generator | None, previous: Self | None
    ) -> Context:
        """What a choice before this layer may look at, the layer before it being `previous`."""
        return Context(
            self.stream.seen,
            self.stream.patch.gather(1, self.stream.places()),
            *self.stream.words(),
            vision,
            attention=no_attention if previous is None else previous.attention,
            ahead=self.attention,
            generator=generator,
            needed=prompt.needed,
        )

    def attention(self, words: Tensor | None = None) -> Tensor:
        r"""Attention paid to each visual token (B, n_v) by words (B, t), or by the last token.

        Equation: $a_i = \frac{\sum_p w_p A_{pi}}{\sum_p w_p}$, A the mean over heads, w the weights
        """
        asking = torch.zeros_like(self.stream.valid, dtype=torch.float32)  # (B, n)
        if words is None:
            asking[:, -1] = 1.0
        else:
            spoken = (~self.stream.visual).nonzero()[:, 1].view(len(asking), -1)
            asking = asking.scatter(1, spoken, words)
        return self.paid(asking)

    def paid(self, asking: Tensor) -> Tensor:
        r"""Attention that places pay, by weights w (B, n), to each visual token: (B, n_v).

        Equation: $a_i = \frac{\sum_p w_p A_{pi}}{\sum_p w_p}$, A the mean over heads
        """
        first = int(asking.any(0).nonzero()[0])
        # (B, H, q, n)
        scores = attention_scores(self.layer, self.stream.hidden, self.rotary, slice(first, None))
        allowed = self.stream.allowed()[:, None, first:]  # (B, 1, q, n)
        A = scores.masked_fill(~allowed, -torch.inf).softmax(-1).mean(1)  # (B, q, n)
        w = asking[:, first:]
        paid = torch.einsum("bq,bqn->bn", w, A) / w.sum(1, keepdim=True).clamp_min(1e-9)
        return paid.gather(1, self.stream.places())


@dataclass
class Cache:
    """Keys and values of every layer, as long as what that layer saw, and what masks need."""

    kv: Any
    position: Tensor  # (B, 1) of the next token
    bias: list[Tensor | None] = field(default_factory=list)  # (B, n_l) of a layer's keys, if any

    def bytes(self) -> int:
        """Bytes of keys and values."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.kv.layers)


@dataclass
class Reading:
    """The result of reading a prompt.

    `logits` (B, 1, V) of the last token; `counts` tokens each layer read; `kept`
    patches (B, k) after each stage, by layer; `positions` of the tokens that reached the end;
    `cache`, empty unless it was asked for; `entered`, where a stage chose what enters the language
    model.
    """

    logits: Tensor
    counts: list[int]
    kept: dict[int, Tensor]
    positions: Tensor
    cache: Cache
    entered: Entered | None = None


def embed(llava: Any, prompt: Prompt, vision: Vision | None, first: Entered | None) -> Stream:
    """Words and visual tokens in their order; those that did not enter leave their positions."""
    ids, mask = prompt.ids, prompt.real()
    visual, asked, images = marks(llava, prompt)
    targets = torch.full_like(ids, IGNORE) if prompt.targets is None else prompt.targets
    hidden = llava.model.language_model.embed_tokens(ids)
    patch = torch.full_like(ids, -1)
    gate = None
    if vision is not None:
        B, N = len(ids), visual_tokens(llava)
        every = torch.arange(N, device=ids.device).expand(B * images, N)
        first = first or Entered(vision.features, every)
        projector = llava.model.multi_modal_projector
        projected = projector(first.features.to(projector.linear_1.weight.dtype)).to(hidden.dtype)
        ahead = N * torch.arange(images, device=ids.device)[:, None]  # patches of images before
        index = (first.index.view(B, images, -1) + ahead).flatten(1)  # (B, images * k)
        places = visual.nonzero()[:, 1].view(B, images * N).gather(1, index)
        patch = patch.scatter(1, places, index)
        projected = projected.reshape(B, -1, hidden.shape[-1])
        hidden = hidden.scatter(1, wide(places, hidden), projected)
        if first.bias is not None:
            gate = torch.zeros(ids.shape, device=ids.device)
            gate = gate.scatter(1, places, first.bias.float().view(B, -1))
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    stream = Stream(hidden, positions, visual, mask, asked, targets, patch, gate)
    entered = ~visual | (patch >= 0)
    return stream.gather(entered.nonzero()[:, 1].view(len(ids), -1))


def first_context(
    llava: Any, prompt: Prompt, vision: Vision, generator: Generator | None
) -> Context:
    """What a choice before the language model may look at, image by image."""
    visual, asked, images = marks(llava, prompt)
    B, n = len(visual), visual_tokens(llava)
    places = (~visual).nonzero()[:, 1].view(B, -1)
    words = llava.model.language_model.embed_tokens(prompt.ids.gather(1, places))
    return Context(
        lambda: llava.model.multi_modal_projector(vision.features),
        torch.arange(n, device=visual.device).expand(B * images, n),
        words.repeat_interleave(images, 0),
        asked.gather(1, places).repeat_interleave(images, 0),
        vision,
        generator=generator,
        needed=prompt.needed,
    )


@torch.no_grad()
def read(
    llava: Any,
    prompt: Prompt,
    stages: Sequence[Stage] = (),
    *,
    cached: bool = False,
    generator: Generator | None = None,
    vision: Vision | None = None,
) -> Reading:
    """Read a prompt, dropping visual tokens on the way.

    Args:
        llava: the model.
        prompt: rows of equal length, padded on the left.
        stages: where tokens leave, by whose choice; without any, or without an image, this is the
            plain model.
        cached: keep keys and values, for `step`.
        generator: of random choices.
        vision: what the tower saw, where it has been run before.

    Raises:
        InputError: for stages out of order, layers that do not exist, budgets above what is
            there, and prompts or images that do not fit the model.
    """
    by_layer, images = check_stages(llava, stages), images_of(llava, prompt)
    if not bool(prompt.real()[:, -1].all()):
        side = 'pad on the left (tokenizer.padding_side = "left")'
        raise InputError(f"a row ends with padding, not with the word to continue from; {side}")
    if not images or prompt.pixels is None:
        by_layer, vision = {}, None
    elif vision is None:
        vision = encode(llava, prompt.pixels)
    first = by_layer.pop(BEFORE, None)
    kept: dict[int, Tensor] = {}
    entered = None
    if first is not None and vision is not None:
        context = first_context(llava, prompt, vision, generator)
        entered = first.selector.enter(context, first.keep)
        kept[BEFORE] = entered.index
    stream = embed(llava, prompt, vision, entered)
    decoder = llava.model.language_model
    cache = Cache(DynamicCache(), stream.positions[:, -1:] + 1)

    def around(stream: Stream) -> tuple[Rotary, Tensor | None]:
        return decoder.rotary_emb(stream.hidden, stream.positions), stream.bias()

    rotary, mask = around(stream)
    counts: list[int] = []
    previous: Before | None = None
    for at, layer in enumerate(decoder.layers):
        stage, index = by_layer.get(at), None
        if stage is not None and vision is not None:
            here = Before(layer, stream, rotary)
            context = here.context(vision, prompt, generator, previous)
            index = stage.selector.select(context, stage.keep * images)
            kept[at] = context.patches.gather(1, index)
            if not stage.late:
                stream = stream.keep_visual(index)
                rotary, mask = around(stream)
        counts.append(stream.hidden.shape[1])
        previous = Before(layer, stream, rotary)
        hidden = run_layer(layer, stream.hidden, mask, rotary, cache if cached else None)
        if cached:
            cache.bias.append(stream.on_keys())
        stream = replace(stream, hidden=hidden)
        if stage is not None and stage.late and index is not None:
            stream = stream.keep_visual(index)
            rotary, mask = around(stream)
    last = decoder.norm(stream.hidden[:, -1:])
    return Reading(llava.lm_head(last), counts, kept, stream.positions, cache, entered)


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
        bias, mask = cache.bias[at], None
        if bias is not None:
            bias = cache.bias[at] = torch.cat((bias, bias.new_zeros(token.shape)), 1)
            mask = fitting(bias, hidden)[:, None, None]
        hidden = run_layer(layer, hidden, mask, rotary, cache)
    cache.position = cache.position + 1
    return torch.squeeze(llava.lm_head(decoder.norm(hidden)), 1)


def check_stages(llava: Any, stages: Sequence[Stage]) -> dict[int, Stage]:
    """Stages by layer.

    Raises:
        InputError: for layers that do not exist or repeat, budgets that grow or exceed the
            visual tokens, and selectors that cannot stand where they were put.
    """
    layers = llava.config.text_config.num_hidden_layers
    here, last = visual_tokens(llava), BEFORE - 1
    for stage in stages:
        if not BEFORE <= stage.layer < layers:
            known = f"the model has layers 0 to {layers - 1}, and {BEFORE} is before them"
            raise InputError(f"no pruning layer {stage.layer}: {known}")
        if stage.layer <= last:
            raise InputError("pruning layers must rise")
        if not 1 <= stage.keep <= here:
            raise InputError(f"a budget of {stage.keep} visual tokens; {here} are there")
        usable = stage.selector.before if stage.layer == BEFORE else stage.selector.inside
        if not usable:
            where = "before" if stage.layer == BEFORE else "inside"
            raise InputError(f"{stage.selector.label} cannot choose {where} the language model")
        here, last = stage.keep, stage.layer
    return {stage.layer: stage for stage in stages}


def run_layer(
    layer: Any, hidden: Tensor, mask: Tensor | None, rotary: Rotary, cache: Cache | None = None
) -> Tensor:
    r"""A decoder layer on hidden states (B, n, d), after what a cache holds: (B, n, d).

    Equation: $h^{l + 1} = \mathrm{Layer}_l(h^l)$
    """
    out: Tensor = layer(
        hidden,
        attention_mask=mask,
        position_embeddings=rotary,
        past_key_values=None if cache is None else cache.kv,
        use_cache=cache is not None,
    )
    return out
