"""The concepts of a model in a text, each with the tokens nearest to it, for people to read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .model import ConceptLM


@dataclass(frozen=True)
class Mark:
    """A concept: the token it stands on, its code, and the tokens nearest to its embedding."""

    place: int
    code: int
    nearest: tuple[int, ...]


@torch.no_grad()
def marks(model: ConceptLM, x: Tensor, most: int = 3) -> list[Mark]:
    r"""The concepts of one text (T,), with the nearest tokens v by their embeddings W_v.

    Equation: $\mathrm{nearest} = \operatorname{top}_v \cos(E_{id}, W_v)$
    """
    routing = model(x[None]).routing
    places = routing.is_concept[0].nonzero()[:, 0]
    codes = routing.ids[0, places]
    near = nearest(model.head.embed(codes[None], None)[0], model.qwen.embed_tokens.weight, most)
    rows = zip(places.tolist(), codes.tolist(), near.tolist(), strict=True)
    return [Mark(at, code, tuple(tokens)) for at, code, tokens in rows]


_PART = "\ufffd"  # what a tokenizer writes for the bytes of a character that is not whole


def nearest(e: Tensor, table: Tensor, most: int = 3) -> Tensor:
    r"""Tokens whose embeddings (V, d) lie nearest to each of e (n, d): (n, most), nearest first.

    Equation: $\operatorname{top}_v \frac{e \cdot W_v}{\lVert e \rVert \lVert W_v \rVert}$
    """
    near = F.normalize(e.float(), dim=-1) @ F.normalize(table.float(), dim=-1).T
    return near.topk(min(most, len(table)), -1).indices


def named(code: int, tokens: Iterable[int], spell: Callable[[list[int]], str]) -> str:
    """A code with the tokens nearest to it: ``[17: ' the', ' a']``."""
    return f"[{code}: {', '.join(repr(spell([token])) for token in tokens)}]"


def in_words(x: Tensor, concepts: list[Mark], spell: Callable[[list[int]], str]) -> str:
    """The text (T,) with ``[code: nearest words]`` after each token that became a concept.

    Tokens of bytes may end inside a character: the mark then stands behind the whole of it.
    """
    parts: list[str] = []
    begin = 0
    for mark in concepts:
        end = max(begin, mark.place + 1)
        while end < len(x) and spell(x[begin:end].tolist()).endswith(_PART):
            end += 1
        parts += [spell(x[begin:end].tolist()), named(mark.code, mark.nearest, spell)]
        begin = end
    return "".join([*parts, spell(x[begin:].tolist())])
