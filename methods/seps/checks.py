"""The table of checks: what must hold before a recall or a time is reported."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..kit import noise
from ..kit.compare import difference
from ..kit.seeds import randn, seeded
from ..spec import Case
from . import core as align, slimming
from .config import SepsConfig, mended
from .model import Output, Seps, Texts
from .reference import pairwise

ALONE: dict[str, Any] = {"dim": 32, "patches": 16, "aggregate": 0.5, "dense": False, "beta": 0.0}
VARIANTS: dict[str, SepsConfig] = {
    "open_source": SepsConfig(dim=32, patches=16, aggregate=0.5, variant="open_source"),
    "paper": SepsConfig(dim=32, patches=16, aggregate=0.5),
    "paper, products as guides": SepsConfig(dim=32, patches=16, aggregate=0.5, cosine=False),
    "mended": mended(dim=32, patches=16, aggregate=0.5),
    "mended, dense of the image": mended(dim=32, patches=16, aggregate=0.5, dense_of="image"),
    "mended, sparse only": mended(dim=32, patches=16, aggregate=0.5, dense=False),
    "mended, no guides": mended(**ALONE),
    "ablation, patches unmerged": mended(**ALONE, tokens="kept"),
    "ablation, patches and extra": mended(**ALONE, tokens="extra"),
    "ablation, tokens look": mended(**ALONE, halves="tokens"),
    "ablation, words look": mended(**ALONE, halves="words"),
    "mended, no CLS": mended(dim=32, patches=16, aggregate=0.5, cls=False),
}
PARAMETERS = {"open_source": 291, "paper": 1198}


def example(device: str, config: SepsConfig, *, exact: bool = True) -> Seps:
    """A model with seeded weights, in float64 where equality is to be exact."""
    with seeded(0):
        model = Seps(config)
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


def self_test(device: str) -> Iterator[Case]:
    """The source's own: width 32, 16 patches and CLS, batch 2, words 5 and 8, shares .5 and .5."""
    for name, count in PARAMETERS.items():
        config = VARIANTS[name]
        model = example(device, config, exact=False)
        output = model(**inputs(device, config, exact=False))
        found = sum(p.numel() for p in model.parameters())
        yield Case(found, count, "==", f"{name}: parameters")
        yield Case(config.aggregated, 4, "==", f"{name}: aggregated tokens")
        yield Case(output.similarity.shape == (2, 2), True, label=f"{name}: similarity (2, 2)")
        shapes = [tuple(mask.shape) for mask in output.masks]
        wanted = [(2, 2, 16)] * (2 if name == "paper" else 1)
        yield Case(shapes == wanted, True, label=f"{name}: masks {wanted}")
    sizes = {"aggregations.0": 290, "aggregations.1": 290, "scores.0": 273, "scores.1": 273}
    for part, count in {**sizes, "relevance": 71}.items():
        found = sum(p.numel() for p in model.get_submodule(part).parameters())
        yield Case(found, count, "==", f"paper: {part}")


def oracle(device: str) -> Iterator[Case]:
    """All pairs at once == each pair by the definition, in float64."""
    for name, config in VARIANTS.items():
        for words, batch in ((2, 1), (9, 4)):  # fewer than k, and more
            given = inputs(device, config, batch, words)
            model = example(device, config)
            with torch.no_grad():
                ours = model(**given).similarity
                pairs = [(t, b) for t in range(batch) for b in range(batch)]
                wanted = pairwise(model, pairs, **given).view(batch, batch)
            yield Case(difference(ours, wanted), 1e-12, label=f"{name}, {words} words")


def weights(device: str) -> Iterator[Case]:
    """Aggregation weights sum to 1 over the patches, and a dropped patch has none."""
    for (name, config), training in product(VARIANTS.items(), (False, True)):
        model = example(device, config)
        model.train(training)
        with seeded(0), torch.no_grad():
            output = model(**inputs(device, config, batch=8))
        label = f"{name}, {'training' if training else 'evaluation'}"
        sums = torch.stack([shares.kept.sum(-1) for shares in output.shares])
        yield Case(difference(sums, torch.ones_like(sums)), 1e-12, label=label)
        lost = [
            (shares.kept * (1 - mask)[:, :, None]).abs().max()
            for shares, mask in zip(output.shares, output.masks, strict=False)
        ]
        yield Case(float(torch.stack(lost).max()), 0.0, label=f"{label}: of dropped patches")


def gradients(device: str) -> Iterator[Case]:
    """In the mended variants every trainable has a gradient, the scores also through the choice."""
    ours = {name: config for name, config in VARIANTS.items() if name.startswith("mended")}
    for name, config in ours.items():
        model, output = _trained(device, config)
        align, ratio = model.losses(output)
        every = list(model.parameters())
        found = torch.autograd.grad(align + ratio, every, retain_graph=True, allow_unused=True)
        least = min(0.0 if g is None else float(g.abs().max()) for g in found)
        yield Case(least, 1e-6, ">=", f"{name}: least of all tensors")
        yield Case(_score_flow(model, output, "ratio"), 1e-6, ">=", f"{name}: from the ratio loss")
        yield Case(_score_flow(model, output, "kept"), 1e-6, ">=", f"{name}: through the choice")


