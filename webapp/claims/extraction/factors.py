"""Factors: "3.5× faster", "eightfold", "halves", "twice", "two orders of magnitude"."""

import re

from .expressions import Expression
from .place import Place
from .words import words

_MORE_OR_LESS = words("more or less")
# A factor that sizes or repeats something: folds of a validation, upscaling, larger models.
_SETTING_AFTER = re.compile(
    r" ?(?:\w+ ){0,2}(?:cross\w*|validation|splits?)\b| ?" + words("setting after a factor")
)
_ACHIEVED = re.compile(r"\b(?:achiev|attain|reach|obtain)\w* (?:an? )?(?:[\w-]+ ){0,3}$")
_COMPARES_AFTER = re.compile(rf"(?: \w+){{0,3}}? \w*{_MORE_OR_LESS}")
_POSSESSED = re.compile(r" (?:the|of the|its|that of|as|our)\b")
_AMOUNT_BEFORE = re.compile(words("amount before") + r"\s$")
_TWICE_AFTER = re.compile(r" (?:as|the|that|more|faster|higher)")
_TIMES_AFTER = re.compile(rf" (?:the|its|their|our|as|(?:\w+ )?{_MORE_OR_LESS})\b")
# "a standard 4x diffusion model", "100 m x 100 m": no comparison follows, and none came before
_ATTRIBUTE_BEFORE = re.compile(
    r"\b(?:(?:an?|the|fixed|using)(?: (?:\w+ed|standard))?|at|for|sampled by) $"
)
_GAIN_AFTER = re.compile(r"[ -](?:[\w-]+ ){0,4}?" + words("gain after"))
_OCCASIONS = re.compile(r" (?:over|during|per|a|each|across|throughout)\b|[.;]|$")
_BY = re.compile(r"\b(?:by|to|nearly|about|over|than) $")
VERBS = {"doubled", "doubling", "doubles", "tripled", "tripling"}
VERBS |= {"halve", "halved", "halving", "halves"}


def is_factor(expression: Expression, place: Place) -> bool:
    """True if a factor compares: "3.5x faster", "halves the memory"."""
    if not expression.numbers[-1].is_word or place.before.endswith("factor of "):
        return True
    if place.folded.cased[expression.start].isupper() and place.before:
        return False  # "Sequential Halving" is a name
    word = place.folded.text[expression.start : expression.end]
    return word.endswith("倍") or _word_compares(word, place)


def is_of_setting(expression: Expression, place: Place) -> bool:
    """True if a factor is of a size, an input or a count: "5-fold splits"."""
    before, after = place.before[-60:], place.after
    written = place.folded.text[expression.start : expression.end]
    is_attribute = re.match(r"x?\d", written) and _ATTRIBUTE_BEFORE.search(before)
    is_achieved = _ACHIEVED.search(before)
    is_often = written.endswith("times") and _OCCASIONS.match(after)  # "52 times over the season"
    return bool(
        (_SETTING_AFTER.match(after) and not is_achieved)
        or written.startswith("x ")
        or (is_attribute and not is_achieved and not _GAIN_AFTER.match(after))
        or (is_often and not _BY.search(before))
    )


def _word_compares(word: str, place: Place) -> bool:
    """True if a word such as "double" or "threefold" compares; most do not."""
    before, after = place.before, place.after
    if word.endswith("fold"):
        return bool(_COMPARES_AFTER.match(after) or re.search(_MORE_OR_LESS, before))
    if word.endswith("magnitude") or word in VERBS:
        return bool(re.search(_MORE_OR_LESS, place.words)) or word in VERBS
    if word in {"twice", "thrice"} or word.endswith("times"):
        return bool((_TIMES_AFTER if word.endswith("times") else _TWICE_AFTER).match(after))
    if word == "half" and before.endswith("by "):
        return True
    return bool(_POSSESSED.match(after) and _AMOUNT_BEFORE.search(before))
