"""The description of grouped-head sparse attention and its benchmarks' parameters. No torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..spec import Params, TimedParams, parameter, read_method

Length = Annotated[int, Field(ge=64, le=262_144)]
Lengths = Annotated[tuple[Length, ...], Field(min_length=1, max_length=12)]


class _Heads(Params):
    local_heads: int = parameter(8, "Heads that attend to a sliding window.", ge=1, le=64)
    global_heads: int = parameter(4, "Heads that attend to every tenth token.", ge=1, le=64)
    d_head: int = parameter(64, "Size of a head.", ge=16, le=128, multiple_of=16)
    lengths: Lengths = parameter((1024, 2048, 4096, 8192, 16384), "Lengths.", unit="tokens")


class LatencyParams(_Heads, TimedParams):
    """Parameters of `latency`."""

    batch: int = parameter(1, "Samples a call.", ge=1, le=64)
    dtype: Literal["float32", "bfloat16", "float16"] = parameter("float32", "Type of the inputs.")
    backward_up_to: int = parameter(
        8192, "The longest length measured with the backward pass.", unit="tokens", ge=0, le=262_144
    )
    peers_up_to: int = parameter(
        4096, "The longest length for peers with n x n masks.", unit="tokens", ge=0, le=32_768
    )
    flex: bool = parameter(True, "Compile and measure FlexAttention, too.")
    linear_peers_up_to: int = parameter(
        16_384, "The longest length for the other peers.", unit="tokens", ge=0, le=262_144
    )
    samples: int = parameter(1, "Samples a block.", ge=1, le=20)


class MemoryParams(_Heads):
    """Parameters of `memory`."""

    peers_up_to: int = parameter(
        2048, "The longest length for peers with n x n masks.", unit="tokens", ge=0, le=16_384
    )


class ModelParams(TimedParams):
    """Parameters of `model`."""

    lengths: Lengths = parameter((1024, 4096), "Lengths.", unit="tokens")
    n_layer: int = parameter(2, "Layers.", ge=1, le=48)
    n_head: int = parameter(12, "Heads; two thirds become local.", ge=3, le=48, multiple_of=3)
    n_embd: int = parameter(768, "Width.", ge=48, le=4096, multiple_of=48)
    vocab_size: int = parameter(50304, "Tokens in the vocabulary.", ge=64, le=131_072)
    batch: int = parameter(1, "Samples a step.", ge=1, le=64)
    threads: int = parameter(
        0, "Threads on the CPU, 0 for all cores; one is timed by processor time.", ge=0, le=256
    )

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd {self.n_embd} does not divide into {self.n_head} heads")
        return self


class LanguageModelParams(Params):
    """Parameters of `language_model`."""

    context: int = parameter(512, "Bytes a sample.", unit="bytes", ge=64, le=4096)
    window: int = parameter(64, "Window of the local heads.", unit="bytes", ge=8, le=2048)
    n_layer: int = parameter(3, "Layers.", ge=1, le=12)
    n_embd: int = parameter(96, "Width; 6 heads.", ge=48, le=768, multiple_of=48)
    steps: int = parameter(300, "Steps of training.", ge=10, le=20_000)
    batch: int = parameter(8, "Samples a step.", ge=1, le=128)
    seeds: int = parameter(3, "Independent trainings of each variant.", ge=3, le=20)


class RecallParams(Params):
    """Parameters of `recall`."""

    context: int = parameter(128, "Tokens a sample.", unit="tokens", ge=64, le=2048)
    window: int = parameter(16, "Window of the local heads.", unit="tokens", ge=8, le=1024)
    steps: int = parameter(1200, "Steps of training.", ge=10, le=20_000)
    batch: int = parameter(32, "Samples a step.", ge=1, le=512)
    seeds: int = parameter(3, "Independent trainings of each variant.", ge=3, le=20)
    gate: float = parameter(0.95, "What the dense model must recall at least.", ge=0, le=1)


METHOD = read_method(__name__)
