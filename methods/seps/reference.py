"""The definition, pair by pair: what `model` computes for all pairs at once.

Kept patches are gathered and nothing else is looked at, as in the source.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .core import LEAK
from .model import Seps, Texts
from .slimming import Aggregation

Pair = tuple[int, int]  # of a caption and an image, by their numbers


def pairwise(
    model: Seps, pairs: Sequence[Pair], patches: Tensor, sparse: Texts, dense: Texts | None = None
) -> Tensor:
    r"""Similarities (n,) of n pairs of a caption and an image (B, 1 + N, C), each by itself.

    Equation: $y_i = S(t_{c_i}, v_{b_i})$, (c, b) being the pairs
    """
    found = []
    for t, b in pairs:
        texts = [sparse.words[t, sparse.real[t]]]
        if dense is not None:
            owner = b if model.config.dense_of == "image" else t
            texts.append(dense.words[owner, dense.real[owner]])
        found.append(pair_similarity(model, patches[b], texts))
    return torch.stack(found)


def pair_similarity(model: Seps, patches: Tensor, texts: list[Tensor]) -> Tensor:
    r"""Similarity (scalar) of an image (1 + N, C) with a caption: words (W, C), then dense (M, C).

    Evaluation: the K highest scores stay; all patches, as they are, where nothing is aggregated.

    The tokens that meet the words t are CLS, these and the extra one; x runs as in `Seps.compare`.

    Equation 4: $\hat v_j = \sum_i W_{ij} v_i, \quad
    W_{\cdot j} = \mathrm{softmax}_{i \in \mathrm{top}_K s}(\mathrm{scale} \cdot
    \mathrm{MLP}(v_i)_j)$

    Equation: $S = \sum_x S(A^x), \quad A^x_{jw} = \cos(\hat v_j, t^x_w)$
    """
    first = int(model.config.cls)
    cls, v = patches[:first], patches[first:]  # (1, C) or (0, C), (N, C)
    if not model.aggregations:
        return _match(model, cls, [v], texts[0])
    alike = _cosine if model.config.cosine else _product
    image = alike(v, v.mean(0))  # (N,)
    guides = [alike(v, words.mean(0)) for words in texts]
    if model.config.variant == "open_source":
        own = [_merge(model, model.aggregations[0], v, image + guide) for guide in guides]
        pairs = zip(own, texts, strict=True)
        return torch.stack([_match(model, cls, [tokens], words) for tokens, words in pairs]).sum()
    beta, merged = model.config.beta, []
    for learnt, net in zip(model.scores, model.aggregations, strict=True):
        stretched = 2 * _stretch(image) + sum(_stretch(guide) for guide in guides)  # (N,)
        scores = (1 - 2 * beta) * learnt(v[None])[0] + beta * stretched  # (N,)
        merged.append(_merge(model, net, v, scores))
    return _match(model, cls, merged, texts[0])


def _cosine(v: Tensor, vector: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(v, dim=-1) * vector.square().sum().sqrt()
    return torch.div(v @ vector, lengths.clamp_min(1e-12))  # what is empty looks like nothing


def _product(v: Tensor, vector: Tensor) -> Tensor:
    return (v @ vector) / len(vector)


def _stretch(scores: Tensor) -> Tensor:
    return (scores - scores.min()) / (scores.max() - scores.min())


def _merge(model: Seps, net: torch.nn.Module, v: Tensor, scores: Tensor) -> Tensor:
    """Aggregated tokens and the extra one, or what the configuration has in their place."""
    assert isinstance(net, Aggregation)
    K = math.ceil(model.config.keep * len(v))
    order = scores.argsort(descending=True)  # (N,)
    kept, dropped = order[:K], order[K:]
    extra = (scores[dropped].softmax(0) @ v[dropped])[None]  # (1, C)
    if model.config.tokens != "merged":
        return torch.cat([v[kept], extra] if model.config.tokens == "extra" else [v[kept]])
    W = (model.scale * net.net(v[kept])).softmax(0)  # (K, J)
    return torch.cat([W.T @ v[kept], extra])


def _match(model: Seps, cls: Tensor, merged: list[Tensor], words: Tensor) -> Tensor:
    tokens = torch.cat([cls, torch.stack(merged).sum(0)])  # (1 + J + 1, C)
    A = torch.stack([_cosine(tokens, word) for word in words], 1)  # (1 + J + 1, W)
    if model.relevance is None:
        A = torch.where(A > 0, A, LEAK * A)
    S = A.new_zeros(())
    for half, best in (("tokens", A.amax(1)), ("words", A.amax(0))):
        if model.config.halves not in ("both", half):
            continue
        S = S + best.mean()
        if model.relevance is not None:
            strongest = best.new_zeros(model.config.top)
            values = best.sort(descending=True).values[: model.config.top]
            strongest[: len(values)] = values
            S = S + model.relevance.net(strongest)[0]
    return S
