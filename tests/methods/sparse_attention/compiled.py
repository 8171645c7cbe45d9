"""Compiles our Triton kernels for a GPU that need not be there, and prints what each takes.

    python -m tests.methods.sparse_attention.compiled

A process of its own: where Triton's interpreter is on, nothing is compiled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from methods.sparse_attention import triton_kernels
from methods.sparse_attention.config import LocalGroup
from methods.sparse_attention.pattern import Scoring, of_groups

TYPES = {"LSE": "*fp32", "DELTA": "*fp32", "SINKS": "*fp32", "scale": "fp32", "cap": "fp32"}
TYPES |= dict.fromkeys(("RANGES", "GROUPS", "BLOCKS", "ORIGINS"), "*i32")
COUNTS = ("n", "n_k", "heads", "choosing", "choosers", "runs", "most")
STEPS = ("ranges_step", "blocks_step", "out_step", "lse_step")
TYPES |= dict.fromkeys((*STEPS, *COUNTS), "i32")
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def main() -> None:
    """Windows and lists of blocks, in bfloat16; the forward pass in float32, too."""
    for listed in (False, True):
        for name in ("_forward", "_backward"):
            show(name, torch.bfloat16, 90, listed=listed)
    show("_forward", torch.float32, 80, listed=False)


def show(name: str, dtype: torch.dtype, capability: int, *, listed: bool) -> None:
    made = compiled(name, dtype, capability, listed=listed)
    line = {"kernel": name, "dtype": str(dtype), "listed": listed, **resources(made.asm["cubin"])}
    line["tensor_cores"] = "mma" in made.asm["ptx"]
    sys.stdout.write(json.dumps(line) + "\n")


def compiled(name: str, dtype: torch.dtype, capability: int, *, listed: bool) -> Any:
    """A kernel as a launch compiles it: tensors and strides are multiples of 16."""
    kernel, item = getattr(triton_kernels, name), {torch.bfloat16: "bf16"}.get(dtype, "fp32")
    q = torch.empty(1, 2, 256, 64, dtype=dtype)
    read = of_groups((LocalGroup(0, 2, 128),), 256, "cpu")
    if listed:
        read = read._replace(blocks=torch.zeros(1, 2, 4, 3, dtype=torch.int32), query_block=64)
        read = read._replace(key_block=64)
    _launch = triton_kernels._launch
    sizes = _launch(q, q, read, Scoring(0.125), backward=name == "_backward")[2] | {"SUNK": False}
    options = {"num_warps": sizes.pop("num_warps")}
    sizes = {size: sizes[size] for size in kernel.arg_names if size in sizes}
    strided = dict.fromkeys(("Q", "K", "V", "OUT", "GRAD", "DQ"), (f"*{item}", "i64", "i64", "i64"))
    strided |= dict.fromkeys(("DK", "DV"), ("*fp32", "i64", "i64", "i64"))
    signature: dict[str, Any] = {
        given: "constexpr" if given in sizes else (TYPES | strided)[given]
        for given in kernel.arg_names
    }
    aligned = [["tt.divisibility", 16]]
    attributes = {}
    for place, type_ in enumerate(signature.values()):
        if isinstance(type_, tuple):
            attributes |= {(place, part): aligned for part in range(len(type_))}
        elif type_.startswith("*"):
            attributes[(place,)] = aligned
    source = ASTSource(kernel, signature, sizes, attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(cubin: bytes) -> dict[str, int]:
    """Registers of a thread, and bytes that it spills to memory."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        asked = [str(CUOBJDUMP), "-res-usage", file.name]
        said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found
    return {"registers": int(found[1]), "spilled": int(found[2])}


if __name__ == "__main__":
    main()
