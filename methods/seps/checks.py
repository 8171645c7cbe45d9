"""The definition, pair by pair, and the table of checks: what holds before anything is reported.

`pairwise` gathers the patches that stay and looks at nothing else, as the source does; `model`
computes all pairs at once.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from ..kit import noise
from ..kit.compare import difference
from ..kit.seeds import randn, seeded
from ..spec import Case
from . import core, train
from .config import SepsConfig, mended
from .model import LEAK, Seps, make_model
from .pairs import Output, Texts

SMALL: dict[str, Any] = {"dim": 32, "patches": 16, "aggregate": 0.5}
ALONE: dict[str, Any] = SMALL | {"dense": False, "beta": 0.0}
VARIANTS: dict[str, SepsConfig] = {
    "open_source": SepsConfig(**SMALL, variant="open_source"),
    "paper": SepsConfig(**SMALL),
    "paper, products as guides": SepsConfig(**SMALL, cosine=False),
    "mended": mended(**SMALL),
    "mended, dense of the image": mended(**SMALL, dense_of="image"),
    "mended, sparse only": mended(**SMALL, dense=False),
    "mended, no guides": mended(**ALONE),
    "mended, no CLS": mended(**SMALL, cls=False),
}
PARAMETERS = {"open_source": 291, "paper": 1198}


def pairwise(
    model: Seps,
    pairs: Sequence[tuple[int, int]],
    patches: Tensor,
    sparse: Texts,
    dense: Texts | None = None,
) -> Tensor:
    r"""Similarities (n,) of n pairs of a caption and an image (B, 1 + N, C), each by itself.

    Equation: $y_i = S(t_{c_i}, v_{b_i})$, (c, b) being the pairs
    """
    similarities = []
    for t, b in pairs:
        texts = [sparse.words[t, sparse.real[t]]]
        if dense is not None:
            owner = b if model.config.dense_of == "image" else t
            texts.append(dense.words[owner, dense.real[owner]])
        similarities.append(pair_similarity(model, patches[b], texts))
    return torch.stack(similarities)


def pair_similarity(model: Seps, patches: Tensor, texts: list[Tensor]) -> Tensor:
    r"""Similarity (scalar) of an image (1 + N, C) with a caption: words (W, C), then dense (M, C).

    Evaluation: the K highest scores stay; all patches, as they are, where nothing is aggregated.
    In open_source x runs over the texts, else it is the first.

    Equation 4: $\hat v_j = \sum_i W_{ij} v_i, \quad
    W_{\cdot j} = \mathrm{softmax}_{i \in \mathrm{top}_K s}(\mathrm{scale} \cdot
    \mathrm{MLP}(v_i)_j)$

    Equation: $S = \sum_x S(A^x), \quad A^x_{jw} = \cos(\hat v_j, t^x_w)$
    """
    config, first = model.config, int(model.config.cls)
    cls, v = patches[:first], patches[first:]  # (1, C) or (0, C), (N, C)
    if not model.aggregations:
        return _match(model, cls, [v], texts[0])
    alike = _cosine if config.cosine else _product
    image = alike(v, v.mean(0))  # (N,)
    guides = [alike(v, words.mean(0)) for words in texts]
    if config.variant == "open_source":
        merged = [_merge(model, model.aggregations[0], v, image + guide) for guide in guides]
        each = zip(merged, texts, strict=True)
        return torch.stack([_match(model, cls, [tokens], words) for tokens, words in each]).sum()
    stretched = 2 * _stretch(image) + sum(_stretch(guide) for guide in guides)  # (N,)
    merged = []
    for learnt, net in zip(model.scores, model.aggregations, strict=True):
        scores = (1 - 2 * config.beta) * learnt(v[None])[0] + config.beta * stretched  # (N,)
        merged.append(_merge(model, net, v, scores))
    return _match(model, cls, merged, texts[0])


def _cosine(v: Tensor, vector: Tensor) -> Tensor:
    lengths = torch.linalg.vector_norm(v, dim=-1) * vector.square().sum().sqrt()
    return torch.div(v @ vector, lengths.clamp_min(1e-12))  # what is empty looks like nothing


def _product(v: Tensor, vector: Tensor) -> Tensor:
    return (v @ vector) / len(vector)


def _stretch(scores: Tensor) -> Tensor:
    return (scores - scores.min()) / (scores.max() - scores.min())


def _merge(model: Seps, net: nn.Module, v: Tensor, scores: Tensor) -> Tensor:
    """Aggregated tokens and the extra one."""
    K = math.ceil(model.config.keep * len(v))
    order = scores.argsort(descending=True)  # (N,)
    kept, dropped = order[:K], order[K:]
    extra = (scores[dropped].softmax(0) @ v[dropped])[None]  # (1, C)
    W = (model.scale * net.get_submodule("net")(v[kept])).softmax(0)  # (K, J)
    return torch.cat([W.T @ v[kept], extra])


def _match(model: Seps, cls: Tensor, merged: list[Tensor], words: Tensor) -> Tensor:
    tokens = torch.cat([cls, torch.stack(merged).sum(0)])  # (1 + J + 1, C)
    A = torch.stack([_cosine(tokens, word) for word in words], 1)  # (1 + J + 1, W)
    if model.relevance is None:
        A = torch.where(A > 0, A, LEAK * A)
    S = A.new_zeros(())
    for best in (A.amax(1), A.amax(0)):
        S = S + best.mean()
        if model.relevance is not None:
            strongest = best.new_zeros(model.config.top)
            values = best.sort(descending=True).values[: model.config.top]
            strongest[: len(values)] = values
            S = S + model.relevance.net(strongest)[0]
    return S


def example(device: str, config: SepsConfig, *, exact: bool = True) -> Seps:
    """A model with seeded weights, in float64 where equality is to be exact."""
    with seeded(0):
        model = make_model(config)
    return model.to(device, torch.float64 if exact else torch.float32).eval()


def inputs(
    device: str, config: SepsConfig, batch: int = 2, words: int = 5, *, exact: bool = True
) -> dict[str, Any]:
    """Patches and texts of which every caption but the first is ragged."""
    generator = torch.Generator().manual_seed(batch)
    dtype = torch.float64 if exact else torch.float32

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device, dtype)

    def texts(length: int) -> Texts:
        lengths = length - torch.arange(batch) % 3  # (B,)
        real = torch.arange(length) < lengths[:, None]  # (B, W)
        return Texts(normal(batch, length, config.dim), real.to(device))

    patches = normal(batch, int(config.cls) + config.patches, config.dim)  # (B, 1 + N, C)
    sparse, dense = texts(words), texts(words + 3)
    return {"patches": patches, "sparse": sparse, "dense": dense if config.dense else None}


Given = dict[str, Any]  # what a model is called with


def every(
    device: str, batch: int = 2, words: int = 5, *, exact: bool = True
) -> Iterator[tuple[str, Seps, Given]]:
    """Each of `VARIANTS` by its name: a model, and what to call it with."""
    for name, config in VARIANTS.items():
        given = inputs(device, config, batch, words, exact=exact)
        yield name, example(device, config, exact=exact), given


@torch.no_grad()
def similarities(model: Seps, given: Given) -> Tensor:
    r"""All pairs of a call (T, B), without a gradient. Equation: $S = \mathrm{Seps}(v, t)$"""
    S: Tensor = model(**given).similarity
    return S


def self_test(device: str) -> Iterator[Case]:
    """The source's own: width 32, 16 patches and CLS, batch 2, words 5 and 8, shares .5 and .5."""
    for name, count in PARAMETERS.items():
        config = VARIANTS[name]
        model = example(device, config, exact=False)
        output = model(**inputs(device, config, exact=False))
        yield Case(_size(model), count, "==", f"{name}: parameters")
        yield Case(config.aggregated, 4, "==", f"{name}: aggregated tokens")
        yield Case(output.similarity.shape == (2, 2), True, label=f"{name}: similarity (2, 2)")
        shapes = [tuple(mask.shape) for mask in output.masks]
        expected = [(2, 2, 16)] * (2 if name == "paper" else 1)
        yield Case(shapes == expected, True, label=f"{name}: masks {expected}")
    sizes = {"aggregations.0": 290, "aggregations.1": 290, "scores.0": 273, "scores.1": 273}
    for part, count in {**sizes, "relevance": 71}.items():
        yield Case(_size(model.get_submodule(part)), count, "==", f"paper: {part}")