def defects(device: str) -> Iterator[Case]:
    """The source's faults, in the faithful variant: the ratio loss and D have no gradient."""
    config = replace(VARIANTS["paper"], patches=15, aggregate=0.6)  # K / N is not exactly rho
    model, output = _trained(device, config, training=False)
    yield Case(_score_flow(model, output, "ratio"), 1e-9, label="ratio loss, no noise")
    model, output = _trained(device, config)
    yield Case(_score_flow(model, output, "ratio"), 1e-9, label="ratio loss, Gumbel noise")
    yield Case(_score_flow(model, output, "kept"), 0.0, label="through the choice")
    yield Case(_score_flow(model, output, "dropped"), 1e-6, ">=", "through the extra token")


def _trained(device: str, config: SepsConfig, *, training: bool = True) -> tuple[Seps, Output]:
    """A model and its output with a graph; noise as in training where that is asked for."""
    model = example(device, config)
    model.train(training)
    with seeded(0):
        return model, model(**inputs(device, config, batch=8))


def _score_flow(model: Seps, output: Output, source: str) -> float:
    """Largest gradient of the score MLPs from one place of the output."""
    if source == "ratio":
        target = align.ratio_loss(output.masks, model.config.keep)
    else:
        chosen = [getattr(shares, source) for shares in output.shares]
        target = torch.stack([(part**2).sum() for part in chosen]).sum()
    parameters = list(model.scores.parameters())
    if not target.requires_grad:
        return 0.0
    found = torch.autograd.grad(target, parameters, retain_graph=True, allow_unused=True)
    return max(0.0 if g is None else float(g.abs().max()) for g in found)


def straight_through(device: str) -> Iterator[Case]:
    """Forward exactly hard, gradient that of soft."""
    for dtype in (torch.float32, torch.float64):
        scores, pull = (randn(4, 3, 16, seed=i, device=device, dtype=dtype) for i in (0, 1))
        scores.requires_grad_()
        hard, soft = slimming.top_mask(scores.detach(), 8), scores.sigmoid()
        D = noise.straight_through(hard, soft)
        yield Case(difference(D, hard), 0.0, label=f"{dtype}: value")
        ours, wanted = (
            torch.autograd.grad((x * pull).sum(), scores, retain_graph=True)[0] for x in (D, soft)
        )
        yield Case(difference(ours, wanted), 0.0, label=f"{dtype}: gradient")
    for name in ("paper", "mended"):
        _, output = _trained(device, VARIANTS[name])
        values = torch.stack(output.masks)
        yield Case(bool(((values == 0) | (values == 1)).all()), True, label=f"{name}: 0 or 1")


def kept(device: str) -> Iterator[Case]:
    """Exactly K = ceil(rho N) patches stay, ties too; keep = 1 keeps every patch."""
    for name, keep in product(VARIANTS, (0.05, 0.3, 0.5, 0.99, 1.0)):
        config = replace(VARIANTS[name], keep=keep, aggregate=1.0, patches=31)
        model = example(device, config)
        given = inputs(device, config, batch=3)
        given["patches"][1, 1:] = given["patches"][1, 1]  # an image of equal patches: all ties
        with torch.no_grad():
            counts = torch.stack([mask.sum(-1) for mask in model(**given).masks])
        K = math.ceil(keep * 31)
        wrong = difference(counts, torch.full_like(counts, K))
        yield Case(wrong, 0.0, label=f"{name}, keep {keep}")


def batches(device: str) -> Iterator[Case]:
    """A batch of one is a row of a batch of eight, and chunks are the whole."""
    for name, config in VARIANTS.items():
        model = example(device, config, exact=False)
        given = inputs(device, config, batch=8, exact=False)
        with torch.no_grad():
            whole = model(**given).similarity
            for i in range(8):
                row = slice(i, i + 1)
                alone = {key: x if x is None else x[row] for key, x in given.items()}
                yield Case(difference(model(**alone).similarity, whole[row, row]), 1e-5, label=name)
        parts = model.all_pairs(**given, images=3)
        yield Case(difference(parts, whole), 1e-5, label=f"{name}: three images at once")


def padding(device: str) -> Iterator[Case]:
    """Words of padding, whatever they hold, never change a score."""
    for name, config in VARIANTS.items():
        for count in (1, 40):
            model = example(device, config)
            given = inputs(device, config, batch=4)
            with torch.no_grad():
                before = model(**given).similarity
                longer = {
                    key: given[key] and _pad(given[key], count) for key in ("sparse", "dense")
                }
                after = model(**given | longer).similarity
            yield Case(difference(after, before), 1e-12, label=f"{name}, {count} more words")


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
        config = mended(dim=32, patches=64, keep=keep, aggregate=0.5)
        model = example(device, config, exact=False).train()
        optimiser = torch.optim.Adam(model.scores.parameters(), lr=1e-2)
        with seeded(0):
            given = inputs(device, config, batch=4, exact=False)
            for _ in range(80):
                loss = align.ratio_loss(model(**given).masks, keep)
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
            share = float(torch.stack(model(**given).masks).detach().mean())
        yield Case(abs(share - keep), 0.05, label=f"keep {keep}")


def gate(device: str) -> Iterator[Case]:
    """What every benchmark checks before it measures: the self-test and the definition."""
    yield from self_test(device)
    yield from oracle(device)
