"""The parameters of concept language models. Imports no torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..params import Place, Source
from ..spec import Params, TimedParams, parameter, read_method

Contexts = Annotated[
    tuple[Annotated[int, Field(ge=16, le=32_768)], ...], Field(min_length=1, max_length=8)
]
Inverses = Annotated[
    tuple[Annotated[int, Field(ge=2, le=64)], ...], Field(min_length=1, max_length=6)
]


class _Split(Params):
    shallow: int = parameter(2, "Layers that see every token.", ge=1, le=64)
    middle: int = parameter(8, "Layers that see concepts only.", ge=0, le=64)
    deep: int = parameter(2, "Layers that see concepts and the tail.", ge=1, le=64)

    @property
    def split(self) -> tuple[int, int, int]:
        """The split of the base's layers."""
        return self.shallow, self.middle, self.deep


class DecodeParams(_Split, TimedParams):
    """Parameters of `decode`."""

    d: int = parameter(512, "Width of the model.", ge=64, le=8192, multiple_of=64)
    contexts: Contexts = parameter(
        (512, 2048, 4096), "Tokens before the measured ones.", unit="tokens"
    )
    tokens_per_concept: Inverses = parameter(
        (2, 4, 8), "1 / rho: tokens for each concept.", unit="tokens"
    )
    batch: int = parameter(1, "Rows decoded together.", ge=1, le=64)
    vocab: int = parameter(256, "Tokens in the vocabulary.", ge=2, le=262_144)
    n_concepts: int = parameter(256, "Concepts in the vocabulary.", ge=1, le=65_536)
    dtype: Literal["float32", "bfloat16"] = parameter("float32", "Type of the weights.")
    oracle: int = parameter(256, "Length at which the loop is timed; 0 skips it.", ge=0, le=2048)
    rows: int = parameter(
        8, "Rows timed in step and one token apart, at the first context; 0 skips.", ge=0, le=64
    )
    row_tokens: int = parameter(
        64, "Tokens of each of these rows: getting into step takes a few.", ge=16, le=1024
    )
    longest_prompt: int = parameter(
        2048, "Longest prompt whose reading is timed.", unit="tokens", ge=0, le=32_768
    )
    v3: bool = parameter(True, "Whether v3 is timed beside v2.")
    model: Place = parameter(
        "", "Folder, GGUF file or hub id of real weights; empty is random.", model=True
    )


class CompressionParams(_Split):
    """Parameters of `compression`."""

    middle: int = parameter(4, "Layers that see concepts only.", ge=0, le=64)
    d: int = parameter(64, "Width of the models.", ge=32, le=2048, multiple_of=32)
    rows: int = parameter(8, "Windows a batch.", ge=1, le=1024)
    length: int = parameter(128, "Bytes a window.", unit="bytes", ge=16, le=8192)
    seeds: int = parameter(3, "Trainings of each model.", ge=1, le=10)
    pretrain_steps: int = parameter(600, "Steps of the base on plain text.", ge=1, le=1_000_000)
    steps: int = parameter(200, "Steps of each candidate from that base.", ge=1, le=1_000_000)
    lr: float = parameter(3e-3, "Highest learning rate of each candidate.", gt=0, le=1)
    model: Place = parameter(
        "", "Real base with its tokenizer, in the place of pretraining; the split fits it.",
        model=True,
    )  # fmt: skip
    judged: int = parameter(64, "Held-out windows.", ge=1, le=4096)
    rho: float = parameter(0.25, "Share of positions that become concepts.", gt=0, lt=1)
    n_concepts: int = parameter(256, "Concepts in the vocabulary.", ge=1, le=65_536)


class _Plans(Params):
    """The plans of v3, and the training of its planner."""

    types: int = parameter(2, "v3: types of concepts in a plan.", ge=1, le=8)
    slots: int = parameter(4, "v3: concepts of each type at most.", ge=1, le=64)
    sequence: bool = parameter(False, "v3: types one after another, each knowing those before.")
    mtp: int = parameter(0, "v3: heads that foretell concepts further ahead.", ge=0, le=8)
    beams: int = parameter(0, "v3: candidates from a diverse beam search.", ge=0, le=64)
    through: Literal["text", "prompt"] = parameter("prompt", "v3: what plans are made of.")
    grow: float = parameter(0.0, "v3: share of the warm-up in which texts lengthen.", ge=0, le=1)


