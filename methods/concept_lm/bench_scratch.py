"""From nothing, on bytes: does a model with concepts beat a dense one of as many operations?"""

import math
from collections.abc import Callable
from typing import Any

import torch

from methods.concept_lm import checks
from methods.concept_lm.base import load_base, tiny_config
from methods.concept_lm.baselines import Judgement, front, judge
from methods.concept_lm.config import ConceptConfig
from methods.concept_lm.model import ConceptLM
from methods.concept_lm.spec import ScratchParams
from methods.concept_lm.train import OnText, train
from methods.context import Context
from methods.kit.corpus import Corpus, folder, stdlib
from methods.kit.report import Charts, Stages
from methods.kit.training import Plan
from methods.protocol import Variant

CONCEPTS: dict[str, dict[str, Any]] = {  # what each changes in v2 as the notes have it
    "notes": {},
    "hnet": {"boundary": "hnet"},
    "ours": {"boundary": "words", "codes": "fsq", "residual": True},
}
GIVEN: dict[str, Callable[[Judgement], float]] = {  # nats a byte lost
    "as trained": lambda judged: 0.0,
    "codes shuffled": lambda judged: judged.shuffled,
    "codes removed": lambda judged: judged.removed,
}


def make(name: str, params: ScratchParams, corpus: Corpus, seed: int) -> OnText:
    """An untrained model: `dense_N` of N layers, or one of `CONCEPTS`."""
    split = params.shallow, params.middle, params.deep
    layers = sum(split) if name in CONCEPTS else int(name.removeprefix("dense_"))
    base = load_base(tiny_config(d=params.d, layers=layers, d_ff=2 * params.d), seed=seed)
    model: Any = base
    if name in CONCEPTS:
        values = {"rho": params.rho, "n_concepts": params.n_concepts} | CONCEPTS[name]
        model = ConceptLM(base, ConceptConfig(*split, **values), seed=seed)
        model.fold()  # adapters are for a base that is frozen
    model.requires_grad_(True)
    return OnText(model, corpus, params.rows, params.length, seed)


def scratch(ctx: Context, params: ScratchParams) -> None:
    """Train every model on the same bytes, judge each on held-out text."""
    torch.set_num_threads(1)
    ctx.check_all("dropped_layers", checks.dropped_layers(ctx.device))
    corpus = folder(params.data) if params.data else stdlib()
    ctx.log(f"text {corpus.digest}: {len(corpus.train)} bytes to train on")
    charts = Charts.of(ctx, __file__)
    variants = [Variant(name=f"dense_{n}", label=f"{n} dense layers") for n in params.dense]
    variants += charts.variants("scratch")
    found: dict[str, list[Judgement]] = {variant.name: [] for variant in variants}
    stages = Stages(ctx, params.seeds * params.steps * len(found))
    for seed in range(params.seeds):
        for name, judged in found.items():
            learner = make(name, params, corpus, seed)
            plan = Plan(params.steps, params.lr, seed=seed)
            train(learner, plan, on_step=stages.begin(params.steps, f"{name}, seed {seed}"))
            learner.settle()
            judged.append(judge(learner, params.judged))
    baseline = f"dense_{params.dense[-1]}"
    charts.seeds("scratch", front(found), variants=variants, baseline=baseline)
    bits = {
        (name, given): [judged.bits + lost(judged) / math.log(2) for judged in found[name]]
        for name in CONCEPTS
        for given, lost in GIVEN.items()
    }
    charts.seeds("controls", bits)
