"""Processor seconds of every benchmark at `smoke`, checks included: ``python -m benchmarks.smoke``.

Seconds of user and system of the command and of all processes that it starts, so other work on the
machine hardly matters. Bytecode of packages is taken to be compiled, as an installation leaves it:
without it (``PYTHONDONTWRITEBYTECODE`` after uv) each process adds some three seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

from methods import registry

LIMIT_S = 30


def processor_seconds(name: str) -> float:
    """Of one benchmark run at `smoke`; ends the program with its words when it fails."""

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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="METHOD.BENCHMARK", help="default: all")
    every = [f"{m.slug}.{b.slug}" for m in registry.all_methods() for b in m.benchmarks]
    print("| benchmark | processor seconds |\n|---|---:|")
    most = 0.0
    for name in parser.parse_args().names or every:
        seconds = processor_seconds(name)
        most = max(most, seconds)
        print(f"| `{name}` | {seconds:.1f} |", flush=True)
    return int(most > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
