"""The description of patch slimming and its benchmarks' parameters. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from ..params import Place, Source
from ..spec import Params, TimedParams, parameter, read_method

Counts = Annotated[tuple[Annotated[int, Field(ge=2, le=1024)], ...], Field(min_length=1)]
Shares = Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]


Candidate = Literal[
    "whole", "random", "laps", "open_source", "paper", "seps_learnt", "seps_sparse", "seps_image",
    "seps",
]  # fmt: skip


class RetrievalParams(Params):
    """Parameters of `retrieval`."""

    only: tuple[Candidate, ...] = parameter(
        (), "Models beside no slimming, random patches and LAPS; none: all of them.", max_length=9
    )
    encoder: Literal["taught", "exact"] = parameter(
        "taught", "Image encoder: taught here before, or exact, the labels of patches with noise."
    )
    steps: int = parameter(600, "Steps of each candidate.", ge=1, le=1_000_000)
    hardest_after: float = parameter(
        0.25,
        "Share of the steps in which all negatives count alike; then the hardest count ever more.",
        ge=0,
        le=1,
    )
    teach_steps: int = parameter(
        750, "Steps in which the image encoder learns the labels of patches.", ge=0, le=1_000_000
    )
    batch: int = parameter(24, "Pairs a batch.", ge=2, le=512)
    dim: int = parameter(64, "Width of patches and words.", ge=16, le=1024, multiple_of=4)
    keep: float = parameter(0.5, "Share of the patches that stay.", gt=0, le=1)
    aggregate: float = parameter(0.4, "Aggregated tokens for each that stays.", gt=0, le=1)
    rate: float = parameter(1e-3, "Highest learning rate.", gt=0, le=1)
    judged: int = parameter(256, "Held-out pairs that are searched.", ge=16, le=5000)
    seeds: int = parameter(3, "Trainings of each candidate.", ge=1, le=10)
    folder: Place = parameter("", "Folder of checkpoints to resume from; empty: none.", local=True)
    threads: int = parameter(0, "Threads on the CPU; 0 takes all cores.", ge=0, le=256)


class _Real(Params):
    data: Source = parameter(..., "The source's data folder: f30k, coco and images.", local=True)
    dataset: Literal["f30k", "coco"] = parameter("f30k", "Flickr30K or COCO.")
    vision: Source = parameter(..., "Folder or hub id of a ViT or Swin.", local=True)
    text: Source = parameter(..., "Folder or hub id of a BERT with its tokenizer.", local=True)
    skip: bool = parameter(False, "Leave out images that cannot be used.")


class TrainParams(_Real):
    """Parameters of `train`: Flickr30K or COCO; the defaults are the source's for ViT."""

    out: Source = parameter(..., "Folder for training.pt, to resume from, and best.pt.", local=True)
    candidate: Candidate = parameter("seps_learnt", "Model, named as in `retrieval`.")
    dim: int = parameter(512, "Width that patches and words share.", ge=8, le=4096)
    keep: float = parameter(0.5, "Share of the patches that stay; .8 for Swin.", gt=0, le=1)
    aggregate: float = parameter(0.4, "Aggregated tokens for each; .6 for Swin.", gt=0, le=1)
    words: int = parameter(90, "Tokens of a text at most.", unit="tokens", ge=3, le=512)
    steps: int = parameter(68_000, "Steps; these are 30 epochs of Flickr30K.", ge=1, le=10_000_000)
    batch: int = parameter(64, "Pairs a batch.", ge=2, le=4096)
    rate: float = parameter(2e-5, "Of the encoders; what is new learns ten times faster.", gt=0)
    hardest_after: float = parameter(0.03, "Share of steps before hardest negatives.", ge=0, le=1)
    held_out: int = parameter(1000, "Images of train to validate by, without a dev split.", ge=1)
    judge_every: int = parameter(2000, "Steps between validations.", ge=1)
    every: int = parameter(500, "Steps between checkpoints.", ge=1)
    seed: int = parameter(0, "Of weights, order and augmentation.", ge=0, le=2**31)


class EvaluateParams(_Real):
    """Parameters of `evaluate`."""

    matcher: Source = parameter(..., "The best.pt that `train` wrote.", local=True)
    split: Literal["", "test", "testall", "dev"] = parameter(
        "", "Empty: the data set's test split."
    )


class CostParams(TimedParams):
    """Parameters of `cost`."""

    dim: int = parameter(512, "Width of patches and words.", ge=16, le=2048, multiple_of=4)
    patches: int = parameter(196, "Patches of an image; ViT-224 has 196.", ge=16, le=4096)
    batches: Counts = parameter((32, 64), "Images, and as many captions.", max_length=6)
    words: Counts = parameter((32, 64), "Words of a caption.", unit="words", max_length=6)
    keeps: Shares = parameter((0.2, 0.5, 0.8), "Shares of patches that stay.", max_length=6)


METHOD = read_method(__name__)
