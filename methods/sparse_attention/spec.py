"""The description of grouped-head sparse attention and its benchmarks' parameters. No torch."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..spec import Params, TimedParams, parameter, read_method

Length = Annotated[int, Field(ge=64, le=262_144)]
Lengths = Annotated[tuple[Length, ...], Field(min_length=1, max_length=12)]
ONLY_HELP = "Variants measured beside dense attention and the control; empty is all."

TimedVariant = Literal[
    "adaptive", "triton", "fixed", "windows", "naive", "sdpa_mask", "flex", "local_attention",
    "longformer", "big_bird",
]  # fmt: skip
DecodeSelector = Literal["window_sinks", "strided", "mean_pooled", "page_bounds", "top_p", "exact"]
PrefillSelector = Literal[
    "window_sinks", "strided", "mean_pooled", "antidiagonal", "vertical_slash", "local_3d",
    "radial", "block_top_k",
]  # fmt: skip


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
    only: tuple[TimedVariant, ...] = parameter((), ONLY_HELP, max_length=12)


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


class _Chosen(TimedParams):
    heads: int = parameter(12, "Query heads.", ge=1, le=128)
    kv_heads: int = parameter(12, "Key-value heads, which divide the query heads.", ge=1, le=128)
    d_head: int = parameter(64, "Size of a head.", ge=16, le=128, multiple_of=16)
    batch: int = parameter(1, "Samples a call.", ge=1, le=64)
    dtype: Literal["float32", "bfloat16", "float16"] = parameter("float32", "Type of the inputs.")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads")
        return self


CacheLengths = Annotated[tuple[Annotated[int, Field(ge=256, le=524_288)], ...], Field(min_length=1)]


class DecodeParams(_Chosen):
    """Parameters of `decode`."""

    lengths: CacheLengths = parameter((4096, 16384, 65536), "Keys in the cache.", unit="tokens")
    budget: int = parameter(1024, "Keys that a token reads.", unit="tokens", ge=192, le=65_536)
    only: tuple[DecodeSelector, ...] = parameter((), ONLY_HELP, max_length=12)


class PrefillParams(_Chosen):
    """Parameters of `prefill`."""

    lengths: CacheLengths = parameter((2048, 8192), "Prompts.", unit="tokens")
    frames: tuple[Annotated[int, Field(ge=12, le=1024, multiple_of=4)], ...] = parameter(
        (16, 32), "Frames of 16 x 16 tokens."
    )
    budget: int = parameter(1024, "Keys that a query reads.", unit="tokens", ge=192, le=65_536)
    share: float = parameter(0.9, "Share of attention that antidiagonal scores keep.", gt=0, le=1)
    only: tuple[PrefillSelector, ...] = parameter((), ONLY_HELP, max_length=12)


METHOD = read_method(__name__)
