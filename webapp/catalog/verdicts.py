"""A source's claim against what was measured, counted or argued: one word, and why.

A measured claim is judged by the end of the interval that is against it, `ratio only` ones by their
ratio to the baseline (or a named variant) of the same run; values never cross classes of hardware.
"""

from dataclasses import dataclass
from enum import StrEnum

from methods.protocol import Flag, Point
from methods.spec import Claim, Comparable, Count

CLOSE = 0.05  # a claim written with two digits is no more exact than that
PART = 0.5  # of the claimed gain: from here on it is partly there


class Word(StrEnum):
    """The verdicts; each has its glyph, so that colour is never the only sign."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    UNTESTABLE = "not testable here"

    @property
    def glyph(self) -> str:
        """The sign beside the word."""
        return dict(zip(Word, "●◐○×~–", strict=True))[self]

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


def figure(claim: Claim, point: Point | None) -> Figure | None:
    """The number that answers `claim`: counted, or a point's value or ratio to the baseline."""
    if claim.counted:
        count = claim.counted()
        return Figure((count.low + count.high) / 2, count.low, count.high)
    if claim.answer is None or point is None:
        return None
    if claim.answer.quantity == "ratio":
        ratio = point.ratio
        return Figure(ratio.value, ratio.low, ratio.high) if ratio else None
    return Figure(point.estimate, point.low, point.high)


def judge(claim: Claim, point: Point | None) -> Verdict:
    """The verdict on a claim, given the latest point that answers it (None: never measured)."""
    if claim.counted:
        return _counted(claim, claim.counted())
    if claim.ruling:
        return Verdict(Word(claim.ruling), "argued")
    if claim.comparable is Comparable.NOT or claim.value is None:
        return Verdict(Word.UNTESTABLE, claim.reason or "the source gives no number")
    measured = figure(claim, point)
    if point is None or measured is None:
        return Verdict(None, "not measured here yet")
    if Flag.FEW in point.flags:
        return Verdict(None, "too few samples to judge by")
    return _measured(claim, measured)


def _counted(claim: Claim, count: Count) -> Verdict:
    """The verdict of an exact number: below half of the claimed effect it refutes the claim."""
    claimed = float(claim.value or 0.0) - count.without
    worst = min((end - count.without) / claimed for end in (count.low, count.high))
    word = _word(worst)
    return Verdict(Word.REFUTED if word is Word.NOT else word, f"counted: {count.working}")


def _measured(claim: Claim, measured: Figure) -> Verdict:
    """The verdict of an interval: by the end that is against the claim."""
    ends = sorted(_share(claim, end) for end in (measured.low, measured.high))
    against, best = (_word(share) for share in ends)
    if against is Word.NOT and best is not Word.NOT:
        return Verdict(Word.INCONCLUSIVE, "the measured interval spans both")
    if against is Word.REPRODUCED:
        return Verdict(against, "the whole measured interval reaches the claim")
    return Verdict(against, f"at least {max(ends[0], 0.0):.0%} of the claimed effect was measured")


def _word(share: float) -> Word:
    if share >= 1 - CLOSE:
        return Word.REPRODUCED
    return Word.PARTLY if share >= PART else Word.NOT


def _share(claim: Claim, measured: float) -> float:
    """How much of the claimed effect a measured number shows; 1 is all of it.

    A ratio's effect is what it has above 1; a value's is the value itself.
    """
    claimed = float(claim.value or 0.0)
    if claim.answer is not None and claim.answer.quantity == "ratio":
        return (measured - 1) / (claimed - 1) if claimed > 1 else float(measured >= claimed)
    if claim.direction == "lower":
        return claimed / measured if measured > 0 else float(measured <= claimed)
    return measured / claimed if claimed > 0 else float(measured >= claimed)
