"""The numbers of an abstract that are outcomes of its own work, found by rules.

`outcomes` decides which numbers count. What they are of is not guessed: `quotes` gives the authors'
own words around them.
"""

from dataclasses import dataclass
from typing import Literal

from webapp.claims.numbers import SIZES, TIMES, Folded, fold_with_places

from .expressions import Expression, expressions
from .outcomes import is_outcome, is_setting
from .place import Context, Place
from .words import SHOWN_UNITS

MAX_ABSTRACT = 10_000  # characters looked at
Kind = Literal["ratio", "share", "size", "time", "level"]
_SHARES = {"%", "pp"}


@dataclass(frozen=True)
class AbstractNumber:
    """A number that an abstract reports, with the places of it and of its sentence there."""

    value: str
    unit: str
    kind: Kind
    start: int  # of the number with its unit
    end: int

    @property
    def shown(self) -> str:
        """The number as a reader writes it: "3.5×", "24.3 → 23.1 %", "16 ms"."""
        value = self.value.replace(" -> ", " → ")
        return f"{value}{self.unit}" if self.unit in {"×", "%"} else f"{value} {self.unit}".strip()


def reported_numbers(abstract: str) -> list[AbstractNumber]:
    """Return the numbers that an abstract reports, in reading order."""
    folded = fold_with_places(abstract[:MAX_ABSTRACT])
    return [number_of(folded, expression) for expression, _ in outcomes(folded)]


def outcomes(folded: Folded) -> list[tuple[Expression, Place]]:
    """Return the numbers of a folded abstract that are outcomes, each with its place."""
    placed: list[tuple[Expression, Place]] = []
    context = Context(folded)
    outcome: Expression | None = None  # what is listed or compared with an outcome is one
    setting: Expression | None = None  # what is listed with a setting is one
    for expression in expressions(folded):
        place = context.around(expression.start, expression.end)
        if is_setting(expression, place, setting):
            setting = expression
        elif is_outcome(expression, place, outcome):
            placed.append((expression, place))
            outcome = expression
    return placed


def number_of(folded: Folded, expression: Expression) -> AbstractNumber:
    """Return an outcome with its place in the abstract that was folded."""
    shared = {"", expression.unit}  # the 2 of "from 2 min to 30 s" keeps its unit
    start, end = folded.place(expression.start, expression.end)
    return AbstractNumber(
        value=(" -> " if expression.is_change else "-").join(
            f"{n.value:f}" + ("" if n.unit in shared else f" {SHOWN_UNITS.get(n.unit, n.unit)}")
            for n in expression.numbers
        ),
        unit=SHOWN_UNITS.get(expression.unit, expression.unit),
        kind=_kind(expression.unit),
        start=start,
        end=end,
    )


def _kind(unit: str) -> Kind:
    if unit == "x":
        return "ratio"
    if unit in _SHARES:
        return "share"
    if unit in TIMES:
        return "time"
    return "size" if unit in SIZES else "level"
