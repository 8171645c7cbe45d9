"""The interface of a choice of visual tokens: `select(context, k) -> indices`.

Indices are (B, k), rising. A choice that also merges what it does not keep gives the tokens as
well, `Entered`. All read only the context: before the language model, or the hidden states before
one of its layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Generator, Tensor

from ..errors import InputError
from ..kit.rows import take
from .llava import Rotary, Vision, attention_scores
from .stream import Entered, Prompt, Stream, marks, project, tokens_of


def check_budget(k: int, n: int) -> None:
    """Refuse a budget k of n tokens that is not 1 to n; raises InputError."""
    if not 1 <= k <= n:
        raise InputError(f"a budget of {k} tokens; there are {n}, and at least one is kept")


def top(scores: Tensor, k: int) -> Tensor:
    r"""The k highest scores of each row, in the order of their places: (B, n) -> (B, k) indices.

    Equation: $\mathrm{idx} = \mathrm{sort}(\mathrm{topk}_i\, s_i)$

    Raises:
        InputError: for a budget outside 1 to n, or scores that are no numbers.
    """
    check_budget(k, scores.shape[-1])
    if torch.isnan(scores).any():
        raise InputError("a token's score is no number: there is NaN in the weights or the image")
    return scores.topk(k, dim=-1).indices.sort(dim=-1).values


def no_attention(*_: object) -> Tensor:
    r"""The attention (B, n) of a layer where none has attended. Equation: $\varnothing$

    Raises:
        InputError: always.
    """
    raise InputError("this choice reads a layer's attention, and before layer 0 there is none")


@dataclass(frozen=True)
class Context:
    """The input of a choice.

    `look` gives `visual` (B, n, d), projected features or hidden states; `patches` (B, n) says
    which patch each comes from; `text` (B, t, d) and `asked` (B, t) bool are the question; `vision`
    is the tower's view of all N patches; `attention` gives (B, n), the last token's attention in
    the layer before, and `ahead` that in the layer to come, of the last token or of words by their
    weights (B, t); `needed` (B, 2) are the patch asked about and the one with the answer, on scenes
    that know them.
    """

    look: Callable[[], Tensor]
    patches: Tensor
    text: Tensor
    asked: Tensor
    vision: Vision
    attention: Callable[[], Tensor] = no_attention
    ahead: Callable[[Tensor | None], Tensor] = no_attention
    generator: torch.Generator | None = None
    needed: Tensor | None = None

    @cached_property
    def visual(self) -> Tensor:
        r"""The tokens to choose from, computed on first use: (B, n, d).

        Equation: $x_i = \mathrm{projector}(v_i) \;\mathrm{before\ the\ model}, \quad
        x_i = h_{p_i} \;\mathrm{inside}$

        v_i is a patch's features, p_i where visual token i stands among the hidden states h.
        """
        return self.look()

    def noise(self) -> Tensor:
        r"""Uniform noise (B, n) from the run's generator.

        Equation: $u_{bi} \sim U(0, 1)$
        """
        return torch.rand(self.patches.shape, generator=self.generator).to(self.patches.device)


@dataclass(frozen=True)
class Selector:
    """A way to choose; `before` and `inside` say where it can stand."""

    label: str
    choose: Callable[[Context, int], Tensor | Entered]
    before: bool = True
    inside: bool = True

    def select(self, context: Context, k: int) -> Tensor:
        r"""Indices of the tokens that stay, (B, k) in rising order.

        Equation: $i_{b0} < i_{b1} < \ldots < i_{b, k - 1}$

        Raises:
            InputError: for a budget above the tokens.
        """
        check_budget(k, context.patches.shape[1])
        choice = self.choose(context, k)
        return choice.index if isinstance(choice, Entered) else choice

    def enter(self, context: Context, k: int) -> Entered:
        r"""Choose before the language model, merging where the method merges.

        Equation: $x_{bj} = v_{b, i_{bj}} \;\mathrm{where\ it\ does\ not}$, i (B, k) the choice

        Raises:
            InputError: for a budget above the tokens.
        """
        check_budget(k, context.vision.features.shape[1])
        choice = self.choose(context, k)
        if isinstance(choice, Entered):
            return choice
        return Entered(take(context.vision.features, choice), choice)


BEFORE = -1


@dataclass(frozen=True)
class Stage:
    """Keep `keep` tokens of each image before decoder layer `layer`; BEFORE is the whole model."""

    layer: int
    keep: int
    selector: Selector
    late: bool = False  # drop behind the layer, as the source does


@dataclass(frozen=True)
class Before:
    """A decoder layer and what it reads: tokens, cos and sin of their positions."""

    layer: Any
    stream: Stream
    rotary: Rotary

    def context(
        self, vision: Vision, prompt: Prompt, generator: Generator | None, previous: Self | None
    ) -> Context:
        """The input of a choice before this layer, the layer before it being `previous`."""
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


def first_context(
    llava: Any, prompt: Prompt, vision: Vision, generator: Generator | None
) -> Context:
    """The input of a choice before the language model, image by image."""
    visual, asked, images = marks(llava, prompt)
    B, n = len(visual), tokens_of(llava, prompt)
    places = (~visual).nonzero()[:, 1].view(B, -1)
    words = llava.model.language_model.embed_tokens(prompt.ids.gather(1, places))
    return Context(
        lambda: project(llava, prompt, vision.features),
        torch.arange(n, device=visual.device).expand(B * images, n),
        words.repeat_interleave(images, 0),
        asked.gather(1, places).repeat_interleave(images, 0),
        vision,
        generator=generator,
        needed=prompt.needed,
    )


def check_stages(llava: Any, stages: Sequence[Stage], here: int) -> dict[int, Stage]:
    """Stages by layer, for images of `here` visual tokens.

    Raises:
        InputError: for layers that do not exist or repeat, budgets that grow or exceed the
            visual tokens, and selectors that cannot stand where they were put.
    """
    layers = llava.config.text_config.num_hidden_layers
    last = BEFORE - 1
    for stage in stages:
        if not BEFORE <= stage.layer < layers:
            layers_there = f"the model has layers 0 to {layers - 1}, and {BEFORE} is before them"
            raise InputError(f"no pruning layer {stage.layer}: {layers_there}")
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
