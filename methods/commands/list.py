"""``list``: the methods and what can be measured of each."""

import argparse
import sys

from assay_common.terminal import table

from .. import registry

HELP = "list the methods and their benchmarks"


def configure(parser: argparse.ArgumentParser) -> None:
    """Take no arguments."""


def main(args: argparse.Namespace) -> int:
    """Print a line for each benchmark."""
    rows = [
        (f"{method.slug}.{benchmark.slug}", benchmark.title)
        for method in registry.all_methods()
        for benchmark in method.benchmarks
    ]
    sys.stdout.write((table(("benchmark", "measures"), rows) if rows else "no methods") + "\n")
    return 0
