"""Reasoning without words: what a model may do between a question and its answer.

Every way is the same decoder with the same weights, and takes T steps before it answers. They
differ in what a step reads:

    words     the word it has written, as a token          a written chain of thought
    soft      the mean of all words, by their chances       soft thinking, arXiv:2505.15778
    thoughts  its own last hidden state, in a new place     Coconut, arXiv:2412.06769
    pauses    a learnt token that says nothing              pause tokens, arXiv:2310.02226
    looped    its own last hidden state, in the same place  one place of a universal transformer,
                                                            arXiv:1807.03819
    whole     all hidden states, each in its own place      a looped block, arXiv:2502.05171
    none      nothing: words are left out, no step stands   internalised chain of thought,
              for them                                      arXiv:2405.14838
    deep      nothing, in layers of its own for each pass that `whole` makes

A step of the first five costs one place in the decoder; one of `whole`, or as many layers of
`deep`, all places. Training is Coconut's for all of them: stage by stage one more of the words
that lead to the answer is left out, and a step stands in its place.
"""

import copy
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DynamicCache

from .flops import attend, linear_maps, read_out
from .v3.planner import run

Way = Literal["none", "pauses", "words", "soft", "thoughts", "looped", "whole", "deep"]
WAYS: tuple[Way, ...] = get_args(Way)
ONE_BY_ONE = ("soft", "thoughts", "looped")  # ways whose steps read what the step before them gave
Change = Callable[[Tensor], Tensor]


