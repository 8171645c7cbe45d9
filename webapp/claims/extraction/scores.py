"""Numbers without a unit: a level or a difference of a metric that is named beside them."""

import re

from .expressions import Expression
from .place import Place
from .words import METRIC, METRIC_WORD, RESULT, alternatives

_SIGN_OF_METRIC = re.compile(
    r"(?<![a-z])(?:\\?(?:rho|kappa)|[ρκφ]|r\^2|r2|d|auc|f1|error|mae|rmse|icc\(\S+\)|rsquared)"
    r" ?[=~≈:]=? ?$"
)
_EFFECT = re.compile(r"(?<![a-z])d ?[=~≈:]=? ?$")
MAX_EFFECT = 10  # of Cohen's d; a D of 1536 is a width
_CORRELATION = re.compile(r"(?<![a-z])r ?= ?$")
_VARIANT = r"(?:-?\d[\w.]*)?"  # the 50K of FID-50K
_METRIC_BEFORE = re.compile(
    rf"(?<![a-z]){METRIC}{_VARIANT}\)?(?:\s?\([^)]{{1,24}}\))?(?:@[\w.]+)?(?: \w+){{0,5}}?"
    r"[ (:=,~<>≈/|]*$"
)
_METRIC_AFTER = re.compile(
    r"(?: and [+-]?\d+\.\d+)? ?\(?(?:(?:absolute|relative|average|mean|macro|micro|overall) )?"
    rf"(?:\w+ )?(?:{METRIC}|improvement|gain|absolute)(?![a-z])"
)
_WHOLE_SCORE = re.compile(rf"(?<![a-z]){METRIC}(?: scores?)? (?:of|=|to|is) $")
_COUNTED = re.compile(
    alternatives("rank index pass average mean median bound gap ratio alpha rate") + " of $"
)
_REACHES = re.compile(
    r"(?:reach|achiev|attain|exceed|surpass|obtain|scor|yield)\w*"
    r"(?: (?:only|up to|an?|about|over|an? (?:[\w-]+ ){1,4}of))* ?$"
)
_BEATS_BY = re.compile(r"(?:outperform|surpass|exceed|beat)\w* [^;()]{3,70} by $")
_VERSUS = re.compile(
    r"\)?(?: [a-z]+)? (?:vs\.?|versus|compared (?:to|with)|against|than|->)(?: [a-z]+){0,4} ?\(?\d"
)
# The 2.5 of "Gemini 2.5" is a name's; that of "BLEU 2.5" is a score.
_NAME_BEFORE = re.compile(r"\b[A-Z][\w.+-]*[ ~-]\(?$")
_METRIC_NAME = re.compile(
    rf"(?:{METRIC}{_VARIANT}|of|to|by|at|is|from|scores?|r2|ap|ar)s?[ ~-]\(?$", re.IGNORECASE
)
_ACRONYM = re.compile(r" [A-Z]{2,8}\b")  # "achieves 93.3 PDMS"
_ON = re.compile(r" (?:on|in|for|at|across)\b")


def is_score(expression: Expression, place: Place) -> bool:
    """True if a number without a unit is a score of some metric."""
    text, number = place.folded.text, expression.numbers[-1]
    written = text[number.start : number.digits_end]
    counts = number.is_word or number.end > number.digits_end  # "two", 7B, 12K
    if counts or re.match(r"[-\w]", text[expression.end : expression.end + 1]):
        return False
    is_compared = place.before.endswith(("(", "=", ": ")) and _VERSUS.match(place.after)
    is_marked = text[number.start] in "+-" or is_compared or _METRIC_AFTER.match(place.after)
    if not is_marked and _is_name(place):
        return False
    if _SIGN_OF_METRIC.search(place.before):
        return number.value < MAX_EFFECT or not _EFFECT.search(place.before)
    if "." not in written:
        is_score = _WHOLE_SCORE.search(place.before) and len(written) < 4
        return bool(is_score) and not _COUNTED.search(place.before)
    if is_compared or any(sign.search(place.before) for sign in (_CORRELATION, _BEATS_BY)):
        return True
    return _is_decimal_score(expression, place)


def _is_decimal_score(expression: Expression, place: Place) -> bool:
    before, after = place.before, place.after
    if _REACHES.search(before):
        cased = place.folded.cased[expression.end : place.after_start + 12]
        return bool(METRIC_WORD.search(place.words) or _ON.match(after) or _ACRONYM.match(cased))
    named = _METRIC_BEFORE.search(before[-90:]) or _METRIC_AFTER.match(after)
    return bool(named and RESULT.search(place.words))


def _is_name(place: Place) -> bool:
    cased = place.folded.cased[place.before_start : place.start]
    return bool(_NAME_BEFORE.search(cased)) and not _METRIC_NAME.search(place.before)
