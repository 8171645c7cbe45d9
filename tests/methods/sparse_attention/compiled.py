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

from methods.sparse_attention import ops_triton

KERNELS = ("_forward", "_backward_rows", "_backward_keys")
TYPES = {"LSE": "*fp32", "DELTA": "*fp32", "PATTERN": "*i32", "scale": "fp32"}
TYPES |= dict.fromkeys(("n", "heads", "sharing"), "i32")
D = 64
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def main() -> None:
    wanted = [(name, torch.bfloat16, "bf16", 90) for name in KERNELS]
    for name, dtype, item, capability in [*wanted, (KERNELS[0], torch.float32, "fp32", 80)]:
        made = compiled(name, dtype, item, capability)
        line = {"kernel": name, "dtype": item, **resources(made.asm["cubin"])}
        line["tensor_cores"] = "mma" in made.asm["ptx"]
        sys.stdout.write(json.dumps(line) + "\n")


def compiled(name: str, dtype: torch.dtype, item: str, capability: int) -> Any:
    """A kernel as a launch compiles it: tensors and strides are multiples of 16."""
    kernel = getattr(ops_triton, name)
    options = ops_triton.tile(dtype, by_key=name == "_backward_keys")
    sizes = {"D": D, "D_PADDED": D} | {one: options.pop(one) for one in ("ROWS", "KEYS")}
    placed = (f"*{item}", "i64", "i64", "i64")
    signature: dict[str, Any] = {
        one: "constexpr" if one in sizes else TYPES.get(one, placed) for one in kernel.arg_names
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
