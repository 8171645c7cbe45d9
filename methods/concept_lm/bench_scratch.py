"""From nothing, on bytes: does a model with concepts beat a dense one of as many operations?"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.baselines import shuffled_codes
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.data import Corpus, folder, stdlib
from methods.concept_lm.flops import Shape, concept_token, plain_token
from methods.concept_lm.model import ConceptLM, token_nll
from methods.concept_lm.spec import ScratchParams
from methods.concept_lm.train import Plan, train
from methods.context import Context
from methods.kit.report import Stages, over_seeds
from methods.protocol import Axis, Variant

CONCEPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "notes": ("v2 as the notes have it", {}),
    "hnet": ("v2, H-Net's boundary", {"boundary": "hnet"}),
    "ours": (
        "v2 at word ends, fsq codes, gated residual",
        {"boundary": "words", "codes": "fsq", "residual": True},
    ),
}
GIVEN = ("as trained", "codes shuffled", "codes removed")


@dataclass
class Scratch:
    """A model of which every weight is trained on the batches that all share."""

    model: Any  # a ConceptLM, or a Qwen
    corpus: Corpus
    params: ScratchParams
    seed: int

    def module(self) -> nn.Module:
        """The model."""
        module: nn.Module = self.model
        return module

    def training_loss(self, step: int) -> Tensor:
        r"""Next-byte cross entropy of a step's batch, and what the rule adds: scalar nats.

        Equation: $L = -\operatorname{mean}_{b, t} \log p(x_{b, t + 1} \mid x_{b, \le t})
        + L_{rule}$
        """
        x = self.corpus.batch(step, self.params.rows, self.params.length, self.seed)
        if not isinstance(self.model, ConceptLM):
            return token_nll(self.model(input_ids=x, use_cache=False).logits, x).mean()
        output = self.model(x, noise="draw")
        self.model.observe(output)
        return self.model.loss(output, x)

    @torch.no_grad()
    def judge(self) -> tuple[float, list[float]]:
        """Operations a byte while decoding, and held-out bits a byte under each of `GIVEN`."""
        params = self.params
        x = self.corpus.judged(params.judged, params.length)
        middle = params.length / 2

        def bits(logits: Tensor) -> float:
            return float(token_nll(logits, x).mean()) / math.log(2)

        if not isinstance(self.model, ConceptLM):
            shape = Shape.of(self.model.config)
            return plain_token(shape, middle), [bits(self.model(x, use_cache=False).logits)]
        if self.model.boundary is None:
            args = params.rows, params.length, self.seed
            self.model.settle([self.corpus.batch(i, *args) for i in range(8)])
        output = self.model(x)
        is_concept = output.routing.is_concept
        index = torch.arange(params.length)
        tails = (index - torch.where(is_concept, index, -1).cummax(1).values).float()
        shape, rate = Shape.of(self.model.base_config), float(is_concept.float().mean())
        cost = concept_token(shape, self.model.config, middle, rate, float(tails.mean()))
        shuffled = self.model(x, codes=shuffled_codes).logits
        removed = self.model(x, is_concept=torch.zeros_like(is_concept)).logits
        return cost, [bits(output.logits), bits(shuffled), bits(removed)]


def make(name: str, params: ScratchParams, corpus: Corpus, seed: int) -> Scratch:
    """An untrained model: `dense_N` of N layers, or one of `CONCEPTS`."""
    split = params.shallow, params.middle, params.deep
    dense = name.removeprefix("dense_")
    layers = int(dense) if dense != name else sum(split)
    base = load_base(tiny_config(d=params.d, layers=layers, d_ff=2 * params.d), seed=seed)
    model: Any = base
    if name in CONCEPTS:
        values = {"rho": params.rho, "n_concepts": params.n_concepts} | CONCEPTS[name][1]
        model = ConceptLM(base, ConceptConfig(*split, **values), seed=seed)
        model.fold()  # adapters are for a base that is frozen
    model.requires_grad_(True)
    return Scratch(model, corpus, params, seed)


def scratch(ctx: Context, params: ScratchParams) -> None:
    """Train every model on the same bytes, judge each on held-out text."""
    torch.set_num_threads(1)
    ctx.check_all("dropped_layers", checks.dropped_layers(ctx.device))
    corpus = folder(params.data) if params.data else stdlib()
    ctx.log(f"text {corpus.digest}: {len(corpus.train)} bytes to train on")
    labels = {f"dense_{n}": f"{n} dense layers" for n in params.dense}
    labels |= {name: label for name, (label, _) in CONCEPTS.items()}
    stages = Stages(ctx, params.seeds * params.steps * len(labels))
    costs: dict[str, list[float]] = {name: [] for name in labels}
    found: dict[str, list[list[float]]] = {name: [] for name in labels}
    for seed in range(params.seeds):
        for name in labels:
            learner = make(name, params, corpus, seed)
            plan = Plan(params.steps, lr=params.lr, seed=seed)
            train(learner, plan, on_step=stages.begin(params.steps, f"{name}, seed {seed}"))
            cost, bits = learner.judge()
            costs[name].append(cost)
            found[name].append(bits)
    variants = [Variant(name=n, label=label, ours=n == "ours") for n, label in labels.items()]
    reference = f"dense_{params.dense[-1]}"
    pareto = ctx.series(
        "scratch",
        "From nothing: quality against cost",
        x=Axis(label="operations a byte, decoding", unit="operations"),
        y=Axis(label="held-out text", unit="bits a byte"),
        direction="lower",
        variants=variants,
        baseline=reference,
        caption="Every model saw the same bytes. Left of and below the dense models is better.",
    )
    controls = ctx.series(
        "controls",
        "What the codes carry",
        x=Axis(label="codes", scale="category"),
        y=Axis(label="held-out text", unit="bits a byte"),
        direction="lower",
        variants=[variant for variant in variants if variant.name in CONCEPTS],
    )
    dense = [bits[0] for bits in found[reference]]
    for name in labels:
        cost = sum(costs[name]) / len(costs[name])
        bits = [each[0] for each in found[name]]
        against = None if name == reference else dense
        pareto.add(over_seeds(name, cost, bits, direction="lower", baseline=against))
        for i, given in enumerate(GIVEN if name in CONCEPTS else ()):
            controls.add(over_seeds(name, given, [each[i] for each in found[name]]))
