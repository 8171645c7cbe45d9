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
        """True if the value misses its target."""
        if self.target is None:
            return False
        return self.value < self.target if self.least else self.value > self.target


def report(figures: Iterable[Figure]) -> int:
    """Print the figures as a table; the exit status: 1 if a target is missed."""
    # Not at the top: a benchmark may first have to set where methods are found.
    from assay_common.terminal import table

    rows, status = [], 0
    for figure in figures:
        target = (
            "" if figure.target is None else f"{'≥' if figure.least else '≤'} {figure.target:g}"
        )
        value = f"{figure.value:,.3g}" if abs(figure.value) < 100 else f"{figure.value:,.0f}"
        rows.append(
            (figure.name, value, figure.unit, target, figure.beside, "missed" * figure.missed)
        )
        status |= figure.missed
    print(table(("measured", "", " ", "target", "  ", "   "), rows, right=("",)))
    return status


def arguments(about: str | None, **defaults: int | float) -> argparse.ArgumentParser:
    """A parser for the first line of a module's docstring, with an option for each number."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser
