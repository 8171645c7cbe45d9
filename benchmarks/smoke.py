"""Processor seconds of every benchmark at `smoke`, checks included: ``python -m benchmarks.smoke``.

Seconds of user and system of the command and of all processes that it starts, so other work on the
machine hardly matters. Bytecode of packages is taken to be compiled, as an installation leaves it:
without it (``PYTHONDONTWRITEBYTECODE`` after uv) each process adds some three seconds.
"""

import resource
import subprocess
import sys

from benchmarks.figures import Figure, arguments, report
from methods import registry

LIMIT_S = 30


def processor_seconds(name: str) -> float:
    """Processor seconds of a benchmark at `smoke`; exits with its output if it fails."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    command = [sys.executable, "-m", "methods", "run", name, "--preset", "smoke"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return spent() - before


def main() -> int:
    """Print a table; 1 where a benchmark takes more than `LIMIT_S`."""
    parser = arguments(__doc__)
    parser.add_argument("names", nargs="*", metavar="METHOD.BENCHMARK", help="default: all")
    every = [f"{m.slug}.{b.slug}" for m in registry.all_methods() for b in m.benchmarks]
    names = parser.parse_args().names or every
    return report(Figure(name, processor_seconds(name), "s", LIMIT_S) for name in names)


if __name__ == "__main__":
    sys.exit(main())