class PlannerParams(_Plans):
    """Parameters of `planner` and `dropout`."""

    slots: int = parameter(1, "Concepts of each type at most.", ge=1, le=4)
    through: Literal["text", "prompt"] = parameter("text", "What plans are made of.")
    warm_up: int = parameter(1200, "Steps of the autoencoder warm-up.", ge=0, le=100_000)
    steps: int = parameter(150, "Steps of Hard-EM.", ge=1, le=100_000)
    cool: float = parameter(0.2, "Temperature at which the warm-up ends.", gt=0, le=1)
    naive_steps: int = parameter(100, "Steps of Hard-EM without help; 0 skips.", ge=0, le=100_000)
    seeds: int = parameter(3, "Trainings.", ge=1, le=10)
    bits: Literal[2, 4, 6] = parameter(6, "Bits of a code.", unit="bits")
    watch: int = parameter(250, "Steps between two looks at the monitors.", ge=1, le=10_000)

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if self.watch > self.warm_up + self.steps:
            raise ValueError("watch is longer than the whole training")
        return self


class _Real(Params):
    model: Source = parameter(
        ..., "Folder, GGUF file or hub id of a Qwen or Llama with its tokenizer.", local=True
    )
    out: Source = parameter(..., "Folder of training.pt, to resume, and concepts.pt.", local=True)
    dtype: Literal["auto", "float32", "bfloat16"] = parameter(
        "auto", "Type of the base's weights; auto is the checkpoint's own."
    )
    seed: int = parameter(0, "Of weights, batches and draws.", ge=0, le=2**31)


class TrainParams(_Plans, _Real):
    """Parameters of `train`: any text."""

    data: Source = parameter(..., "Folder of text files; a tenth is held out.", local=True)
    version: Literal["v1", "v2", "v3"] = parameter(
        "v2",
        "v1 tunes alone; v2 compresses while it decodes; v3 plans half a window from the rest.",
    )
    steps: int = parameter(1000, "Steps.", ge=1, le=1_000_000)
    every: int = parameter(50, "Steps between checkpoints.", ge=1, le=100_000)
    rows: int = parameter(4, "Windows a batch.", ge=1, le=1024)
    length: int = parameter(512, "Tokens a window.", unit="tokens", ge=8, le=32_768)
    judged: int = parameter(32, "Held-out windows.", ge=1, le=4096)
    lr: float = parameter(3e-4, "Highest learning rate.", gt=0, le=1)
    edge: int = parameter(0, "Layers before and after the middle; 0: a seventh of all.", ge=0)
    rho: float = parameter(0.25, "Share of positions that become concepts.", gt=0, lt=1)
    n_concepts: int = parameter(4096, "Concepts, of each type in v3.", ge=1, le=65_536)
    boundary: Literal["null", "autoregressive", "accumulate", "fixed", "multi_token", "hnet"] = (
        parameter("null", "v2: rule of where concepts stand.")
    )
    readout: Literal["seed", "token"] = parameter("token", "v2: what asks for the next token.")
    positions: Literal["absolute", "compact"] = parameter("absolute", "v2: deep positions.")
    shallow_window: int = parameter(64, "v2: tokens shallow layers look back; 0: all.", ge=0)
    run_cap: int = parameter(16, "v2: NULLs in a row at most; 0: any number.", ge=0)
    usage_bonus: float = parameter(0.1, "v2: weight of using many codes surely.", ge=0)
    dropped: bool = parameter(
        True, "v2: train the base with layers dropped at equal cost, too: twice the time."
    )
    choose_every: int = parameter(3, "v3: M, a plan is chosen anew each M-th time.", ge=1)


class GenerateParams(_Real):
    """Parameters of `generate`, with what `train` wrote."""

    prompt: str = parameter(..., "Text to go on from.", min_length=1, max_length=100_000)
    new: int = parameter(64, "Tokens to write.", unit="tokens", ge=1, le=32_768)
    temperature: float = parameter(0.0, "0 takes the likeliest token.", ge=0, le=10)


METHOD = read_method(__name__)
