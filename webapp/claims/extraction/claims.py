"""What an abstract claims, taken by rule: each number of its own outcomes, and what it is of.

Small rules, not understanding: labelled as such on the page, and used where no model is
configured. `outcomes` decides which numbers count, `details` reads what they are of.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from webapp.claims.numbers import fold_with_places

from .details import UNKNOWN, Details
from .expressions import Expression, expressions
from .outcomes import is_outcome, is_setting
from .place import Context, Place
from .vocabulary import SHOWN_UNITS

MAX_ABSTRACT = 10_000  # characters looked at


@dataclass(frozen=True)
class RuleClaim:
    """An outcome that the abstract reports: the number, what it is of, and where it stands."""

    value: str
    unit: str
    metric: str
    baseline: str
    setting: str
    quote: str  # the sentence, as it stands in the abstract
    start: int  # of the number with its unit, in the abstract
    end: int
    verified: ClassVar[bool] = True  # a number taken from the abstract stands there

    @property
    def shown(self) -> str:
        """Value and unit as a reader writes them: "3.5×", "24.3 → 23.1 %", "16 ms"."""
        value = self.value.replace(" -> ", " → ")
        return f"{value}{self.unit}" if self.unit in {"×", "%"} else f"{value} {self.unit}".strip()


def claims_of(abstract: str) -> list[RuleClaim]:
    """The outcomes that an abstract reports, in reading order."""
    folded = fold_with_places(abstract[:MAX_ABSTRACT])
    found: list[RuleClaim] = []
    context = Context(folded)
    last: Expression | None = None  # the outcome before: what is compared with one is one
    setting: Expression | None = None  # what is listed with a setting is one
    for expression in expressions(folded):
        place = context.around(expression.start, expression.end)
        if is_setting(expression, place, setting):
            setting = expression
            continue
        if not is_outcome(expression, place, last):
            continue
        claim = _claim(abstract, expression, place, last)
        if claim.metric == UNKNOWN and found and found[-1].quote == claim.quote:
            claim = replace(claim, metric=found[-1].metric)  # "reductions of 20% and 9.4%"
        found.append(claim)
        last = expression
        for i in range(len(found) - 2, -1, -1):  # "20%, 12% and 9.4% lower cost"
            if found[i].metric != UNKNOWN or not _is_joined(abstract, found[i], found[i + 1]):
                break
            found[i] = replace(found[i], metric=claim.metric)
    return found


def _is_joined(abstract: str, one: RuleClaim, other: RuleClaim) -> bool:
    return abstract[one.end : other.start].strip(" \n$}") in {"and", ",", ", and"}


def _claim(
    abstract: str, expression: Expression, place: Place, former: Expression | None
) -> RuleClaim:
    details = Details(expression, place, abstract, former)
    own = {"", expression.unit}  # the 2 of "from 2 min to 30 s" keeps its unit
    start, end = place.folded.place(expression.start, expression.end)
    first, last = place.folded.place(*place.sentence)
    return RuleClaim(
        value=(" -> " if expression.is_change else "-").join(
            f"{n.value:f}" + ("" if n.unit in own else f" {SHOWN_UNITS.get(n.unit, n.unit)}")
            for n in expression.numbers
        ),
        unit=SHOWN_UNITS.get(expression.unit, expression.unit),
        metric=details.metric(),
        baseline=details.baseline(),
        setting=details.setting(),
        quote=abstract[first:last],
        start=start,
        end=end,
    )
