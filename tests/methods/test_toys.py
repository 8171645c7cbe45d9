"""The presets that are offered first, of benchmarks of toys, load no transformers.

It would cost each of their processes seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.processes import ROOT

RUN = """
import json, sys
import methods.sparse_attention.bench
from tests.methods.running import run_here
code, _ = run_here(sys.argv[1], json.loads(sys.argv[2]), "quick")
assert code == 0, code
print(json.dumps(sorted(sys.modules)))
"""
TOYS = {
    "seps.cost": {"dim": 16, "patches": 16, "batches": [2], "words": [4]},
    "sparse_attention.latency": {"lengths": [64], "d_head": 16},
}


@pytest.mark.parametrize("benchmark", TOYS)
def test_a_benchmark_of_toys_loads_no_transformers(benchmark: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, benchmark, json.dumps(TOYS[benchmark])],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "torch" in loaded
    assert "transformers" not in loaded
