"""The compiled CPU kernel (`kernel.cpp`): every head and tile of a call in one parallel region.

    python -m methods.sparse_attention.kernel

builds it for this machine, where there is a C++ compiler; it is never built while anything is
measured or served. It stands in the user's own cache, outside of what a sandbox may write to, under
a name that changes with its source, PyTorch and the processor. Without it tiles run as before.
"""

import fcntl
import hashlib
import importlib.metadata
import math
import os
import platform
import pwd
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from methods.sparse_attention.config import GlobalGroup, Group

SOURCE = Path(__file__).with_name("kernel.cpp")
# Of the account, not of HOME: a sandbox has another.
FOLDER = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "assay" / "kernels"
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fPIC")
MULTIPLE = 16  # of d_head: two vectors


def place() -> Path:
    """Where this machine's kernel stands, built or not."""
    known = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    features = re.findall(r"(?im)^(?:flags|features)\s*:.*$", known)[:1]
    versions = (importlib.metadata.version("torch"), platform.machine(), *FLAGS, *features)
    text = "\n".join([*versions, SOURCE.read_text(encoding="utf-8")])
    return FOLDER / f"sparse-{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"


def build() -> str:
    """Build the kernel unless it is there, one process at a time; why it cannot be, or ""."""
    built = place()
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / "lock").open("w") as lock, TemporaryDirectory(dir=FOLDER) as folder:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.exists():
                _compile(Path(folder) / "kernel.so")
                (Path(folder) / "kernel.so").replace(built)
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return str(error.stderr)[-2000:]
    return ""


def _compile(target: Path) -> None:
    """Compile the source to a library of operators. Raises OSError or CalledProcessError."""
    from torch.utils import cpp_extension  # noqa: PLC0415 - slow, and only needed here

    include = [f"-I{path}" for path in cpp_extension.include_paths()]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    middle = str(target.with_suffix(".o"))
    # OpenMP is not linked: torch's own serves, a second one would have threads of its own.
    compiler = cpp_extension.get_cxx_compiler()  # type: ignore[no-untyped-call]
    for arguments in (
        [*FLAGS, "-fopenmp", *include, "-c", str(SOURCE), "-o", middle],
        ["-shared", middle, "-o", str(target), *libraries, "-Wl,--no-as-needed", "-ltorch_cpu"],
    ):
        subprocess.run([compiler, *arguments], check=True, capture_output=True, text=True)


@lru_cache(maxsize=1)
def loaded() -> bool:
    """Whether this process has the kernel; it never builds it."""
    built = place()
    if not built.exists():
        return False
    try:
        torch.ops.load_library(built)  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError):  # built by a compiler or for libraries that have gone since
        return False
    return True


def fits(q: Tensor) -> bool:
    """Whether the kernel can attend from these queries (batch, heads, n, d)."""
    simple = q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[-1] % MULTIPLE == 0
    return simple and loaded()


@lru_cache(maxsize=32)
def ranges(group: Group, n: int) -> Tensor:
    r"""The keys that each query sees, (2, n) int32: the first, and the one behind the last.

    Equation: $a_i = \max(0, (\lfloor i / b \rfloor - \lceil w / b \rceil + 1) b), \quad e_i = i + 1
    \;\mathrm{in\ a\ local\ group}$
    Equation: $a_i = 0, \quad e_i = \lfloor i / s \rfloor + 1 \;\mathrm{of\ the\ anchors\ in\ a\
    global\ one}$
    """
    i = torch.arange(n)
    if isinstance(group, GlobalGroup):
        return torch.stack([torch.zeros_like(i), i // group.stride + 1]).int()
    first = (i // group.block - math.ceil(group.window / group.block) + 1) * group.block
    return torch.stack([first.clamp(min=0), i + 1]).int()


if __name__ == "__main__":
    sys.exit(build() or None)
