"""Installs what running methods needs while the site is already serving, then builds a kernel and
compiles the modules, which the first run would do before it measures.

Its progress is in `ml-install.json` in the data directory, for the Workers page:
`{"state": "installing" | "installed" | "failed", "step", "seconds", "reason"}`. It holds
`ml-install.lock` while it installs, so that a killed one is not taken for one at work.
"""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import bootstrap
from assay_common.env import data_directory
from assay_common.files import hold, write_whole
from assay_common.parent_death import die_with_parent

GROUPS = ("web", "ml", "torch")
ENCODER = "encoder"  # the weights that order searches by meaning, where they can be had
KERNEL = [sys.executable, "-m", "methods.sparse_attention.build_kernel"]
LOAD = (
    "from methods import registry; "
    "[registry.load(m.slug, b.entry) for m in registry.all_methods() for b in m.benchmarks]"
)
COMPILE = [sys.executable, "-c", LOAD]


def main() -> int:
    """Fill the virtual environment and build the kernel; return the exit status."""
    status = install()
    for command, purpose in ((KERNEL, "building a kernel"), (COMPILE, "compiling the methods")):
        if status == 0:
            _run(command, purpose)
    return status


def _run(command: list[str], purpose: str) -> None:
    """Run a command that methods can do without; if it fails, print the end of its output."""
    done = subprocess.run(
        command,
        cwd=bootstrap.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        # TERM lets it end the compiler too, which would live on after a KILL.
        preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
    )
    if done.returncode:
        print(f"{purpose.capitalize()} failed (exit status {done.returncode}):")
        print("\n".join(done.stdout.splitlines()[-20:]), flush=True)


def is_done() -> bool:
    """Return True if everything that methods need is installed."""
    return not any(bootstrap.missing(group, sys.path) for group in GROUPS)


def install() -> int:
    """Fill the virtual environment; return the exit status."""
    path = data_directory() / "ml-install.json"
    hold(path.with_suffix(".lock"))
    os.nice(10)
    started = time.monotonic()

    def report(line: str) -> None:
        write(path, "installing", step=line, seconds=time.monotonic() - started)
        bootstrap.show(line)

    try:
        if not is_done():
            bootstrap.provide(GROUPS, report)
    except (bootstrap.BootstrapError, OSError) as error:
        write(path, "failed", reason=str(error))
        print(error)
        return 1
    write(path, "installed")
    if os.environ.get("ASSAY_ENCODER") == "off" or not bootstrap.missing(ENCODER, sys.path):
        return 0
    try:  # the site answers without it, in the order of words
        bootstrap.provide((ENCODER,), bootstrap.show)
    except bootstrap.BootstrapError as error:
        print(f"The sentence encoder was not installed: {error}")
    return 0


def write(path: Path, state: str, **details: object) -> None:
    """Write the progress file."""
    write_whole(path, json.dumps({"state": state, **details}).encode(), mode=0o600)


if __name__ == "__main__":
    sys.exit(main())
