"""Baselines of v2, all from one pretrained base, on identical data and steps.

`plain` is v1. `dropped` is v2 with every token NULL, that is the base without its middle layers;
`equal` keeps as many of them, rho of each, as v2's operations would pay for.
`stride` places concepts by rule, `hnet` by H-Net's boundary. `random` is the control: v2's
boundaries with codes that mean nothing; whatever it gains, concepts did not.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from ..kit.corpus import Corpus
from .base import add_lora
from .config import ConceptConfig
from .flops import concept_token, plain_token
from .head import entropy, since
from .model import ConceptLM, token_nll
from .train import OnText
from .v3.monitors import Stats

WITH_CONCEPTS = ("stride", "hnet", "random", "faithful", "recommended")
NAMES = ("plain", "dropped", "equal", *WITH_CONCEPTS)


def equal_split(split: tuple[int, int, int], rho: float) -> tuple[int, int, int]:
    """A split that, without concepts, runs as many layers as a token of v2 costs.

    A share rho of its tokens goes through the middle layers: so many of those are kept.
    """
    shallow, middle, deep = split
    added = round(rho * middle)
    return shallow + added, middle - added, deep


def random_codes(ids: Tensor, is_concept: Tensor, n_concepts: int) -> Tensor:
    r"""Codes without content, drawn anew at every use: (B, T), (B, T) -> (B, T).

    Equation: $\mathrm{id}_t \sim \mathrm{Uniform}\{0, \dots, K - 1\}$
    """
    return torch.randint_like(ids, n_concepts)


def shuffled_codes(ids: Tensor, is_concept: Tensor) -> Tensor:
    r"""The concepts of a batch, dealt out anew among their n places p: (B, T), (B, T) -> (B, T).

    Equation: $\mathrm{id}'_{p_i} = \mathrm{id}_{p_{\pi(i)}}, \quad \pi \sim \mathrm{Uniform}(S_n)$
    """
    dealt, chosen = ids.clone(), ids[is_concept]
    dealt[is_concept] = chosen[torch.randperm(len(chosen), device=ids.device)]
    return dealt


@dataclass(frozen=True)
class Judgement:
    """Measurements of a model on held-out text."""

    bits: float  # bits a byte
    flops: float  # operations a byte, decoding at the middle of the window
    rate: float = 0.0  # share of positions that are concepts
    tail95: float = 0.0  # 95th percentile of tokens since the last concept
    perplexity: float = 0.0  # of the codes used
    dead: float = 0.0  # share of codes never used
    shares: tuple[float, ...] = ()  # of each code among concepts, most used first
    shuffled: float = 0.0  # nats a token lost when codes are shuffled
    removed: float = 0.0  # and when there are no concepts

    def times(self, share: float) -> Self:
        """The figures of a token as those of a byte, where `share` tokens make one."""
        counted = ("bits", "flops", "shuffled", "removed")
        return replace(self, **{name: share * getattr(self, name) for name in counted})

    @property
    def per_concept(self) -> float:
        """Bytes for each concept."""
        return 1 / max(self.rate, 1e-9)

    @property
    def stats(self) -> Stats:
        """The monitors of v3 that mean something for v2, after the training."""
        codes = 1 - self.dead
        return Stats(progress=1.0, shuffled=self.shuffled, masked=self.removed, codes=codes)


def front(judged_of: Mapping[str, Sequence[Judgement]]) -> dict[tuple[str, float], list[float]]:
    """Held-out bits a byte of each seed, by variant and operations a byte."""
    return {
        (name, sum(judgement.flops for judgement in seeds) / len(seeds)): [
            judgement.bits for judgement in seeds
        ]
        for name, seeds in judged_of.items()
    }


@torch.no_grad()
def judge(learner: OnText, rows: int) -> Judgement:
    r"""Measure on held-out windows.

    Equation: $\mathrm{bits} = \frac{\mathrm{NLL}}{\ln 2}, \quad
    \mathrm{perplexity} = e^{H(f)}, \quad f_k = \frac{1}{n} \sum_i [\, \mathrm{id}_i = k \,]$
    """
    model, length = learner.model.eval(), learner.length
    x = learner.corpus.judged(rows, length)
    if not isinstance(model, ConceptLM):
        nll = float(token_nll(model(input_ids=x, use_cache=False).logits, x).mean())
        return Judgement(nll / math.log(2), plain_token(model.config, length / 2))
    output = learner.run(x)
    is_concept = output.routing.is_concept
    nll = float(token_nll(output.logits, x).mean())
    if not learner.concepts:  # no head either
        layers = model.config.shallow + model.config.deep
        return Judgement(nll / math.log(2), plain_token(model.base_config, length / 2, layers))
    ids = output.routing.ids  # shuffled are the very codes that were used, a control's own too
    dealt = learner.run(x, codes=lambda _, places: shuffled_codes(ids, places))
    shuffled = token_nll(dealt.logits, x).mean()
    removed = token_nll(model(x, is_concept=torch.zeros_like(is_concept)).logits, x).mean()
    used = output.routing.ids[is_concept]
    share = torch.bincount(used, minlength=model.config.n_concepts) / max(len(used), 1)
    tails = since(is_concept).float()
    rate = float(is_concept.float().mean())
    return Judgement(
        bits=nll / math.log(2),
        flops=concept_token(model.base_config, model.config, length / 2, rate, float(tails.mean())),
        rate=rate,
        tail95=float(tails.quantile(0.95)),
        perplexity=float(entropy(share).exp()),
        dead=float((share == 0).float().mean()),
        shares=tuple(share.sort(descending=True).values.tolist()),
        shuffled=float(shuffled) - nll,
        removed=float(removed) - nll,
    )


def candidate(name: str, base: Any, config: ConceptConfig, corpus: Corpus, *sizes: int) -> OnText:
    """One of `NAMES` with its own copy of a base, which stays frozen."""
    base = copy.deepcopy(base)
    model = add_lora(base, config) if name == "plain" else ConceptLM(base, config)
    codes = partial(random_codes, n_concepts=config.n_concepts) if name == "random" else None
    return OnText(model, corpus, *sizes, concepts=name in WITH_CONCEPTS, codes=codes)
