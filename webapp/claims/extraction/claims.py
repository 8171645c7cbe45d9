"""What an abstract claims, taken by rule: each number of its own outcomes, and what it is of.

Small rules, not understanding: labelled as such on the page, and used where no model is
configured. `outcomes` decides which numbers count, `tuples` reads what they are of where that is
sure; the words of the others stay empty.
"""

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from webapp.claims.numbers import fold_with_places
from webapp.ui.markup import plain

from .expressions import Expression, expressions
from .outcomes import is_outcome, is_setting
from .place import Context, Place
from .tuples import Direction, Phrase, Reading, Relation, Sentence
from .vocabulary import SHOWN_UNITS

MAX_ABSTRACT = 10_000  # characters looked at
# What a number's reader must know beside it: it is a bound, or not exact.
_EXTENT = re.compile(
    r"(?:^|\W)(up to|over|more than|at least|at most|nearly|about|around|approximately|roughly"
    r"|almost|below|under|less than|fewer than|above|exceeding|<=|>=|<|>) ?"
    r"(?:an? (?:average|total) of )?$"
)
_ORDERS = re.compile(r"(?:to |-)\w+ orders")  # "2 to 3 orders of magnitude" are at least 100x
_EXTENTS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}


@dataclass(frozen=True)
class RuleClaim:
    """An outcome that the abstract reports: the number, what it is of, and where it stands."""

    value: str
    unit: str
    quote: str  # the sentence, as it stands in the abstract
    start: int  # of the number with its unit, in the abstract
    end: int
    extent: str = ""  # "up to", "over", … where the abstract limits the number so
    # The words of its tuple, "" where the abstract does not say them for sure. A claim without a
    # relation has no tuple.
    metric: str = ""
    relation: Relation | None = None
    direction: Direction = ""
    subject: str = ""
    baseline: str = ""
    setting: str = ""
    verified: ClassVar[bool] = True  # a number taken from the abstract stands there

    @property
    def shown(self) -> str:
        """The number as a reader writes it: "up to 3.5×", "24.3 → 23.1 %", "16 ms"."""
        value = self.value.replace(" -> ", " → ")
        number = f"{value}{self.unit}" if self.unit in {"×", "%"} else f"{value} {self.unit}"
        return f"{self.extent} {number}".strip()

    @property
    def said(self) -> str:
        """The number as its tuple says it: "30% less", "within 1%", "97% of it", "71.2%"."""
        if self.relation == "share":
            return f"{self.shown} of it"
        if self.relation == "within":
            return f"within {self.shown}"
        is_in_the_name = self.metric.startswith("faster") or "speed" in self.metric
        is_in_the_name |= "→" in self.shown
        return self.shown if is_in_the_name else f"{self.shown} {self.direction}".strip()


def claims_of(abstract: str) -> list[RuleClaim]:
    """The outcomes that an abstract reports, in reading order."""
    folded = fold_with_places(abstract[:MAX_ABSTRACT])
    outcomes: list[tuple[Expression, Place]] = []
    context = Context(folded)
    last: Expression | None = None  # the outcome before: what is compared with one is one
    setting: Expression | None = None  # what is listed with a setting is one
    for expression in expressions(folded):
        place = context.around(expression.start, expression.end)
        if is_setting(expression, place, setting):
            setting = expression
        elif is_outcome(expression, place, last):
            outcomes.append((expression, place))
            last = expression
    claims: list[RuleClaim] = []
    for sentence in dict.fromkeys(place.sentence for _, place in outcomes):
        there = [(e, place) for e, place in outcomes if place.sentence == sentence]
        readings = Sentence(folded, sentence, [e for e, _ in there]).readings()
        claims += [
            _claim(abstract, expression, place, readings.get(index))
            for index, (expression, place) in enumerate(there)
        ]
    return claims


def _claim(
    abstract: str, expression: Expression, place: Place, reading: Reading | None
) -> RuleClaim:
    own = {"", expression.unit}  # the 2 of "from 2 min to 30 s" keeps its unit
    start, end = place.folded.place(expression.start, expression.end)
    first, last = place.folded.place(*place.sentence)
    extent = _EXTENT.search(place.before)
    is_range = _ORDERS.search(place.folded.text, expression.start, expression.end)
    claim = RuleClaim(
        value=(" -> " if expression.is_change else "-").join(
            f"{n.value:f}" + ("" if n.unit in own else f" {SHOWN_UNITS.get(n.unit, n.unit)}")
            for n in expression.numbers
        ),
        unit=SHOWN_UNITS.get(expression.unit, expression.unit),
        quote=abstract[first:last],
        start=start,
        end=end,
        extent="at least" if is_range else _EXTENTS.get(extent[1], extent[1]) if extent else "",
    )
    if reading is None:
        return claim

    def written(phrase: Phrase | None) -> str:
        """Words as the abstract writes them, "" where TeX would have to be guessed at."""
        if phrase is None:
            return ""
        first, last = place.folded.place(phrase.start, phrase.end)
        words = plain(abstract[first:last])
        return "" if set(words) & set("\\${}") else words

    metric = written(reading.metric) or reading.kind
    baseline, setting = written(reading.baseline), written(reading.setting)
    if not (metric or (reading.metric is None and (baseline or setting))):
        return claim
    return replace(
        claim,
        metric=metric,
        relation=reading.relation,
        direction=reading.direction,
        subject=written(reading.subject),
        baseline=baseline,
        setting=setting,
    )
