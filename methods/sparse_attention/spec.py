"""What grouped-head sparse attention says of itself. Free of torch."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import TypeAdapter

from methods.sparse_attention import counts
from methods.sparse_attention.params import (
    LanguageModelParams,
    LatencyParams,
    MemoryParams,
    ModelParams,
    RecallParams,
)
from methods.spec import Benchmark, Check, Claim, Family, Method, Paper

LITERATURE = tomllib.loads((Path(__file__).parent / "literature.toml").read_text("utf-8"))
COUNTED = {
    "complexity": counts.complexity,
    "memory": counts.memory,
    "sparsity": counts.sparsity,
    **{f"operations_{n}": counts.operations(n) for n in (512, 1024, 2048, 4096)},
}

_CHECKS = (  # what each function of `checks` holds the method to
    (
        "oracle",
        "Output, dQ, dK, dV against the float64 definition",
        "fp32 1e-5, bf16 1e-2, fp16 2e-3, relative to the norm",
    ),
    ("gradients", "Backward pass against finite differences", "gradcheck in float64"),
    ("causality", "Changing the future changes nothing", "exactly 0"),
    ("finite", "Finite at scales 0, 1e-3, 100, 1e4, gradients too", "three dtypes"),
    ("decoding", "Cached decoding and prefixes equal the full pass", "1e-5"),
    ("padding", "Padding rows 0, batch equals single, GQA equals copied heads", "0 and 1e-5"),
    ("memory_growth", "Peak memory when n doubles", "2.3 times"),
    ("closed_forms", "Closed-form sparsity equals the counted mask", "exact"),
    ("two_layer_reach", "Two layers reach all causal pairs when w >= s", "all pairs"),
)

METHOD = Method(
    slug="sparse_attention",
    title="Grouped-head sparse attention",
    description="Causal attention in which two thirds of the heads see a sliding window and one "
    "third sees uniformly spaced anchor tokens. The window grows with the square root of the "
    "configured context. We measure it against dense attention and published sparse attention, "
    "on CPU and GPU, and answer each of the source's claims.",
    papers=tuple(Paper(**paper) for paper in LITERATURE["papers"]),
    aliases=tuple(LITERATURE["aliases"]),
    family=Family(**LITERATURE["family"]),
    claims=TypeAdapter(tuple[Claim, ...]).validate_python(
        [claim | {"counted": COUNTED.get(claim["id"])} for claim in LITERATURE["claims"]]
    ),
    checks=tuple(
        Check(name=name, title=title, bound=bound, entry=f"checks:{name}")
        for name, title, bound in _CHECKS
    ),
    example="example:main",
    benchmarks=(
        Benchmark(
            slug="latency",
            title="Latency over length",
            description="Time of attention, forward and with backward, against dense attention, "
            "masked attention and published sparse attention in one run.",
            params=LatencyParams,
            presets={
                "smoke": LatencyParams(
                    lengths=(256, 512),
                    backward_up_to=256,
                    peers_up_to=256,
                    linear_peers_up_to=0,
                    flex=False,
                    processes=3,
                    seconds=0,
                    max_warm_up_s=0.2,
                ),
                "standard": LatencyParams(),
                "full": LatencyParams(
                    lengths=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
                    batch=4,
                    dtype="bfloat16",
                    backward_up_to=32768,
                    samples=3,
                ),
            },
            entry="bench:latency",
            memory="bench:attention_memory",
        ),
        Benchmark(
            slug="memory",
            title="Memory over length",
            description="Peak memory of a training step of attention, and the key-value cache.",
            params=MemoryParams,
            presets={
                "smoke": MemoryParams(lengths=(256, 1024)),
                "standard": MemoryParams(),
                "full": MemoryParams(lengths=(1024, 4096, 16384, 65536), peers_up_to=4096),
            },
            entry="bench:memory",
            memory="bench:attention_memory",
        ),
        Benchmark(
            slug="model",
            title="A whole GPT-2 step",
            description="What is left of the gain when projections, MLP and vocabulary count.",
            params=ModelParams,
            presets={
                "smoke": ModelParams(
                    lengths=(256,),
                    n_embd=192,
                    vocab_size=512,
                    threads=1,
                    processes=3,
                    seconds=0,
                    max_warm_up_s=0.3,
                ),
                "standard": ModelParams(),
                "full": ModelParams(lengths=(1024, 4096, 16384), n_layer=12),
            },
            entry="bench:model",
            memory="bench:model_memory",
        ),
        Benchmark(
            slug="language_model",
            title="Byte language model",
            description="Bits per byte on the source of Python's standard library after equal "
            "training: dense, local heads only, and ours.",
            params=LanguageModelParams,
            presets={
                "smoke": LanguageModelParams(context=128, window=32, n_layer=1, steps=10, batch=4),
                "standard": LanguageModelParams(),
                "full": LanguageModelParams(
                    context=1024, window=128, n_layer=6, n_embd=384, steps=3000, batch=32
                ),
            },
            entry="bench_quality:language_model",
        ),
        Benchmark(
            slug="recall",
            title="Recall of needles",
            description="Values remembered by key over a distance, when the needle stands on an "
            "anchor and when it does not: dense, local heads only, ours, and pooled anchors.",
            params=RecallParams,
            presets={
                "smoke": RecallParams(context=64, window=16, steps=30, batch=16, gate=0.0),
                "standard": RecallParams(),
                "full": RecallParams(context=1024, steps=3000, batch=64, window=64),
            },
            entry="bench_quality:recall",
        ),
    ),
)