def _size(part: nn.Module) -> int:
    return sum(p.numel() for p in part.parameters())


def oracle(device: str) -> Iterator[Case]:
    """All pairs at once == each pair by the definition, in float64."""
    for words, batch in ((2, 1), (9, 4)):  # fewer than k, and more
        pairs = list(product(range(batch), range(batch)))
        for name, model, given in every(device, batch, words):
            with torch.no_grad():
                expected = pairwise(model, pairs, **given).view(batch, batch)
            error = difference(similarities(model, given), expected)
            yield Case(error, 1e-12, label=f"{name}, {words} words")


def weights(device: str) -> Iterator[Case]:
    """Aggregation weights sum to 1 over the patches, and a dropped patch has none."""
    for training, (name, model, given) in product((False, True), every(device, batch=8)):
        with seeded(0), torch.no_grad():
            output = model.train(training)(**given)
        label = f"{name}, {'training' if training else 'evaluation'}"
        sums = torch.stack([shares.kept.sum(-1) for shares in output.shares])
        yield Case(difference(sums, torch.ones_like(sums)), 1e-12, label=label)
        lost = [
            (shares.kept * (1 - mask)[:, :, None]).abs().max()
            for shares, mask in zip(output.shares, output.masks, strict=False)
        ]
        yield Case(float(torch.stack(lost).max()), 0.0, label=f"{label}: of dropped patches")


