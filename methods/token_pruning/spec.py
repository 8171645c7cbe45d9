"""What vision-token pruning says of itself. Free of torch."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from methods.spec import (
    Benchmark,
    Check,
    Claim,
    Command,
    Family,
    Method,
    Paper,
    Params,
    TimedParams,
    parameter,
)
from methods.token_pruning import accounting

MODEL_HELP = "Folder or hub id of a LLaVA; empty makes one here."
Budgets = Annotated[
    tuple[Annotated[int, Field(ge=2, le=16)], ...], Field(min_length=1, max_length=8)
]


class _Learning(Params):
    base_steps: int = parameter(350, "Steps of the unpruned model.", ge=1, le=100_000)
    steps: int = parameter(120, "Steps of each pruner.", ge=1, le=100_000)
    seeds: int = parameter(3, "Models, each trained and pruned.", ge=1, le=10)
    looks: bool = parameter(True, "Whether the unpruned model is told where to look.")
    judged: int = parameter(512, "Held-out questions.", ge=16, le=65_536)
    folder: str = parameter(
        "", "Folder of checkpoints to resume from; empty: none.", local=True, max_length=300
    )
    model: str = parameter("", MODEL_HELP, model=True, max_length=300)


class TradeoffParams(_Learning):
    """Parameters of `tradeoff`."""

    budgets: Budgets = parameter(
        (2, 4, 8, 12, 16), "Visual tokens a layer, on average.", unit="tokens"
    )
    draws: int = parameter(3, "Draws of random selection a model.", ge=1, le=50)


class TrainingParams(_Learning):
    """Parameters of `training`."""

    watch: int = parameter(20, "Steps averaged to a point of a curve.", ge=1, le=10_000)


class LatencyParams(TimedParams):
    """Parameters of `latency`."""

    size: Literal["tiny", "scaled", "7b"] = parameter("scaled", "Sizes of the model.")
    text: int = parameter(100, "Words beside the image.", unit="tokens", ge=2, le=2048)
    batches: Annotated[
        tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=4)
    ] = parameter((1, 8), "Rows read together.", unit="rows")
    decoded: int = parameter(8, "Tokens decoded to time one.", unit="tokens", ge=1, le=256)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "Type of the weights.")
    model: str = parameter("", MODEL_HELP, model=True, max_length=300)


def _check(name: str, title: str, bound: str, entry: str = "checks") -> Check:
    return Check(name=name, title=title, bound=bound, entry=f"{entry}:{name}")


Source = Annotated[str, Field(min_length=1, max_length=300)]


class _Real(Params):
    model: Source = parameter(..., "Folder or hub id of a LLaVA with its processor.", local=True)
    data: Source = parameter(..., "Folder of the data.", local=True)
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = parameter(
        "auto", "Type of the model's weights; auto is the checkpoint's own."
    )
    rows: int = parameter(4, "Questions read together.", ge=1, le=256)
    skip: bool = parameter(False, "Leave out records that cannot be used.")


class TrainParams(_Real):
    """Parameters of `train`: conversations in LLaVA's format."""

    out: Source = parameter(..., "Folder for training.pt, to resume from, and pruner.pt.",
                            local=True)  # fmt: skip
    config: str = parameter("", "YAML of a configuration; empty: the source's, taught by "
                            "attention.", max_length=300, local=True)  # fmt: skip
    steps: int = parameter(1000, "Steps.", ge=1, le=1_000_000)
    every: int = parameter(50, "Steps between checkpoints.", ge=1, le=100_000)
    seed: int = parameter(0, "Of weights and batches.", ge=0, le=2**31)


class EvaluateParams(_Real):
    """Parameters of `evaluate`: questions in the format of VQA v2."""

    pruner: Source = parameter(..., "The pruner.pt that `train` wrote.", local=True)
    new: int = parameter(10, "Tokens of an answer at most.", unit="tokens", ge=1, le=1024)


LITERATURE = tomllib.loads((Path(__file__).parent / "literature.toml").read_text("utf-8"))

