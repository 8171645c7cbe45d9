"""A Python that has loaded what takes longest to load: each of xdist's processes is a fork of it.

xdist starts every process as a Python of its own, and to load torch, transformers and scikit-learn
costs six seconds of processor time in each. What it is given for a Python (`python`) hands its
standard streams and its program to the process that forks, and ends when the fork ends.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

# Nothing in them reads a setting of Django's or a file of the project's, and pytest rewrites none.
LIBRARIES = (
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llava.modeling_llava",
    "transformers.models.qwen3.modeling_qwen3",
    "peft",
    "sklearn.linear_model",
    "django.core.management",
    "django.test",
)


@contextmanager
def python(libraries: Sequence[str] = LIBRARIES) -> Iterator[str]:
    """The command line that stands for such a Python."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("")  # the kernel finds a name, which no file has
        door.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(door.fileno()), *libraries],
            pass_fds=[door.fileno()],
            # One thread, as tests/conftest.py asks; a GPU that was looked at before a fork is lost.
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
        )
        name = bytes(door.getsockname()).hex()
        try:
            yield shlex.join([sys.executable, "-I", "-S", __file__, name])
        finally:
            server.terminate()
            server.wait()


def call(name: str, program: str) -> None:
    """Have a fork run `program` over this process's streams, where it is, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(bytes.fromhex(name))
        socket.send_fds(line, [b"-"], [0, 1, 2])
        line.sendall(json.dumps([program, str(Path.cwd()), dict(os.environ)]).encode())
        line.shutdown(socket.SHUT_WR)
        pid = int(line.recv(20))
    for stream in (0, 1, 2):  # whoever reads them is to see the fork's end
        os.close(stream)
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])


def serve(door: socket.socket, libraries: Sequence[str]) -> str:
    """Fork at every call. Returns in the forks alone, with the program of each."""
    for library in libraries:
        with suppress(ImportError):
            importlib.import_module(library)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        line, _ = door.accept()
        _, streams, *_ = socket.recv_fds(line, 1, 3)
        program, folder, environment = json.loads(line.makefile("rb").read())
        if (pid := os.fork()) == 0:
            break
        line.sendall(str(pid).encode())
        line.close()
        for stream in streams:
            os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    line.close()
    door.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return str(program)


def main(arguments: list[str]) -> None:
    """`DOOR LIBRARY …` forks as long as it lives; `NAME … -c PROGRAM` asks it to."""
    if "-c" in arguments:
        call(arguments[0], arguments[-1])
        return
    from workers.parent_death import die_with_parent

    die_with_parent()
    program = serve(socket.socket(fileno=int(arguments[0])), arguments[1:])
    # As `python -c` would: the module that was started is the program's.
    sys.argv = ["-c"]
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(program, vars(module))


if __name__ == "__main__":
    main(sys.argv[1:])
