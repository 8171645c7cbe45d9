"""Verdict on a source's claim, measured, counted or argued: one word with its reason.

A measured claim is judged by a test of equivalence on its own margin (`Claim.holds`): it is
reproduced if the whole interval reaches the claim less its margin, and partly or not reproduced
only if the whole interval lies below that. `ratio only` claims are judged by their ratio to the
baseline (or a named variant) of the same run; values never cross classes of hardware. Doubts about
a measurement are part of the reason, and if there are several, the verdict is "inconclusive".
"""

from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _

from methods.protocol import Flag, Point
from methods.spec import MARGIN, Claim, Comparable, Count
from webapp.runs import intervals
from webapp.runs.texts import flag_label, translate_spec

DOUBTS = 3  # about one point: from so many on it decides nothing
PART = 0.5  # of the claimed gain: below, it is not reproduced; half of it is the least of a part


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
    """The word and its reason, in the language of the page; no word while nothing is known."""

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
        if ratio is None:
            return None
        interval = intervals.of_processes(ratio.runs) if point.of == "processes" else None
        return Figure(*interval) if interval else Figure(ratio.value, ratio.low, ratio.high)
    return Figure(point.estimate, point.low, point.high)


def judge(claim: Claim, point: Point | None) -> Verdict:
    """The verdict on a claim, given the latest point that answers it (None: never measured)."""
    judged = _judged(claim, point)
    if point is None or not point.flags or claim.answer is None or judged.word is None:
        return judged
    if judged.word is Word.UNTESTABLE:
        return judged
    word = Word.INCONCLUSIVE if len(point.flags) >= DOUBTS else judged.word
    doubts = _("in doubt: %(doubts)s") % {"doubts": ", ".join(map(flag_label, point.flags))}
    return Verdict(word, f"{judged.reason}; {doubts}")


def _judged(claim: Claim, point: Point | None) -> Verdict:
    """The same without its doubts."""
    if claim.counted:
        return _counted(claim, claim.counted())
    if claim.ruling:
        return Verdict(Word(claim.ruling), _("our reasoning"))
    if claim.comparable is Comparable.NOT or claim.value is None:
        return Verdict(
            Word.UNTESTABLE, translate_spec(claim.reason) or _("the source gives no number")
        )
    measured = figure(claim, point)
    if point is None or measured is None:
        return Verdict(None, _("not measured here yet"))
    if Flag.FEW in point.flags:
        return Verdict(None, _("too few samples"))
    return _measured(claim, measured)


def _counted(claim: Claim, count: Count) -> Verdict:
    """The verdict of an exact number: below half of the claimed effect it refutes the claim."""
    claimed = float(claim.value or 0.0) - count.without
    worst = min((end - count.without) / claimed for end in (count.low, count.high))
    word = _word(worst)
    counted = _("computed: %(working)s") % {"working": translate_spec(count.working)}
    return Verdict(Word.REFUTED if word is Word.NOT else word, counted)


def _measured(claim: Claim, measured: Figure) -> Verdict:
    """The verdict of an interval, by the claim's own margin."""
    holds = claim.holds(measured.low, measured.high)
    if holds:
        return Verdict(Word.REPRODUCED, _("measured at least as reported"))
    if holds is None:
        reason = _("the interval includes the reported value and values below it")
        return Verdict(Word.INCONCLUSIVE, reason)
    least, most = sorted(_share(claim, end) for end in (measured.low, measured.high))
    if most < PART:
        reason = _("measured at most %(most)s of the reported effect")
        return Verdict(Word.NOT, reason % {"most": f"{max(most, 0.0):.0%}"})
    if least < PART / 2:
        reason = _("measured less than reported, too imprecisely to say how much less")
        return Verdict(Word.INCONCLUSIVE, reason)
    reason = _("measured %(least)s to %(most)s of the reported effect")
    return Verdict(Word.PARTLY, reason % {"least": f"{least:.0%}", "most": f"{most:.0%}"})


def _word(share: float) -> Word:
    if share >= 1 - MARGIN:
        return Word.REPRODUCED
    return Word.PARTLY if share >= PART else Word.NOT


def _share(claim: Claim, measured: float) -> float:
    """Return the share of the claimed effect that a measured number reaches; 1 is all of it.

    The effect of a ratio is its excess over 1; that of a value is the value itself.
    """
    claimed = float(claim.value or 0.0)
    if claim.answer is not None and claim.answer.quantity == "ratio":
        return (measured - 1) / (claimed - 1) if claimed > 1 else float(measured >= claimed)
    if claim.direction == "lower":
        return claimed / measured if measured > 0 else float(measured <= claimed)
    return measured / claimed if claimed > 0 else float(measured >= claimed)
