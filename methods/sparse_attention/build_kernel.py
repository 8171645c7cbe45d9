"""Builds the compiled CPU kernel (`kernel.cpp`) for this machine, where there is a C++ compiler.

    python -m methods.sparse_attention.build_kernel

builds it once, never while anything is measured or served. The kernel is kept in the user's cache,
where a sandbox cannot write, under a name that depends on its source, PyTorch and the processor.
PyTorch is imported only to build, since `up` calls this at each start.
"""

import fcntl
import hashlib
import importlib.metadata
import os
import platform
import pwd
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import psutil

SOURCE = Path(__file__).with_name("kernel.cpp")
# The account's home, not HOME, which a sandbox sets to another folder.
FOLDER = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "assay" / "kernels"
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fPIC")


def library() -> Path:
    """The path of this machine's kernel, built or not."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    features = re.findall(r"(?im)^(?:flags|features)\s*:.*$", cpu)[:1]
    versions = (importlib.metadata.version("torch"), platform.machine(), *FLAGS, *features)
    text = "\n".join([*versions, SOURCE.read_text(encoding="utf-8")])
    return FOLDER / f"sparse-{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"


def build() -> str:
    """Build the kernel if it is missing, one process at a time; returns the error, or ""."""
    built = library()
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if built.exists():
                return ""
            for unfinished in FOLDER.glob("tmp*"):  # of a build that was killed
                shutil.rmtree(unfinished, ignore_errors=True)
            with TemporaryDirectory(dir=FOLDER) as folder:
                _compile(library_file := Path(folder) / "kernel.so")
                library_file.replace(built)
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
    # OpenMP is not linked: torch brings one, and a second would start threads of its own.
    compiler = cpp_extension.get_cxx_compiler()  # type: ignore[no-untyped-call]
    for arguments in (
        [*FLAGS, "-fopenmp", *include, "-c", str(SOURCE), "-o", middle],
        ["-shared", middle, "-o", str(target), *libraries, "-Wl,--no-as-needed", "-ltorch_cpu"],
    ):
        command = [compiler, *arguments]
        subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)


def _end(number: int, _: FrameType | None) -> None:
    """End at once, with what the compiler started: a compiler's children do not end with it.

    Nothing is raised, because an import that TERM interrupts may swallow it.
    """
    for started in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            started.kill()
    os._exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(build() or None)
