"""A fork server: a Python with loaded libraries, of which xdist's processes are forks.

xdist would start every process as a new Python, and importing torch, transformers and the site's
libraries takes 14 s of processor time in each, the site's alone 3 s. The command line that xdist
gets instead (`python`) passes its standard streams and its program to the server, and exits with
the status of the fork. Commands of the site run as forks, too (`manage`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

# None of them reads Django's settings or variables, and pytest rewrites none.
SITE = (
    *("django.core.management", "django.test", "pydantic_settings", "celery.app", "httpx2"),
    *("kombu.transport.redis", "arxiv", "markdown_it", "openai", "mcp", "playwright.sync_api"),
)
LIBRARIES = (
    "setuptools",  # before anything has Python's own distutils, which it replaces
    *(*SITE, "torch", "peft", "sklearn.linear_model", "transformers.models.auto.modeling_auto"),
    *("transformers.models.llava.modeling_llava", "transformers.models.qwen3.modeling_qwen3"),
)
PYTHON = "ASSAY_TEST_PYTHON"  # the variable with the command line for a fork


def program(code: str) -> list[str]:
    """Return the command line of a program: in a fork if there is a server, else a new Python."""
    return [*(shlex.split(os.environ.get(PYTHON, "")) or [sys.executable]), "-c", code]


def manage(*arguments: str) -> list[str]:
    """Return the command line of `python manage.py …`, for the project's folder."""
    line = ["manage.py", *arguments]
    return program(
        f"import runpy, sys; sys.argv = {line!r}; runpy.run_path('manage.py', run_name='__main__')"
    )


# Loading the site takes longer than most commands, so each is a fork of a process that has it.
EACH = """
import json, os, runpy, sys, tempfile, traceback
import django
django.setup()
for line in {lines!r}:
    with tempfile.TemporaryFile() as said:
        if not (pid := os.fork()):
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            sys.argv, status = ["manage.py", *line], 0
            try:
                runpy.run_path("manage.py", run_name="__main__")
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
                print("" if isinstance(end.code, int | None) else end.code)
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        print(json.dumps([status, said.read().decode()]), flush=True)
"""


def manage_each(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the command line that runs several of `manage.py`'s commands, one after another.

    It prints a JSON array for each: the exit status and the output.
    """
    return program(EACH.format(lines=[list(line) for line in lines]))


@contextmanager
def python(libraries: Sequence[str] = LIBRARIES) -> Iterator[str]:
    """Start a server with these libraries; yield the command line for a fork."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("")  # the kernel chooses a name without a file
        door.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(door.fileno()), *libraries],
            pass_fds=[door.fileno()],
            # One thread, as in tests/conftest.py; CUDA that is initialised before a fork is lost.
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
        )
        name = bytes(door.getsockname()).hex()
        try:
            yield shlex.join([sys.executable, "-I", "-S", __file__, name])
        finally:
            server.terminate()
            server.wait()


def call(name: str, code: str) -> int:
    """Run a program in a fork, with this process's streams and folder; return its exit status."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(bytes.fromhex(name))
        socket.send_fds(line, [b"-"], [0, 1, 2])
        line.sendall(json.dumps([code, str(Path.cwd()), dict(os.environ)]).encode() + b"\n")
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fork handles it
        for stream in (0, 1, 2):  # so that their readers see the fork's end
            os.close(stream)
        return (line.recv(1) or b"\1")[0]


def serve(door: socket.socket, libraries: Sequence[str]) -> str:
    """Fork at every call; return only in the forks, with the program of each."""
    gc.disable()
    for library in libraries:
        with suppress(ImportError):
            importlib.import_module(library)
    # No fork collects garbage here: that would write to shared memory, and so copy it.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap the forks
    while True:
        line, _ = door.accept()
        _, streams, *_ = socket.recv_fds(line, 1, 3)
        code, folder, environment = json.loads(line.makefile("rb").readline())
        if os.fork() == 0:
            break
        line.close()
        for stream in streams:
            os.close(stream)
    door.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():  # reports the other's exit status, and kills it if the caller is gone
        for stream in streams:
            os.close(stream)
        ready, _, _ = select.select([os.pidfd_open(pid), line.fileno()], [], [])
        if line.fileno() in ready:
            os.kill(pid, signal.SIGKILL)
        with suppress(BrokenPipeError):
            line.sendall(bytes([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256]))
        os._exit(0)
    line.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    gc.enable()
    return str(code)


def run(code: str) -> NoReturn:
    """Run a program as `python -c` would, but exit without freeing objects.

    Freeing writes to shared memory, and so copies it, which takes longer than most programs.
    """
    sys.argv = ["-c"]
    sys.modules["__main__"] = module = ModuleType("__main__")
    status: object = 0
    try:
        exec(code, vars(module))
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone, or it was closed
            stream.flush()
    os._exit((status or 0) % 256)


def main(arguments: list[str]) -> NoReturn:
    """`DOOR LIBRARY …` runs the server; `NAME … -c PROGRAM` runs a program in a fork."""
    if "-c" in arguments:
        sys.exit(call(arguments[0], arguments[-1]))
    from assay_common.parent_death import die_with_parent

    die_with_parent()
    run(serve(socket.socket(fileno=int(arguments[0])), arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
