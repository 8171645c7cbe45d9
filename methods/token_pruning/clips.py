"""Clips of drawn scenes, and what may be read of them: whole frames, or tokens merged over time.

A clip is a scene in which each glyph is there for some frames on end; the clutter under a patch
changes now and then, the noise in every frame. Asked is what is asked of an image, so a question
needs a frame, or two, that nobody knows beforehand.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ..errors import InputError
from ..kit.rows import wide
from . import scenes, toy
from .choice import Context, Selector, top
from .llava import encode
from .scenes import COLOURS, EMPTY, OBJECTS, PATCHES, Scenes
from .selectors import REGISTRY
from .stream import Entered, Prompt

CHANGES = 0.3  # of a patch's clutter, from one frame to the next


@dataclass(frozen=True)
class Clips:
    """A batch of clips of T frames.

    `whole` holds what is there at all; `pixels` (B, T, 3, SIDE, SIDE); glyph i of `whole.cells` is
    there from frame `begin` (B, OBJECTS) on, up to but not in `end`.
    """

    whole: Scenes
    pixels: Tensor
    begin: Tensor
    end: Tensor


def draw(batch: int, frames: int, generator: Generator, *, clutter: float = 0.4) -> Clips:
    r"""Draw clips: glyphs come and go once, for half of the frames at most.

    Equation: $l_i \sim U \{ 1, \ldots, T / 2 \}, \quad b_i \sim U \{ 0, \ldots, T - l_i \}, \quad
    G_{ti} = G_i\, [\, b_i \le t < b_i + l_i \,]$
    """
    whole = scenes.place(batch, generator)
    length = 1 + torch.randint(max(1, frames // 2), (batch, OBJECTS), generator=generator)
    start = torch.rand(batch, OBJECTS, generator=generator) * (frames - length + 1)
    begin = start.long()
    end = begin + length
    time = torch.arange(frames)[:, None]
    there = (begin[:, None] <= time) & (time < end[:, None])  # (B, T, OBJECTS)
    seen = torch.zeros(batch, frames, PATCHES, dtype=torch.bool)
    seen = seen.scatter(2, whole.cells[:, None].expand(-1, frames, -1), there)
    labels = {
        name: torch.where(seen, getattr(whole, name)[:, None], nothing).flatten(0, 1)
        for name, nothing in (("shape", EMPTY), ("colour", COLOURS), ("target", EMPTY))
    }
    bright = 0.8 + 0.2 * torch.rand(batch, 1, PATCHES, generator=generator)
    fresh = clutter * torch.rand(batch, frames, PATCHES, 3, 4, 4, generator=generator)
    changed = torch.rand(batch, frames, PATCHES, generator=generator) < CHANGES
    latest = (changed * time).cummax(1).values  # (B, T, PATCHES) frame of the last change
    rows, patches = torch.arange(batch)[:, None, None], torch.arange(PATCHES)
    under = fresh[rows, latest, patches].flatten(0, 1)
    bright = bright.expand(-1, frames, -1).flatten(0, 1)
    pixels = scenes.paint(replace(whole, **labels), bright, under, generator)
    return Clips(whole, torch.unflatten(pixels, 0, (batch, frames)), begin, end)


def moments(clips: Clips, needed: Tensor) -> Tensor:
    r"""Tokens that questions need (B, Q, 2), of the patches they need: both of one frame if any.

    Equation: $i = t\, P + p, \quad t = \lfloor (\max b + \min e) / 2 \rfloor$ over the two glyphs,
    where that lies in both, and over each alone else
    """
    which = (clips.whole.cells[:, None, None] == needed[..., None]).int().argmax(-1)  # (B, Q, 2)
    begin, end = (
        part[:, None].expand(-1, needed.shape[1], -1).gather(2, which)
        for part in (clips.begin, clips.end)
    )
    last, first = begin.amax(-1, keepdim=True), end.amin(-1, keepdim=True)
    together = (last < first).expand_as(begin)
    frame = torch.where(together, (last + first - 1) // 2, (begin + end - 1) // 2)
    return frame * PATCHES + needed


class Exam(toy.Exam):
    """Held-out questions about clips, the tower run once: each way to read is asked the same."""

    def __init__(self, llava: Any, questions: int, seed: int, frames: int) -> None:
        self.llava, self.vision = llava, None
        generator = torch.Generator().manual_seed(9_000_000 + seed)
        clips = draw(max(1, questions // 8), frames, generator)
        self.asked = scenes.ask(clips.whole, 8, generator)
        vision = encode(llava, clips.pixels.flatten(0, 1).to(llava.device))
        seen = llava.model.multi_modal_projector(vision.features).unflatten(0, (-1, frames))
        self.prompt = prompts(llava, clips, self.asked, seen)


def prompts(llava: Any, clips: Clips, asked: scenes.Questions, seen: Tensor) -> Prompt:
    r"""One row a question: BOS, all frames, what is asked; a patch has one position in all frames.

    Equation: $\mathrm{position}(t, p) = 1 + p, \quad 0 \le t < T, \quad 0 \le p < P$

    `seen` (B, T, PATCHES, d) are the frames as the decoder reads them.
    """
    B, Q = asked.answer.shape
    frames = seen.shape[1]
    ids = torch.full((B * Q, 1 + frames * PATCHES + 2), scenes.IMAGE)
    ids[:, 0], ids[:, -2:] = scenes.BOS, asked.ids.flatten(0, 1)
    patches = torch.arange(1, 1 + PATCHES).repeat(frames)
    places = torch.cat((torch.tensor([0]), patches, 1 + PATCHES + torch.arange(2)))
    ids, places = ids.to(seen.device), places.to(seen.device)
    embeds = llava.model.language_model.embed_tokens(ids)
    embeds[:, 1:-2] = seen.flatten(1, 2).repeat_interleave(Q, 0)
    needed = moments(clips, asked.needed).flatten(0, 1).to(seen.device)
    return Prompt(ids, needed=needed, embeds=embeds, places=places.expand(B * Q, -1))


def over_time(context: Context, k: int, *, frames: int) -> Entered:
    r"""Tokens of one place that are alike from frame to frame become one: their mean.

    Equation: $c_{tp} = \cos(v_{tp}, v_{t - 1, p}), \quad
    C = \{ (0, p) \} \cup \mathrm{bottom}_{k - P}\, c_{tp}$
    Equation: $x_j = \operatorname{mean}_{t_j \le t < t'_j} v_{t p_j}$ for each $(t_j, p_j) \in C$

    t' is where the next one at that place begins. The token stands where the first of it stood, and
    the log of how many it stands for is added to its key, as ToMe does. After DyCoke's temporal
    merging (Tao et al., arXiv:2411.15024), which drops the later of two like tokens in groups of
    four frames.

    Raises:
        InputError: for frames that do not divide the tokens, or fewer tokens than a frame has.
    """
    features = context.vision.features
    B, n, _ = features.shape
    patches = per_frame(n, frames)
    if k < patches:
        raise InputError(f"merging over time leaves a token a place, {patches}; {k} are fewer")
    v = features.to(torch.promote_types(features.dtype, torch.float32))
    unit = torch.unflatten(F.normalize(v, dim=-1), 1, (frames, patches))
    alike = (unit[:, 1:] * unit[:, :-1]).sum(-1).flatten(1)  # (B, n - P)
    cut = torch.zeros(B, n, dtype=torch.bool, device=v.device)
    cut[:, :patches] = True
    cut = cut.scatter(1, patches + alike.topk(k - patches, largest=False).indices, True)
    number = torch.arange(n, device=v.device)
    since = (
        torch.unflatten(cut * number, 1, (frames, patches)).cummax(1).values.flatten(1)
    )  # (B, n)
    into = (cut.cumsum(1) - 1).gather(1, since)  # (B, n) which of the k
    size = v.new_zeros(B, k).scatter_add(1, into, v.new_ones(B, n))
    total = torch.zeros_like(v[:, :k]).scatter_add(1, wide(into, v), v)
    mean = (total / size[..., None]).to(features.dtype)
    return Entered(mean, cut.nonzero()[:, 1].view(B, k), size.log())


def per_frame(tokens: int, frames: int) -> int:
    """Tokens of a frame; raises InputError where frames do not divide them."""
    if frames < 1 or tokens % frames:
        raise InputError(f"{tokens} visual tokens are not {frames} frames of equally many")
    return tokens // frames


def whole_frames(context: Context, k: int, *, frames: int, chosen: str) -> Tensor:
    r"""All tokens of some frames: at equal distances, by chance, or those that are needed.

    Equation: $\{ t P + p : t \in F \}, \quad F = \mathrm{top}_{k / P} (u_t + 2\, [\, t = t_a \,] +
    4\, [\, t = t_b \,])$ or $\lfloor (j + 0.5) T P / k \rfloor$

    u_t ~ U(0, 1); where `chosen` is "oracle", t_a is a frame with the glyph asked about and t_b one
    with the glyph that holds the answer.

    Raises:
        InputError: for a budget that is no whole number of frames.
    """
    B, n = context.patches.shape
    patches = per_frame(n, frames)
    if k % patches:
        raise InputError(f"a frame has {patches} tokens, so a budget is a multiple, not {k}")
    if chosen == "uniform":
        here = ((torch.arange(k // patches) + 0.5) * n / k).long().expand(B, -1)
    else:
        score = torch.rand(B, frames, generator=context.generator)
        if chosen == "oracle":
            assert context.needed is not None
            at = (context.needed // patches).cpu()
            score = score.scatter_add(1, at, torch.tensor([2.0, 4.0]).expand(B, 2))
        here = top(score, k // patches)
    first = patches * here.to(context.patches.device)  # (B, frames that stay)
    every = torch.arange(patches, device=first.device)
    return (first[..., None] + every).flatten(1)


def ways(frames: int) -> dict[str, Selector]:
    """What is compared at equal tokens, for clips of so many frames."""
    made = {
        f"{chosen}_frames": Selector(label, partial(whole_frames, frames=frames, chosen=chosen))
        for chosen, label in (("uniform", "frames at equal distances"),
                              ("random", "frames by chance"), ("oracle", "frames that are needed"))
    }  # fmt: skip
    merging = Selector("merged over time", partial(over_time, frames=frames), inside=False)
    return {"over_time": merging, **made, "random": REGISTRY["random"]}