def gradients(device: str) -> Iterator[Case]:
    """Gradients of every trainable of the mended variants; the scores' pass through the choice."""
    for name, config in VARIANTS.items():
        if not name.startswith("mended"):
            continue
        model, output = _trained(device, config)
        ratio = train.ratio_loss(output.masks, config.keep)
        loss = train.alignment_loss(output.similarity, config.margin) + ratio
        yield Case(min(_flows(loss, model)), 1e-6, ">=", f"{name}: least of all tensors")
        yield Case(max(_flows(ratio, model.scores)), 1e-6, ">=", f"{name}: from the ratio loss")
        chosen = _square(output, "kept")
        yield Case(max(_flows(chosen, model.scores)), 1e-6, ">=", f"{name}: through the choice")


def defects(device: str) -> Iterator[Case]:
    """The source's faults, in the faithful variant: the ratio loss and D have no gradient."""
    config = replace(VARIANTS["paper"], patches=15, aggregate=0.6)  # K / N is not exactly rho
    for training, label in ((False, "no noise"), (True, "Gumbel noise")):
        model, output = _trained(device, config, training=training)
        ratio = train.ratio_loss(output.masks, config.keep)
        yield Case(max(_flows(ratio, model.scores)), 1e-9, label=f"ratio loss, {label}")
    through = {
        part: max(_flows(_square(output, part), model.scores)) for part in ("kept", "dropped")
    }
    yield Case(through["kept"], 0.0, label="through the choice")
    yield Case(through["dropped"], 1e-6, ">=", "through the extra token")


def _trained(device: str, config: SepsConfig, *, training: bool = True) -> tuple[Seps, Output]:
    """A model and its output with a graph; noise as in training where that is asked for."""
    model = example(device, config).train(training)
    with seeded(0):
        return model, model(**inputs(device, config, batch=8))


def _square(output: Output, part: str) -> Tensor:
    return torch.stack([getattr(shares, part).square().sum() for shares in output.shares]).sum()


def _flows(target: Tensor, module: nn.Module) -> list[float]:
    """The largest gradient of each tensor of a module, 0 where none arrives."""
    tensors = list(module.parameters())
    if not target.requires_grad:
        return [0.0] * len(tensors)
    gradients = torch.autograd.grad(target, tensors, retain_graph=True, allow_unused=True)
    return [0.0 if g is None else float(g.abs().max()) for g in gradients]