METHOD = Method(
    slug="token_pruning",
    title="Vision-token pruning",
    description=(
        "A LLaVA reads fewer visual tokens: a learnt merger halves them before the language model, "
        "heads that know the question drop more inside it. Trained against a discriminator that "
        "tells pruned from unpruned hidden states, on a frozen model."
    ),
    papers=tuple(Paper(**paper) for paper in LITERATURE["papers"]),
    aliases=tuple(LITERATURE["aliases"]),
    family=Family(**LITERATURE["family"]),
    claims=(
        Claim(
            id="tokens",
            text="Visual tokens fall by 60 to 70 %.",
            metric="tokens saved",
            value=60,
            upper=70,
            unit="%",
            setting="LLaVA-1.5-7B, 576 visual and 100 text tokens",
            counted=accounting.tokens_saved,
            finding="Only the count of the last layer falls by so much.",
        ),
        Claim(
            id="flops",
            text="Operations fall by 60 to 70 %.",
            metric="operations saved",
            value=60,
            upper=70,
            unit="%",
            setting="prefill of LLaVA-1.5-7B, 576 visual and 100 text tokens",
            counted=accounting.operations_saved,
            finding="The layers before the first head read half of the image's tokens.",
        ),
        *(Claim(**claim) for claim in LITERATURE["claims"]),
    ),
    checks=(
        _check("parameters", "Parts have the source's sizes at 7B", "exact"),
        _check("aggregation", "What a merged token is made of sums to 1", "1e-6"),
        _check("gradients", "Every part learns, only on its own step", "over 1e-6; exactly 0"),
        _check("hard_forward", "Straight-through forward is hard", "exact"),
        _check(
            "log_gate", "log m on the keys at m -> 0 is dropping", "1e-4; scaling: over .1 away"
        ),
        _check("identity", "Keeping all is transformers' model", "1e-5"),
        _check("token_counts", "Layers read what the schedule says", "exact"),
        _check("positions", "Kept in order, at original positions", "exact; gapped 1e-5"),
        _check("caching", "Cached decoding; rows of a padded batch", "1e-5"),
        _check("counted", "Operations and bytes by formula are those counted", "exact"),
        _check("temperature", "tau 1 -> .1 at T / 2, then constant", "1e-12"),
        _check(
            "ordering",
            "random <= learnt <= oracle at every budget",
            "in that order",
            "checks_learning",
        ),
    ),
    commands=(
        Command(name="train", params=TrainParams, entry="practice:train"),
        Command(name="evaluate", params=EvaluateParams, entry="practice:evaluate"),
    ),
    example="example:main",
    benchmarks=(
        Benchmark(
            slug="tradeoff",
            title="Accuracy against tokens",
            description="Drawn scenes with twelve objects, questions of one and two hops: accuracy "
            "of every selection at equal average tokens, with chance at the same layer and an "
            "oracle as bounds.",
            params=TradeoffParams,
            presets={
                "smoke": TradeoffParams(
                    base_steps=15, steps=4, seeds=1, judged=16, budgets=(4,), draws=1
                ),
                "standard": TradeoffParams(seeds=5, steps=200, judged=256),
                "full": TradeoffParams(base_steps=1000, steps=2000, seeds=5, judged=4096),
            },
            version=2,
            entry="bench:tradeoff",
        ),
        Benchmark(
            slug="latency",
            title="Time to the first token",
            description="Time to first token, prefill, decoding, memory and cache of the source's "
            "schedule against the same model unpruned, with the bound that operations set.",
            params=LatencyParams,
            presets={
                "smoke": LatencyParams(
                    processes=3,
                    seconds=0,
                    size="tiny",
                    text=8,
                    batches=(1,),
                    decoded=2,
                    max_warm_up_s=0,
                ),
                "standard": LatencyParams(),
                "full": LatencyParams(size="7b", dtype="bfloat16", blocks=10),
            },
            entry="bench_latency:latency",
            memory="bench_latency:latency_bytes",
        ),
        Benchmark(
            slug="training",
            title="Adversarial, feature matching, neither",
            description="Curves and final accuracy of the three losses on the same batches, and of "
            "each stage alone and the source's faithful forms.",
            params=TrainingParams,
            presets={
                "smoke": TrainingParams(base_steps=10, steps=3, seeds=1, judged=16, watch=1),
                "standard": TrainingParams(steps=80, judged=2048),
                "full": TrainingParams(base_steps=1000, steps=4000, seeds=5, judged=4096),
            },
            version=2,
            entry="bench:training",
        ),
    ),
)
