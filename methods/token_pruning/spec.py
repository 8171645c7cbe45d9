"""The description of vision-token pruning and its benchmarks' parameters. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from ..params import Place, Source
from ..spec import Params, TimedParams, parameter, read_method

MODEL_HELP = "Folder or hub id of a LLaVA; empty makes one here."


class Drawn(Params):
    """Parameters of what is measured on drawn scenes."""

    base_steps: int = parameter(350, "Steps of the unpruned model.", ge=1, le=100_000)
    seeds: int = parameter(3, "Models, each trained and pruned.", ge=1, le=10)
    looks: bool = parameter(True, "Whether the unpruned model is supervised where to look.")
    judged: int = parameter(512, "Held-out questions.", ge=16, le=65_536)
    folder: Place = parameter("", "Folder of checkpoints to resume from; empty: none.", local=True)
    model: Place = parameter("", MODEL_HELP, model=True)


class _Learning(Drawn):
    steps: int = parameter(120, "Steps of each pruner.", ge=1, le=100_000)


class TradeoffParams(_Learning):
    """Parameters of `tradeoff`."""

    budgets: tuple[Annotated[int, Field(ge=2, le=16)], ...] = parameter(
        (2, 4, 8, 12, 16), "Mean visual tokens a layer.", unit="tokens", min_length=1, max_length=8
    )
    draws: int = parameter(3, "Draws of random selection a model.", ge=1, le=50)


Trained = Literal[
    "adversarial", "mse", "attention", "merger", "heads", "simple", "scaled", "unscored", "late",
]  # fmt: skip


class TrainingParams(_Learning):
    """Parameters of `training`."""

    only: tuple[Trained, ...] = parameter(
        (),
        "Losses and ablations beside the task alone and chance; none: all of them.",
        max_length=12,
    )
    watch: int = parameter(20, "Steps averaged to a point of a curve.", ge=1, le=10_000)


class LatencyParams(TimedParams):
    """Parameters of `latency`."""

    size: Literal["tiny", "small", "scaled", "7b"] = parameter("scaled", "Sizes of the model.")
    text: int = parameter(100, "Words beside the image.", unit="tokens", ge=2, le=2048)
    batches: tuple[Annotated[int, Field(ge=1, le=64)], ...] = parameter(
        (1, 8), "Rows read together.", unit="rows", min_length=1, max_length=4
    )
    decoded: int = parameter(8, "Tokens decoded to time one.", unit="tokens", ge=1, le=256)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "Type of the weights.")
    model: Place = parameter("", MODEL_HELP, model=True)


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
    config: Place = parameter("", "YAML of a configuration; empty: the source's, taught by "
                              "attention.", local=True)  # fmt: skip
    steps: int = parameter(1000, "Steps.", ge=1, le=1_000_000)
    every: int = parameter(50, "Steps between checkpoints.", ge=1, le=100_000)
    seed: int = parameter(0, "Of weights and batches.", ge=0, le=2**31)


Compared = Literal[
    "ours", "chance", "uniform", "tome", "fastv", "visionzip", "prumerge", "pyramiddrop",
    "sparsevlm", "divprune", "cdpruner",
]  # fmt: skip


class EvaluateParams(_Real):
    """Parameters of `evaluate`: questions in the format of VQA v2, or captions in COCO's."""

    pruner: Place = parameter("", "The pruner.pt that `train` wrote, for ours.", local=True)
    selectors: tuple[Compared, ...] = parameter(
        ("ours",), "What chooses: each is compared with the unpruned model.", min_length=1
    )
    tokens: int = parameter(
        0, "Mean visual tokens a layer of each but ours; 0: as many as ours.", ge=0, le=100_000
    )
    new: int = parameter(0, "Tokens of an answer at most; 0: 10, of a caption 64.", unit="tokens",
                         ge=0, le=1024)  # fmt: skip


METHOD = read_method(__name__)