def straight_through(device: str) -> Iterator[Case]:
    """Forward exactly hard, gradient that of soft."""
    for dtype in (torch.float32, torch.float64):
        scores, pull = (randn(4, 3, 16, seed=i, device=device, dtype=dtype) for i in (0, 1))
        scores.requires_grad_()
        hard, soft = core.top_mask(scores.detach(), 8), scores.sigmoid()
        D = noise.straight_through(hard, soft)
        yield Case(difference(D, hard), 0.0, label=f"{dtype}: value")
        ours, expected = (
            torch.autograd.grad((x * pull).sum(), scores, retain_graph=True)[0] for x in (D, soft)
        )
        yield Case(difference(ours, expected), 0.0, label=f"{dtype}: gradient")
    for name in ("paper", "mended"):
        _, output = _trained(device, VARIANTS[name])
        values = torch.stack(output.masks)
        yield Case(bool(((values == 0) | (values == 1)).all()), True, label=f"{name}: 0 or 1")


def kept(device: str) -> Iterator[Case]:
    """Exactly K = ceil(rho N) patches stay, ties too; keep = 1 keeps every patch."""
    for name, keep in product(VARIANTS, (0.05, 0.3, 0.5, 0.99, 1.0)):
        config = replace(VARIANTS[name], keep=keep, aggregate=1.0, patches=31)
        given = inputs(device, config, batch=3)
        given["patches"][1, 1:] = given["patches"][1, 1]  # an image of equal patches: all ties
        with torch.no_grad():
            masks = example(device, config)(**given).masks
        counts = torch.stack([mask.sum(-1) for mask in masks])
        wrong = difference(counts, torch.full_like(counts, math.ceil(keep * 31)))
        yield Case(wrong, 0.0, label=f"{name}, keep {keep}")


def batches(device: str) -> Iterator[Case]:
    """A batch of one is a row of a batch of eight, and chunks are the whole."""
    for name, model, given in every(device, batch=8, exact=False):
        whole = similarities(model, given)
        for i in range(8):
            row = slice(i, i + 1)
            alone = {key: x if x is None else x[row] for key, x in given.items()}
            error = difference(similarities(model, alone), whole[row, row])
            yield Case(error, 1e-5, label=name)
        parts = model.all_pairs(**given, images=3)
        yield Case(difference(parts, whole), 1e-5, label=f"{name}: three images at once")


def padding(device: str) -> Iterator[Case]:
    """Words of padding, whatever they hold, never change a score."""
    for count, (name, model, given) in product((1, 40), every(device, batch=4)):
        longer = {key: given[key] and _pad(given[key], count) for key in ("sparse", "dense")}
        error = difference(similarities(model, given | longer), similarities(model, given))
        yield Case(error, 1e-12, label=f"{name}, {count} more words")


def _pad(text: Texts, count: int) -> Texts:
    """The same captions with words of padding that would win every maximum."""
    loud = text.words[:, :1].expand(-1, count, -1) * 100  # (T, count, C)
    silent = torch.zeros_like(text.real[:, :1]).expand(-1, count)  # (T, count)
    return Texts(torch.cat([text.words, loud], 1), torch.cat([text.real, silent], 1))


def ratio(device: str) -> Iterator[Case]:
    """Trained on the ratio loss alone, the share of patches that the mended variant keeps reaches
    `keep`.
    """
    for keep in (0.3, 0.7):
        config = mended(**SMALL | {"patches": 64}, keep=keep)
        model = example(device, config, exact=False).train()
        optimiser = torch.optim.Adam(model.scores.parameters(), lr=1e-2)
        with seeded(0):
            given = inputs(device, config, batch=4, exact=False)
            for _ in range(80):
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(train.ratio_loss(model(**given).masks, keep))
                optimiser.step()
            share = float(torch.stack(model(**given).masks).detach().mean())
        yield Case(abs(share - keep), 0.05, label=f"keep {keep}")


def gate(device: str) -> Iterator[Case]:
    """Run the checks that precede every benchmark: the self-test and the definition."""
    yield from self_test(device)
    yield from oracle(device)
