"""What v2 is held against, all from one pretrained base, on identical data and steps.

`plain` is v1. `dropped` is v2 with every token NULL, that is the base without its middle layers;
`equal` keeps as many of them, rho of each, as v2's operations would pay for.
`stride` and `similarity` place concepts by rule. `random` is the control: v2's boundaries with
codes that mean nothing; whatever it gains, concepts did not.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.concept_lm.config import ConceptConfig, ConceptError
from methods.concept_lm.data import Corpus
from methods.concept_lm.flops import Shape, concept_token, plain_token
from methods.concept_lm.head import entropy
from methods.concept_lm.model import ConceptLM, ConceptOutput, token_nll
from methods.concept_lm.train import Plan, train
from methods.concept_lm.v1 import FullAttentionLM
from methods.concept_lm.v3.monitors import Stats

NAMES = (
    "plain",
    "dropped",
    "equal",
    "stride",
    "similarity",
    "random",
    "faithful",
    "recommended",
)
WITHOUT_CONCEPTS = ("plain", "dropped", "equal")


def random_codes(n_concepts: int) -> Any:
    r"""Codes without content, drawn anew at every use.

    Equation: $\mathrm{id}_t \sim \mathrm{Uniform}\{0, \dots, K - 1\}$
    """

    def draw(ids: Tensor, is_concept: Tensor) -> Tensor:
        return torch.randint_like(ids, n_concepts)

    return draw


def shuffled_codes(ids: Tensor, is_concept: Tensor) -> Tensor:
    r"""The concepts of a batch, dealt out anew among their n places p: (B, T), (B, T) -> (B, T).

    Equation: $\mathrm{id}'_{p_i} = \mathrm{id}_{p_{\pi(i)}}, \quad \pi \sim \mathrm{Uniform}(S_n)$
    """
    places = is_concept.nonzero(as_tuple=True)
    dealt = ids.clone()
    found = ids[places]
    dealt[places] = found[torch.randperm(len(found), device=ids.device)]
    return dealt


@dataclass
class Pretraining:
    """All parameters of a small base on next-byte prediction: stands in for a real base."""

    base: Any
    corpus: Corpus
    rows: int
    length: int
    seed: int

    def module(self) -> nn.Module:
        """The base."""
        module: nn.Module = self.base
        return module

    def training_loss(self, step: int) -> Tensor:
        r"""Next-token cross entropy of the step's batch (rows, length): scalar nats.

        Equation: $L = -\operatorname{mean}_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})$
        """
        x = self.corpus.batch(step, self.rows, self.length, self.seed)
        return token_nll(self.base(input_ids=x, use_cache=False).logits, x).mean()


def pretrain(base: Any, corpus: Corpus, plan: Plan, rows: int, length: int, **options: Any) -> None:
    """Train every parameter of a base in place, then freeze it."""
    base.requires_grad_(True)
    train(Pretraining(base, corpus, rows, length, plan.seed), plan, **options)
    base.requires_grad_(False)


@dataclass
class Judgement:
    """How a model does on held-out text."""

    bits: float  # bits a byte
    flops: float  # operations a byte, decoding at the middle of the window
    rate: float = 0.0  # share of positions that are concepts
    tail95: float = 0.0  # 95th percentile of tokens since the last concept
    perplexity: float = 0.0  # of the codes used
    dead: float = 0.0  # share of codes never used
    shuffled: float = 0.0  # nats a token lost when codes are shuffled


class Candidate:
    """One of `NAMES` with its own copy of the base."""

    def __init__(self, name: str, base: Any, config: ConceptConfig, corpus: Corpus) -> None:
        if name not in NAMES:
            raise ConceptError(f"no candidate {name!r}; choose from {', '.join(NAMES)}")
        self.name, self.config, self.corpus = name, config, corpus
        self.rows, self.length, self.seed = 8, 128, 0
        base = copy.deepcopy(base)
        self.model: FullAttentionLM | ConceptLM
        if name == "plain":
            self.model = FullAttentionLM(base, config)
        else:
            self.model = ConceptLM(base, config)

    def module(self) -> nn.Module:
        """The model."""
        return self.model

    def training_loss(self, step: int) -> Tensor:
        r"""The candidate's own loss (scalar) on the step's batch (rows, length), shared by all.

        The last two terms are those of `ConceptLM.loss`; `plain` has neither.

        Equation: $L = -\operatorname{mean}_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})
        - \lambda U + L_{rule}$
        """
        x = self.corpus.batch(step, self.rows, self.length, self.seed)
        if isinstance(self.model, FullAttentionLM):
            return token_nll(self.model(x), x).mean()
        output = self.run(x, "draw")
        self.model.observe(output)
        return self.model.loss(output, x)

    def run(self, x: Tensor, noise: Any = None, codes: Any = None) -> ConceptOutput:
        r"""A packed pass over (B, T) as this candidate makes it.

        `ConceptLM.forward`, but for what some candidates force.

        Equation: $c_t = 0 \;\mathrm{in\ dropped\ and\ equal}, \quad
        \mathrm{id}_t \sim \mathrm{Uniform}\{0, \dots, K - 1\} \;\mathrm{in\ random}$
        """
        assert isinstance(self.model, ConceptLM)
        none = torch.zeros_like(x, dtype=torch.bool) if self.name in WITHOUT_CONCEPTS else None
        if self.name == "random":
            codes = random_codes(self.config.n_concepts)
        output: ConceptOutput = self.model(x, noise=noise, is_concept=none, codes=codes)
        return output

    @torch.no_grad()
    def observe(self, progress: float, rows: int = 16) -> Stats:
        r"""The monitors that mean something for v2, on held-out windows, by the threshold of now.

        id' are the codes shuffled or drawn at random; `masked` is the same without concepts.

        Equation: $\Delta = -\operatorname{mean} \log p(x \mid \mathrm{id}')
        + \operatorname{mean} \log p(x \mid \mathrm{id})$
        """
        assert isinstance(self.model, ConceptLM)
        x = self.corpus.judged(rows, self.length)
        self.model.eval()
        output = self.run(x)
        routing, head = output.routing, self.model.head
        token = token_nll(output.logits, x)  # (rows, length - 1)
        none = torch.zeros_like(routing.is_concept)
        noise = random_codes(self.config.n_concepts)

        def lost(logits: Tensor) -> float:
            return float(token_nll(logits, x).mean() - token.mean())

        logits = routing.logits[routing.is_concept]  # (N, K + 1)
        soft = (logits / self.config.temperature).softmax(-1)[:, :-1] @ head.embedding.weight
        hard = head.embedding(routing.ids[routing.is_concept])
        stats = Stats(
            progress=progress,
            shuffled=lost(self.run(x, codes=shuffled_codes).logits),
            random=lost(self.run(x, codes=noise).logits),
            masked=lost(self.model(x, is_concept=none).logits),
            codes=len(set(routing.ids[routing.is_concept].tolist()))
            / max(1, min(self.config.n_concepts, len(logits))),
            agreement=float(F.cosine_similarity(soft, hard, dim=-1).mean()),
            bucket_width=64,
            buckets=[float(part.mean()) for part in torch.split(token, 64, 1)],
        )
        self.model.train()
        return stats

    def settle(self) -> None:
        """Set the evaluation threshold for the final weights."""
        if isinstance(self.model, ConceptLM):
            batches = [self.corpus.batch(i, self.rows, self.length, self.seed) for i in range(8)]
            self.model.settle(batches)

    @torch.no_grad()
    def judge(self, rows: int, length: int) -> Judgement:
        r"""Measure on held-out windows.

        Equation: $\mathrm{bits} = \frac{\mathrm{NLL}}{\ln 2}, \quad
        \mathrm{perplexity} = e^{H(f)}, \quad f_k = \frac{1}{n} \sum_i [\, \mathrm{id}_i = k \,]$
        """
        x = self.corpus.judged(rows, length)
        self.model.eval()
        shape = Shape.of(self.model.base_config)
        if isinstance(self.model, FullAttentionLM):
            nll = token_nll(self.model(x), x).mean()
            return Judgement(float(nll) / math.log(2), plain_token(shape, length / 2))
        output = self.run(x)
        nll = token_nll(output.logits, x).mean()
        is_concept = output.routing.is_concept
        used = output.routing.ids[is_concept]
        share = torch.bincount(used, minlength=self.config.n_concepts) / max(len(used), 1)
        index = torch.arange(length)
        tails = index - torch.where(is_concept, index, -1).cummax(1).values
        shuffled = token_nll(self.run(x, codes=shuffled_codes).logits, x).mean()
        rate = float(is_concept.float().mean())
        cost = concept_token(shape, self.config, length / 2, rate, float(tails.float().mean()))
        if self.name in WITHOUT_CONCEPTS:  # these have no head
            cost = plain_token(shape, length / 2, self.config.shallow + self.config.deep)
        return Judgement(
            bits=float(nll) / math.log(2),
            flops=cost,
            rate=rate,
            tail95=float(tails.float().quantile(0.95)),
            perplexity=float(entropy(share).exp()),
            dead=float((share == 0).float().mean()),
            shuffled=float(shuffled - nll),
        )
