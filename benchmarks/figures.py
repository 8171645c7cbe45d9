"""Prints measured figures beside their targets, for the benchmarks of this folder."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value, and its target: a maximum, or with `least` a minimum."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    least: bool = False
    beside: str = ""  # an interval or another remark

    @property
    def missed(self) -> bool:
        """Whether the value misses its target."""
        if self.target is None:
            return False
        return self.value < self.target if self.least else self.value > self.target


def report(figures: Iterable[Figure]) -> int:
    """Print the figures as a table; the exit status: 1 if a target is missed."""
    # Not at the top: a benchmark may first have to set where methods are found.
    from assay_common.terminal import table

    rows, status = [], 0
    for one in figures:
        target = "" if one.target is None else f"{'≥' if one.least else '≤'} {one.target:g}"
        value = f"{one.value:,.3g}" if abs(one.value) < 100 else f"{one.value:,.0f}"
        rows.append((one.name, value, one.unit, target, one.beside, "missed" * one.missed))
        status |= one.missed
    print(table(("measured", "", " ", "target", "  ", "   "), rows, right=("",)))
    return status


def arguments(about: str | None, **defaults: int | float) -> argparse.ArgumentParser:
    """A parser for the first line of a module's docstring, with an option for each number."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser
