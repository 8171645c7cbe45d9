"""The prompt, its tokens on their way through the layers, and what comes of reading it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..kit.rows import take, wide
from .llava import MIN_MASK, Rotary, Vision, visual_tokens

IGNORE = -100


@dataclass(frozen=True)
class Prompt:
    """A prompt.

    `ids` (B, T) with N placeholders an image; `pixels` (images, 3, side, side) in the order of the
    rows, None for words alone; `mask` (B, T) bool, False for padding, which stands on the left
    wherever an answer is to follow; `asked` (B, T) bool, the words
    that choices may look at, all but image and answers; `targets` (B, T), what is to be predicted
    at each place, or IGNORE; `needed` (B, 2) for the oracle. Of other families than LLaVA `embeds`
    (B, T, d) is what their class gives the decoder, `places` (B, T) or (B, T, axes) the positions,
    `deep` (B, T, layers, d) what is added behind the first layers (DeepStack, arXiv:2406.04334), 0
    for words, and a row's visual tokens, of images or video, count as those of one image.
    """

    ids: Tensor
    pixels: Tensor | None = None
    mask: Tensor | None = None
    asked: Tensor | None = None
    targets: Tensor | None = None
    needed: Tensor | None = None
    embeds: Tensor | None = None
    places: Tensor | None = None
    deep: Tensor | None = None

    def real(self) -> Tensor:
        r"""False for padding (B, T). Equation: $r_{bt} = m_{bt}$, all True without a mask m."""
        mask = torch.ones_like(self.ids) if self.mask is None else self.mask
        return mask.bool()  # a processor's attention_mask holds integers

    def each(self, change: Callable[[Tensor], Tensor]) -> "Prompt":
        r"""Every part that is there, changed. Equation: $y_i = f(x_i)$, f being `change`."""
        changed = {name: change(part) for name, part in vars(self).items() if part is not None}
        return replace(self, **changed)


def rotations(decoder: Any, hidden: Tensor, positions: Tensor) -> Rotary:
    r"""cos and sin (B, n, d_head) of positions p, (B, n) or (B, n, axes) in a model of several.

    Equation: $\cos(p_b \theta), \sin(p_b \theta)$
    """
    if positions.ndim == 3:
        positions = positions.movedim(2, 0)
    elif "mrope_section" in (decoder.config.rope_parameters or {}):
        positions = positions.expand(3, -1, -1)  # a word's axes agree
    rotary: Rotary = decoder.rotary_emb(hidden, positions)
    return rotary


def is_visual(llava: Any, prompt: Prompt) -> Tensor:
    r"""True at the placeholders of images and video, (B, T) bool.

    Equation: $v_{bt} = (x_{bt} \in \{\mathrm{image}, \mathrm{video}\}) \wedge r_{bt}$
    """
    config = llava.config
    ids = [config.image_token_id, getattr(config, "video_token_id", None)]
    kinds = prompt.ids.new_tensor([i for i in ids if i is not None])
    return torch.isin(prompt.ids, kinds) & prompt.real()


def tokens_of(llava: Any, prompt: Prompt) -> int:
    """N: the visual tokens of each image of a prompt, of its first row where there are `embeds`."""
    if prompt.embeds is None:
        return visual_tokens(llava)
    return int(is_visual(llava, prompt)[0].sum())


def images_in(llava: Any, prompt: Prompt) -> Tensor:
    r"""Number of images in each row, once ids, mask and images are checked: (B,).

    Equation: $c_b = \frac{1}{N} \sum_t [\, x_{bt} = \mathrm{image} \,] \, r_{bt}$, r being `real`

    Where there are `embeds`, N = 1: images and videos of any sizes count by their visual tokens.

    Raises:
        InputError: for an empty batch, ids that are no integers or outside the vocabulary, another
            number of placeholders than the images have patches.
    """
    ids, mask = prompt.ids, prompt.real()
    if ids.ndim != 2 or ids.numel() == 0 or mask.shape != ids.shape or ids.is_floating_point():
        shapes = f"{tuple(ids.shape)} {ids.dtype} with a mask {tuple(mask.shape)}"
        raise InputError(
            f"ids and mask must be (batch, time), not empty, ids integers; not {shapes}"
        )
    vocab = llava.config.text_config.vocab_size
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocab:
        raise InputError(f"token ids lie in {low}..{high}, the vocabulary in 0..{vocab - 1}")
    held_in = is_visual(llava, prompt).sum(1)  # (B,)
    if prompt.embeds is not None:
        return torch.as_tensor(held_in)
    expected = tokens_of(llava, prompt)
    if bool((held_in % expected).any()):
        held = sorted(set(held_in.tolist()))
        raise InputError(f"rows hold {held} image placeholders; each image needs {expected}")
    counts: Tensor = held_in // expected
    given = 0 if prompt.pixels is None else len(prompt.pixels)
    if given != int(counts.sum()):
        raise InputError(f"{given} images are given and the rows ask for {int(counts.sum())}")
    return counts


def images_of(llava: Any, prompt: Prompt) -> int:
    """Number of images in every row of a prompt; one, or none, where there are `embeds`.

    Raises:
        InputError: for what `images_in` refuses, and rows with different numbers of images.
    """
    counts = images_in(llava, prompt)
    if bool((counts != counts[0]).any()):
        held = sorted(set(counts.tolist()))
        what = "images" if prompt.embeds is None else "visual tokens"
        raise InputError(
            f"rows hold {held} {what}; all need equally many, except in `generate`: ask them one "
            "by one, rows=1"
        )
    return int(counts[0]) if prompt.embeds is None else min(1, int(counts[0]))


def marks(llava: Any, prompt: Prompt) -> tuple[Tensor, Tensor, int]:
    r"""Places of images and of the question, (B, T) bool each, and the number of images a row.

    Equation: $v_{bt} = (x_{bt} = \mathrm{image}) \wedge r_{bt}, \quad
    q_{bt} = a_{bt} \wedge r_{bt} \wedge \neg v_{bt}$, a being `asked`, all True where not given

    Raises:
        InputError: for what `images_of` refuses, and a row without a question.
    """
    images, mask = images_of(llava, prompt), prompt.real()
    visual = is_visual(llava, prompt)
    asked = (mask if prompt.asked is None else prompt.asked.bool() & mask) & ~visual
    if not bool(asked.any(1).all()):
        raise InputError("a row has no words beside the image; choices need a question to read")
    return visual, asked, images


@dataclass
class Stream:
    """Tokens on their way: all (B, n, ...). `patch` is -1 for words; `gate` is a bias on keys;
    `positions` (B, n, axes) where a model has several; `deep` (B, n, layers, d) as in `Prompt`.
    """

    hidden: Tensor
    positions: Tensor
    visual: Tensor
    valid: Tensor
    asked: Tensor
    targets: Tensor
    patch: Tensor
    gate: Tensor | None = None
    deep: Tensor | None = None

    def gather(self, index: Tensor) -> "Stream":
        r"""The tokens at i (B, k), in every field x. Equation: $y_{bj} = x_{b, i_{bj}}$"""
        fields = {name: x for name, x in vars(self).items() if x is not None}
        return Stream(**{name: take(x, index) for name, x in fields.items()})

    def after(self, layer: int, hidden: Tensor) -> "Stream":
        r"""The tokens behind a layer l that gave h (B, n, d): deep features D added (B, n, d).

        Equation: $y = h + D_l$ for the first layers of a model that has them, and h behind others
        """
        if self.deep is not None and layer < self.deep.shape[2]:
            hidden = hidden + self.deep[:, :, layer]
        return replace(self, hidden=hidden)

    def places(self) -> Tensor:
        r"""Visual places (B, n_v). Equation: $\{ p_{b0} < p_{b1} < \ldots \} = \{ t : v_{bt} \}$"""
        return self.visual.nonzero()[:, 1].view(len(self.visual), -1)

    def seen(self) -> Tensor:
        r"""Hidden states of the visual tokens (B, n_v, d). Equation: $y_{bj} = h_{b, p_{bj}}$"""
        return take(self.hidden, self.places())

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
        kept = (~self.visual).scatter(1, self.places().gather(1, index), True)
        return self.gather(kept.nonzero()[:, 1].view(len(kept), -1))

    def allowed(self) -> Tensor:
        r"""The causal mask (B, n, n): backwards, at no padding, and each at itself.

        Equation: $a_{bij} = (j \le i \wedge r_{bj}) \vee j = i$ with r = `valid`
        """
        n = self.valid.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool, device=self.valid.device).tril()
        self_only = torch.eye(n, dtype=torch.bool, device=self.valid.device)
        return causal & self.valid[:, None] | self_only  # padding sees itself: no empty row

    def on_keys(self) -> Tensor | None:
        r"""The bias on each key for the next token's attention (B, n); None if there is none.

        Equation: $b_{bj} = g_{bj} + \mu\, [\, \neg r_{bj} \,]$ with r = `valid` and mu the least
        float32
        """
        if self.gate is None and bool(self.valid.all()):
            return None
        mask = torch.where(self.valid, 0.0, MIN_MASK)
        return mask if self.gate is None else mask + self.gate

    def bias(self) -> Tensor | None:
        r"""The mask of causal attention with padding and gates: (B, 1, n, n); None if plain.

        Equation: $B_{bij} = g_{bj} + \mu\, [\, \neg ((j \le i \wedge r_{bj}) \vee j = i) \,]$
        with r = `valid` and mu the least float32
        """
        if self.gate is None and bool(self.valid.all()):
            return None
        allowed = self.allowed()
        mask = torch.where(allowed, 0.0, MIN_MASK)[:, None]
        return fitting(mask if self.gate is None else mask + self.gate[:, None, None], self.hidden)

    def around(self, decoder: Any) -> tuple[Rotary, Tensor | None]:
        r"""Rotations (B, n, d_head) and `bias`, which a layer reads beside these tokens.

        Equation: $\cos(p_b \theta), \sin(p_b \theta)$
        """
        return rotations(decoder, self.hidden, self.positions), self.bias()

    def following(self) -> Tensor:
        r"""The position after the last token, a word, whose axes agree: (B, 1).

        Equation: $p_{b, n - 1} + 1$
        """
        return self.positions[:, -1:].flatten(1)[:, :1] + 1


def fitting(mask: Tensor, hidden: Tensor) -> Tensor:
    r"""A mask (B, ...) in the type of `hidden`, in which the least float32 would be infinite.

    Equation: $y = \max(x, \mu)$, mu the least number of that type
    """
    least = max(torch.finfo(hidden.dtype).min, MIN_MASK)  # float64 would hold less than a mask can
    return mask.clamp_min(least).to(hidden.dtype)


@dataclass(frozen=True)
class Entered:
    """Visual tokens that enter the language model.

    `features` (B, k, d_vision) before the projector; `index` (B, k); `bias` (B, k) on the keys or
    None.
    """

    features: Tensor
    index: Tensor
    bias: Tensor | None = None


def project(llava: Any, prompt: Prompt, features: Tensor) -> Tensor:
    r"""Visual tokens (..., d_vision) as the decoder reads them, (..., d).

    Equation: $x = \mathrm{projector}(v)$, and v itself where the model's class gave `embeds`
    """
    if prompt.embeds is not None:
        return features
    projector = llava.model.multi_modal_projector
    projected: Tensor = projector(features.to(projector.linear_1.weight.dtype))
    return projected


def embed(llava: Any, prompt: Prompt, vision: Vision | None, first: Entered | None) -> Stream:
    """Words and visual tokens in their order; those that did not enter leave their positions."""
    ids, mask = prompt.ids, prompt.real()
    visual, asked, images = marks(llava, prompt)
    targets = torch.full_like(ids, IGNORE) if prompt.targets is None else prompt.targets
    words = llava.model.language_model.embed_tokens
    hidden = words(ids) if prompt.embeds is None else prompt.embeds
    patch = torch.full_like(ids, -1)
    gate = None
    if vision is not None:
        B, N = len(ids), tokens_of(llava, prompt)
        every = torch.arange(N, device=ids.device).expand(B * images, N)
        first = first or Entered(vision.features, every)
        projected = project(llava, prompt, first.features).to(hidden.dtype)
        ahead = N * torch.arange(images, device=ids.device)[:, None]  # patches of images before
        index = (first.index.view(B, images, -1) + ahead).flatten(1)  # (B, images * k)
        places = visual.nonzero()[:, 1].view(B, images * N).gather(1, index)
        patch = patch.scatter(1, places, index)
        projected = projected.reshape(B, -1, hidden.shape[-1])
        hidden = hidden.scatter(1, wide(places, hidden), projected)
        if first.bias is not None:
            gate = torch.zeros(ids.shape, device=ids.device)
            gate = gate.scatter(1, places, first.bias.float().view(B, -1))
    positions = (mask.cumsum(1) - 1).clamp_min(0) if prompt.places is None else prompt.places
    stream = Stream(hidden, positions, visual, mask, asked, targets, patch, gate, prompt.deep)
    entered = ~visual | (patch >= 0)
    return stream.gather(entered.nonzero()[:, 1].view(len(ids), -1))


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


def run_layer(
    layer: Any, hidden: Tensor, mask: Tensor | None, rotary: Rotary, cache: Cache | None = None
) -> Tensor:
    r"""A decoder layer on hidden states (B, n, d), after what a cache holds: (B, n, d).

    Equation: $h^{l + 1} = \mathrm{Layer}_l(h^l)$
    """
    n = hidden.shape[1]
    if mask is None and n > 1 and layer.self_attn.config._attn_implementation == "eager":
        # Without a mask the others are causal, this one looks ahead.
        mask = hidden.new_full((n, n), torch.finfo(hidden.dtype).min).triu(1)[None, None]
    out: Tensor = layer(
        hidden,
        attention_mask=mask,
        position_embeddings=rotary,
        past_key_values=None if cache is None else cache.kv,
        use_cache=cache is not None,
    )
    return out