class Reasoner(nn.Module):
    """A decoder that may take up to `steps` steps, of one way, before it answers."""

    def __init__(self, base: Any, way: Way, steps: int, pause: int) -> None:
        """On a Qwen, all of whose weights are trained; `pause` is the token that says nothing."""
        super().__init__()
        self.base, self.way, self.steps, self.pause = base.requires_grad_(True), way, steps, pause
        if way == "deep":
            own = [copy.deepcopy(layer) for _ in range(steps + 1) for layer in base.model.layers]
            base.model.layers = nn.ModuleList(own)

    def embed(self, ids: Tensor) -> Tensor:
        r"""Embeddings of tokens: (...) -> (..., d). Equation: $e = E_{id}$"""
        e: Tensor = self.base.model.embed_tokens(ids)
        return e

    def block(self, x: Tensor, cache: DynamicCache | None = None) -> Tensor:
        r"""All layers and the last norm over x (B, n, d), behind what is cached: (B, n, d).

        Equation: $h = \mathrm{norm}(\mathrm{Layers}(x)), \quad \mathrm{allow}(q, k) = k \le q$
        """
        n, past = x.shape[1], 0 if cache is None else cache.get_seq_length()
        positions = torch.arange(past, past + n, device=x.device)
        allow = torch.ones(n, past + n, dtype=torch.bool, device=x.device).tril(past)
        return run(self.base.model, x, positions, allow[None], cache)

    def think(self, x: Tensor, steps: int, change: Change | None) -> tuple[Tensor, DynamicCache]:
        r"""Read a question and take steps one after another; what is left is h_n and the cache.

        x is (B, n, d), h_n (B, 1, d). A thought is read in a place of its own, and so is a mean of
        words; a loop reads in the place of the question, whose keys and values it replaces, while
        those of the places before stay. `change` puts another state in the place of each.

        Equation: $h^{(0)} = \mathrm{Block}(x)_n, \quad h^{(j + 1)} =
        \mathrm{Block}(x_1, \dots, x_n, t^{(0)}, \dots, t^{(j)})_{n + j + 1} \;\mathrm{or}\;
        \mathrm{Block}(x_1, \dots, x_{n - 1}, h^{(j)})_n, \quad
        t = h \;\mathrm{(thoughts)}, \; E^\top \mathrm{softmax}(W h) \;\mathrm{(soft)}$
        """
        cache = DynamicCache()
        h = self.block(x, cache)[:, -1:]  # (B, 1, d)
        for _ in range(steps):
            if self.way == "looped":
                cache.crop(-1)
            t = h if change is None else change(h)  # (B, 1, d)
            if self.way == "soft":
                t = self.base.lm_head(t).softmax(-1) @ self.base.model.embed_tokens.weight
            h = self.block(t, cache)
        return h, cache

    def forward(
        self, question: Tensor, words: Tensor, steps: int, change: Change | None = None
    ) -> Tensor:
        r"""Logits of the word after a question and its steps, and after each word: (B, 1 + m, V).

        The question is pairs of tokens (B, n, 2), each the sum of its two: an edge with both ends.
        Words (B, m) come behind the steps.

        Equation: $x_i = E_{q_{i1}} + E_{q_{i2}}, \quad \mathrm{logits} = W h$
        """
        x, tail = self.embed(question).sum(2), self.embed(words)  # (B, n, d), (B, m, d)
        n = x.shape[1]
        if self.way in ONE_BY_ONE:
            h, cache = self.think(x, steps, change)
            out = torch.cat([h, self.block(tail, cache)], 1) if words.shape[1] else h
        elif self.way == "pauses":
            pauses = self.embed(words.new_full((len(x), steps), self.pause))  # (B, steps, d)
            out = self.block(torch.cat([x, pauses, tail], 1))[:, n + steps - 1 :]
        else:
            out = torch.cat([x, tail], 1)
            for _ in range(1 + steps * (self.way == "whole")):
                out = self.block(out)
            out = out[:, n - 1 :]
        logits: Tensor = self.base.lm_head(out)
        return logits

    @torch.no_grad()
    def answer(
        self, question: Tensor, steps: int | None = None, change: Change | None = None
    ) -> Tensor:
        r"""The answer to each question (B, n, 2), after all steps or so many: (B,).

        Equation: $a = \arg\max_v \mathrm{logits}_v, \quad
        w_j = \arg\max_v \mathrm{logits}(w_{< j})_v \;\mathrm{(words)}$
        """
        steps = self.steps if steps is None else steps
        words = question.new_empty(len(question), 0)
        if self.way == "words":
            for _ in range(steps):
                word = self(question, words, 0)[:, -1].argmax(-1, keepdim=True)
                words = torch.cat([words, word], 1)
            steps = 0
        last: Tensor = self(question, words, steps, change)[:, -1]
        return last.argmax(-1)

    def stage(self, done: float) -> int:
        r"""How many words steps stand for after a share of the training: one more at a time.

        The second half of the training is all steps. `words` keeps its words.

        Equation: $s = \min(T, \lfloor 2 T \cdot \mathrm{done} \rfloor)$
        """
        return 0 if self.way == "words" else min(self.steps, int(2 * self.steps * done))

    def loss(self, question: Tensor, walk: Tensor, steps: int) -> Tensor:
        r"""Cross entropy of the words that no step stands for, and of the answer: scalar nats.

        `walk` (B, T + 1) is the words, the answer last.

        Equation: $L = -\operatorname{mean}_{b, j > s} \log p(w_j \mid q, s, w_{s + 1}, \dots,
        w_{j - 1})$
        """
        left = walk[:, steps:]  # (B, T + 1 - s)
        logits = self(question, left[:, :-1], steps)  # (B, T + 1 - s, V)
        return F.cross_entropy(logits.float().transpose(1, 2), left)


def operations(base: Any, way: Way, places: int, steps: int) -> float:
    """Operations to answer a question of so many places, counted; a multiply-add is two.

    `base` is the configuration of one block. Words are read out at every step, an answer once; a
    mean of words takes as much again.
    """
    layers: int = base.num_hidden_layers

    def read(first: int, count: int) -> float:
        """The layers over `count` places, the first of which sees `first` keys."""
        keys = sum(range(first, first + count))
        return layers * (2 * linear_maps(base) * count + attend(base, keys))

    passes = 1 + steps * (way in ("whole", "deep"))
    total = passes * read(1, places) + read_out(base)
    if way == "looped":
        total += sum(read(places, 1) for _ in range(steps))
    elif way in ("pauses", "words", "soft", "thoughts"):
        read_outs = {"words": 1, "soft": 2}.get(way, 0)
        total += read(places + 1, steps) + steps * read_outs * read_out(base)
    return total
