"""A source's claim against what was measured: one word, and why.

Only claims that the method marks comparable get a verdict, `ratio only` ones by their ratio to the
baseline of the same run; values never cross classes of hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from methods.protocol import Flag, Point
from methods.spec import Claim, Comparable

CLOSE = 0.05  # a claim written with two digits is no more exact than that
PART = 0.5  # of the claimed gain: from here on it is partly there


class Word(StrEnum):
    """The four verdicts; each has its glyph, so that colour is never the only sign."""

    REPRODUCED = "reproduced"
    PARTLY = "partly reproduced"
    NOT = "not reproduced"
    INCOMPARABLE = "not comparable"

    @property
    def glyph(self) -> str:
        """The sign beside the word."""
        return {"reproduced": "●", "partly reproduced": "◐", "not reproduced": "○"}.get(self, "–")

    @property
    def slug(self) -> str:
        """The name in class attributes."""
        return self.name.lower()


@dataclass(frozen=True)
class Verdict:
    """The word and its reason; no word while there is nothing to judge by."""

    word: Word | None
    reason: str


@dataclass(frozen=True)
class Figure:
    """A measured number with its 95 % interval."""

    value: float
    low: float
    high: float


def figure(claim: Claim, point: Point) -> Figure | None:
    """The number of `point` that answers `claim`: its value, or its ratio to the baseline."""
    if claim.answer is None:
        return None
    if claim.answer.quantity == "ratio":
        ratio = point.ratio
        return Figure(ratio.value, ratio.low, ratio.high) if ratio else None
    return Figure(point.estimate, point.low, point.high)


def judge(claim: Claim, point: Point | None) -> Verdict:
    """The verdict on a claim, given the latest point that answers it (None: never measured)."""
    if claim.comparable is Comparable.NOT or claim.value is None:
        return Verdict(Word.INCOMPARABLE, claim.reason or "the source gives no number")
    measured = figure(claim, point) if point else None
    if point is None or measured is None:
        return Verdict(None, "not measured here yet")
    if Flag.FEW in point.flags:
        return Verdict(None, "too few samples to judge by")
    share = _share(claim, measured)
    if share >= 1 - CLOSE:
        return Verdict(Word.REPRODUCED, "the measured interval reaches the claim")
    word = Word.PARTLY if share >= PART else Word.NOT
    return Verdict(word, f"{max(share, 0.0):.0%} of the claimed effect was measured")


def _share(claim: Claim, measured: Figure) -> float:
    """How much of the claimed effect the better end of the interval shows; 1 is all of it.

    A ratio's effect is what it has above 1; a value's is the value itself.
    """
    claimed = float(claim.value or 0.0)
    if claim.answer is not None and claim.answer.quantity == "ratio":
        return (
            (measured.high - 1) / (claimed - 1) if claimed > 1 else float(measured.high >= claimed)
        )
    if claim.direction == "lower":
        return claimed / measured.low if measured.low > 0 else float(measured.low <= claimed)
    return measured.high / claimed if claimed > 0 else float(measured.high >= claimed)
