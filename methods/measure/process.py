"""One fresh process that measures: reads a job on standard input, tells its events on its output.

Started by `processes`. Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys

from methods import registry
from methods.protocol import KINDS, Line, Strict
from methods.runner import run


def main() -> int:
    """Run the job's benchmark in this process; the exit code of the run."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = json.load(sys.stdin)
    method, benchmark = registry.find(job["name"])
    told = 0

    def emit(body: Strict) -> None:
        nonlocal told
        events.write(Line(seq=told, kind=KINDS[type(body)], body=body).dump() + "\n")
        events.flush()
        told += 1

    return run(
        method,
        benchmark,
        benchmark.params.model_validate(job["params"]),
        device=job["device"],
        seed=job["seed"] + job["number"],
        preset=None,
        emit=emit,
        process=job["number"],
    )


if __name__ == "__main__":
    sys.exit(main())
