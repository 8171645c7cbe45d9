"""Installs what running methods needs while the site is already serving, then builds a kernel and
compiles the modules, which the first run would do before it measures.

Its progress is in `ml-install.json` in the data directory, for the Workers page:
`{"state": "installing" | "installed" | "failed", "step", "seconds", "reason"}`.
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
from assay_common.files import write_whole
from assay_common.parent_death import die_with_parent

GROUPS = ("web", "ml", "torch")
ENCODER = "encoder"  # the weights that order searches by meaning, where they can be had
KERNEL = [sys.executable, "-m", "methods.sparse_attention.build_kernel"]
LOAD = (
    "from methods import registry; "
    "[registry.load(m.slug, b.entry) for m in registry.all_methods() for b in m.benchmarks]"
)


def main() -> int:
    """Fill the virtual environment and build the kernel; the exit status."""
    status = install()
    for command in (KERNEL, [sys.executable, "-c", LOAD]) if status == 0 else ():
        subprocess.run(  # methods also work without either
            command,
            cwd=bootstrap.ROOT,
            capture_output=True,
            check=False,
            # TERM lets it end the compiler too, which would live on after a KILL.
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
        )
    return status


def is_done() -> bool:
    """True if everything that methods need is installed."""
    return not any(bootstrap.missing(group, sys.path) for group in GROUPS)


def install() -> int:
    """Fill the virtual environment; the exit status."""
    path = data_directory() / "ml-install.json"
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
