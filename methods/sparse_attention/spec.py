"""What grouped-head sparse attention says of itself. Free of torch."""

from __future__ import annotations

from functools import partial

from methods.sparse_attention import counts
from methods.sparse_attention.params import (
    LanguageModelParams,
    LatencyParams,
    MemoryParams,
    ModelParams,
    RecallParams,
)
from methods.spec import read_method

METHOD = read_method(
    __file__,
    params={
        "latency": LatencyParams,
        "memory": MemoryParams,
        "model": ModelParams,
        "language_model": LanguageModelParams,
        "recall": RecallParams,
    },
    counted={
        "complexity": counts.complexity,
        "memory": counts.memory,
        "sparsity": counts.sparsity,
        **{f"operations_{n}": partial(counts.operations, n) for n in (512, 1024, 2048, 4096)},
    },
)
