"""What slimming is measured against: every patch, patches at random, and dense cross attention."""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UnknownNameError
from . import core as align
from .config import MENDED, SepsConfig
from .model import Output, Prepared, Seps, Texts


class Whole(Seps):
    """No slimming: every patch meets every word, with the paper's relevance MLP."""

    def __init__(self, config: SepsConfig) -> None:
        kept = replace(config, variant="paper", dense=False, keep=1.0, tokens="kept")
        super().__init__(kept)
        self.scores, self.aggregations = nn.ModuleList(), nn.ModuleList()
        self.scale.requires_grad = False

    def compare(self, patches: Tensor, texts: list[Prepared]) -> Output:
        r"""Similarities of all pairs, each patch (B, 1 + N, C) standing for itself.

        Equation 5: $A_{iw} = \cos(v_i, t_w)$
        """
        text = texts[0]
        v = F.normalize(patches, dim=-1)  # (B, 1 + N, C)
        A = torch.einsum("bnc,twc->tbnw", v, text.unit)  # (T, B, 1 + N, W)
        S = align.alignment(A, text.real, self.relevance)  # (T, B)
        return Output(S, [torch.ones(*S.shape, self.config.patches, device=S.device)], [])


class Random(Seps):
    """As many patches, aggregated alike, chosen without looking."""

    def score(self, learnt: Tensor, guides: list[Tensor], image: Tensor) -> Tensor:
        r"""A score (1, B, N) from torch's global generator, the same for every caption.

        Equation: $s_{bn} \sim \mathrm{Uniform}(0, 1)$
        """
        return torch.rand_like(learnt)[None]


# The rows of the comparison: which model, and what its configuration changes.
CANDIDATES: dict[str, tuple[type[Seps], dict[str, Any]]] = {
    "whole": (Whole, {}),
    "random": (Random, {"variant": "paper", "dense": False, "beta": 0.0}),
    "laps": (Seps, {"variant": "open_source", "dense": False}),
    "open_source": (Seps, {"variant": "open_source"}),
    "paper": (Seps, {"variant": "paper"}),
    "seps_learnt": (Seps, MENDED | {"dense": False, "beta": 0.0}),
    "seps_sparse": (Seps, MENDED | {"dense": False}),
    "seps_image": (Seps, MENDED | {"dense_of": "image"}),
    "seps": (Seps, MENDED),
}


def candidate(name: str, base: SepsConfig) -> Seps:
    """The model that a row of the comparison trains.

    Raises:
        UnknownNameError: for a name that is none of `CANDIDATES`.
    """
    if name not in CANDIDATES:
        raise UnknownNameError("candidate", name, CANDIDATES)
    model, changes = CANDIDATES[name]
    return model(replace(base, **changes))


TOGETHER = 8  # images whose patches look at once: all of a batch at once leave the caches


@torch.no_grad()
def cross_attention(patches: Tensor, text: Texts, temperature: float = 9.0) -> Tensor:
    r"""Similarities (T, B) by dense attention of words over patches and patches over words.

    SCAN (Lee et al., arXiv:1803.08024) with fused attention, so that nothing of the size of all
    pairs times C is kept: patches (B, 1 + N, C), words (T, W, C).

    Equation: $S = \operatorname{mean}_w \cos(t_w, \sum_i \alpha_{wi} v_i)
    + \operatorname{mean}_i \cos(v_i, \sum_w \alpha'_{iw} t_w)$
    """
    T, W, C = text.words.shape
    B, n, _ = patches.shape
    v = F.normalize(patches, dim=-1)  # (B, n, C)
    t = F.normalize(text.words, dim=-1)  # (T, W, C)
    of_words = torch.empty(T, B, device=v.device)
    of_patches = torch.empty(T, B, device=v.device)
    for b in range(B):
        cosines = _cosines(t.reshape(-1, C), v[b], temperature).view(T, W)
        of_words[:, b] = cosines.masked_fill(~text.real, 0.0).sum(1) / text.real.sum(1)
    for first in range(0, B, TOGETHER):
        rows = slice(first, first + TOGETHER)
        every_patch = v[rows].reshape(-1, C)
        for i in range(T):
            cosines = _cosines(every_patch, t[i, text.real[i]], temperature)
            of_patches[i, rows] = cosines.view(-1, n).mean(1)
    return of_words + of_patches


def _cosines(queries: Tensor, values: Tensor, temperature: float) -> Tensor:
    """Cosines (q,) of queries (q, C) of length 1 with what each sees of the values (n, C)."""
    query, value = queries[None, None], values[None, None]
    seen = F.scaled_dot_product_attention(query, value, value, scale=temperature)[0, 0]
    return torch.div(torch.linalg.vecdot(seen, queries), torch.linalg.vector_norm(seen, dim=-1))
