"""A fresh process that measures: its argument is the job, it writes events to standard output.

Started by `processes`. Whatever libraries print goes to standard error.
"""

import json
import os
import sys

from .. import registry
from ..output import JsonLines
from ..runner import run


def main() -> int:
    """Run the job's benchmark in this process; the exit code of the run."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = json.loads(sys.argv[1])
    method, benchmark = registry.find(job["name"])
    return run(
        method,
        benchmark,
        benchmark.params.model_validate(job["params"]),
        device=job["device"],
        seed=job["seed"] + job["number"],
        preset=None,
        emit=JsonLines(events).event,
        process=job["number"],
    )


if __name__ == "__main__":
    sys.exit(main())
