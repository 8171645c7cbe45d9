"""Separation of an abstract's outcomes of its own work from its other numbers.

An outcome is a level, a gain, a speed-up, a saving, a time, a rate, a memory, an error or a
correlation that the paper reports, or a number that it compares one with. Settings, sizes of
models, data and hardware, thresholds, p-values, intervals, names and background facts are not.
"""

import re

from webapp.claims.numbers import SIZES, TIMES

from .expressions import Expression
from .factors import is_factor, is_of_setting
from .place import Place
from .scores import is_score
from .words import CHANGES, DATA_DESCRIBED, METRIC, OTHERS_RESULT, RESULT, words

_GAINS = {"%", "pp", "points"}
_MEMORY = SIZES | {f"{size}/s" for size in SIZES} | {"byte"}
_LENGTHS = {"mm", "cm", "m", "km", "px", "°"}
_LEVELS = {"db", "fps", "hz", "w", "mw", "kw", "wh", "kwh", "j", "mj", "kj", "bpp", "usd", "ml"}
_RATES = {"fps", "hz"}
_LEVELS |= {"bpm", "kbps", "mbps", "gbps", "flops", "mflops", "gflops", "tflops", "pflops", "gmacs"}

# What no unit makes an outcome, by the words before it ...
_P_VALUE = re.compile(
    r"(?<![a-z])(?:[pq] ?(?:values?)?|padj)(?:_\w{1,4})? ?"
    r"(?:=|<=|>=|<|>|of|≪|(?:(?:smaller|less|lower) than|below|were|was|is) ?)+ ?$"
)
_VARIABLE = re.compile(
    r"(?:(?<![a-z])(?!f_1)(?:[a-ce-qs-z]|\\(?!kappa|rho)[a-z]+|(?![κρ])[α-ω]|i\^2|"
    + words("variable")
    + r")(?:_\w+)? ?(?:=|<=|>=|<|>|:) ?)$"
)
_SETTING_BEFORE = re.compile(r"\b" + words("setting before") + r"\s?$")
# "high acceleration factors (x4", "a low sampling rate (5%", "temperature (0.7": named settings
_NAMED_SETTING = re.compile(
    rf"\b{words('setting')}s?(?: \([^()]*\))?(?: (?:of|at|is|are|ranging|{words('roughly')}))*"
    r" ?[(=:<>≈]{0,3} ?(?:e\.g\.,? )?(?:initial |up to |over )?$"
)
# "a corpus of 425 h", "videos of more than 1 hour": how much data there is
_DATA_OF = re.compile(
    r"\b" + words("data") + r"s? (?:\w+ )?(?:of|with|spanning|contain|containing)"
    rf"(?: {words('roughly')}| less than)* $"
)
# "TMR by 8.9% at FMR = 0.01%"
_AT_POINT = re.compile(r"\bat (?:[a-z]+ ?= ?|iou |an? (?:specificity|fpr|far) of )$")
_AT = re.compile(r"\b(?:at|under|with) (?:an? )?(?:fixed )?[<>=~≤≥ ]*$")
_GIVEN_BEFORE = re.compile(rf"(?:^|\b){words('given before')} (?:{words('roughly')} )*$")
_GIVEN_AFTER = re.compile(words("given after"))
_UNDER = re.compile(r"^(?:under|given) [^,;]{1,60} of $")  # "Under a misfit of 10%, it ..."
_SET_CHANGE_AFTER = re.compile(  # "a 20% increase in the penalty yields"
    r" (?:increase|decrease|reduction|change) in [^,.;]{1,40} (?:yield|lead|cause|produce)s?\b"
)
_TOP_OF_SCALE = re.compile(r"\d/(?:5|7|9|10|100)(?:\.0)?$")
_GIVEN = re.compile(r"(?:^|[,;:] (?:and |while )?)at $|\boperating at $")  # "At 30 Hz, it ..."
# A rate is an outcome where something runs or is fast; videos "at 24 fps" are as they were made.
_RATE_MEASURED = re.compile(r"\b" + words("rate measured"))
# ... and behind it.
_INTERVAL_BEFORE = re.compile(r"(?:intervals?|\bci|(?:upper|lower) bound)\)?[,:]? ?\(?$")
_INTERVAL_AFTER = re.compile(
    r" ?(?:[a-z]+ )?" + words("interval after") + r"| (?:completion|(?:upper|lower) bound)\b"
)
_OPERATING_POINT = re.compile(r" ?(?:\w+ (?=coverage))?" + words("operating point") + r"\b")
_BY = re.compile(r"\b(?:by|of|within|over|than|to) (?:about |nearly )?$")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SIZE_AFTER = re.compile(r" ?(?:trainable |model )?" + words("size after") + r"\b")
_INPUT_AFTER = re.compile(
    r"[ )]*-?(?:(?!(?:on|in|at|for|with|per|and|over|than|by|to|from)\b)\w+ ){0,3}?"
    + words("input after")
)
# "on a 5-point Likert scale", "3 degrees of freedom"
_SCALE_AFTER = re.compile(r" ?(?:likert|(?:rating )?scale|of freedom)\b")
# A share of the data is a setting, a share of the answers is an outcome.
_SHARES = r"(?:[\d.]+%,? (?:and |or )?)*"  # "at 10%, 20%, and 50% sparsity"
_USED = re.compile(r"\b" + words("roughly used") + "(?: " + words("used") + rf")* ?\(?{_SHARES}$")
_PART_OF_DATA = re.compile(
    r" ?(?:\w+ ){0,2}?(?:of (?:(?:the|all|our|its|their) )?(?:[\w']+ ){0,3}?"
    + words("part of data")
    + r"|labell?ed|labels?|annotations?|training data|supervision|data|subset|split)\b"
)
_SETTING_AFTER = re.compile(rf"(?:,? (?:and |or )?{_SHARES})? ?" + words("setting after"))
# "split into training (70%), testing (15%) and validation (15%)", "a subset of just 7%"
_SPLIT = re.compile(r"\b(?:split|divided|partition)")
_SPLIT_BEFORE = re.compile(
    r"\b(?:train\w*|test\w*|validation|val|dev\w*|held ?out)(?: sets?| data| splits?)? ?\($"
)
_SPLIT_AFTER = re.compile(r" (?:for )?(?:train|test|validat|held)\w*")
_SUBSET_OF = re.compile(
    r"\b(?:subset|fraction|portion|subsample)s? of"
    r"(?: (?:only|just|merely|about|the|approximately|around|roughly|nearly))* $"
)
# "the 10% most uncertain", "only 7,070 (4.5% of total) patches", "5% of the model's parameters"
_PART_OF_WHOLE = re.compile(r"\) of (?:\w+ )?data\b|(?:/[\d.]+%)* " + words("part of a whole"))
_HARDWARE_BEFORE = re.compile(
    r"\b(?:gpu|card|device|machine|workstation|[abhlv]\d{1,3})s?(?:(?: \w+){0,2} (?:with|of|having)"
    rf"(?: {words('roughly')}| less than| under| as little as)*)? $"
)
_DESCRIBES_RESULT = re.compile(r"\b" + words("describes a result"))
# "reducing the rank from 16 to 8 decreased accuracy": what was set, not what came of it
_CAUSES = re.compile(rf" (?:\w+ly )?{CHANGES.pattern}\w*(?:s|d)\b")
# "once 80% of them share a part", "as graphs grow from 5 to 100 actions": under which condition
_CONDITION = re.compile(
    r"\b(?:scaling|as (?:\w+ ){1,3}(?:grow|increase|scale)s?) $"
    r"|(?:^by \w+ing|\b(?:when|if|once|unless|whenever|even (?:with|at|under)))\b"
    r"[^,;:()]*(?<!and )$"
)
# The words that make a time, a memory or a length something that was measured.
_GAIN_AFTER = re.compile(r"\W{0,3}(?:(?!that |which )\w+ ){0,3}?" + words("gain after"))
_GAINS_AT_ONCE = re.compile(r"[ -]" + words("gain after"))  # "and even a 20x speedup"
_TAKES = re.compile(
    r"\b(?:takes?|took|finish\w*|converg\w*) (?:in )?(?:only |just |about |under )*$"
)
_TIME_MEASURED = re.compile(
    words("time measured") + "|in (?:only |just |about |approximately |under |less than )?$"
)
_LENGTH_OF_INPUT = re.compile(r"\b(?:every|each|last|first|past|next|for|over|for up to|long) $")
_HOURS_OF = re.compile(r"\b(?:hours|minutes) (?:of|for|over|long)\b")
# "40 GB of text", unlike "40 GB of memory"
_MEMORY_OF_DATA = re.compile(r" of (?!.{0,20}(?:memory|ram\b|storage|parameters))")
_MEMORY_MEASURED = re.compile(words("memory measured"))
_LENGTH_MEASURED = re.compile(r"\b" + words("length measured"))
_LENGTH_AFTER = re.compile(r" (?:\w+ ){0,2}?" + words("length after") + r"s?\b(?! of)")
# "crossing a 40m field", "95% of the estimates within 0.5 m", "the 20 cm accuracy task"
_LENGTH_GIVEN = re.compile(r"\b(?:an?|each|every|accurate|at) $|% of [^.;]{1,40} within $")
_TARGET_AFTER = re.compile(
    r" (?:accuracy|target|precision) (?:target|task|level|setting)|\)? (?:wide|high|tall|long)\b"
)
# Text allowed between two outcomes of a list or a comparison.
_LISTED = re.compile(
    rf"[}}%x)\s]*(?:{METRIC})?"
    + r"(?:± ?[\d.]+%?)?(?:\([^)]*\))?\s?"
    + words("listed")
    + r"\s?\(?(?:only |up to |about |approximately )?$"
)
_LISTED_SETTING = re.compile(r",? ?(?:and |or |/ ?)?")
_LISTED_REACH = 90  # characters


def is_outcome(expression: Expression, place: Place, last: Expression | None = None) -> bool:
    """True if a number, range or change is an outcome of the abstract's own work.

    `last` is the outcome before it: what is listed or compared with an outcome is one.
    """
    if place.is_background or OTHERS_RESULT.search(place.words):  # what was known before
        return False
    if last is not None and _is_listed(expression, place, last):
        return True
    unit = expression.unit
    if unit == "x":
        return is_factor(expression, place) and bool(RESULT.search(place.words))
    if unit in _GAINS:  # "1,000 track points" are a size
        number = expression.numbers[-1]
        is_counted = number.is_word and not _BY.search(place.before)  # "how two points meet"
        is_size = unit == "points" and (number.value > 100 or is_counted)
        return not is_size and _is_share(expression, place)
    if expression.is_change and unit not in _LENGTHS:
        return _is_change(expression, place)
    return _is_level(expression, place)


def is_setting(expression: Expression, place: Place, last: Expression | None = None) -> bool:
    """True if it is a p-value, an interval, a spread, a variable or another setting."""
    before, after = place.before[-60:], place.after
    is_range = before.endswith("ranging ")  # "ranging from 3 to 60" is no change
    return bool(
        (last is not None and _is_listed_setting(expression, place, last))
        or any(sign.search(before) for sign in (_P_VALUE, _INTERVAL_BEFORE, _AT_POINT))
        or (_VARIABLE.search(before) and "krippendorff" not in before)
        or any(sign.match(after) for sign in (_INTERVAL_AFTER, _SCALE_AFTER))
        or (expression.unit == "x" and is_of_setting(expression, place))
        or _is_attribute(expression, place)
        or _is_spread(before)
        or _is_interval(before, after)
        or _SETTING_BEFORE.search(before)
        or (_NAMED_SETTING.search(before) and (not expression.is_change or is_range))
        or (_DATA_OF.search(before) and expression.unit != "%")
        or (_AT.search(before) and _OPERATING_POINT.match(after))
        or (_UNDER.search(place.before) and after.startswith(","))
        or _SET_CHANGE_AFTER.match(after)
        or (_GIVEN_BEFORE.search(before) and not _GAINS_AT_ONCE.match(after))
        or (expression.unit in {"%", ""} and _GIVEN_AFTER.match(after))
        or _TOP_OF_SCALE.search(before + place.folded.text[expression.start : expression.end])
    )


def _is_listed_setting(expression: Expression, place: Place, last: Expression) -> bool:
    is_alike = last.numbers[-1].own_unit and last.unit == expression.unit
    joint = place.folded.text[last.end : expression.start]
    return is_alike and bool(_LISTED_SETTING.fullmatch(joint))


def _is_attribute(expression: Expression, place: Place) -> bool:
    """True if it is an attribute: "a 3-hour recording", "a 5-point scale", "300W-LP".

    A "3-point improvement" is one.
    """
    written = place.folded.text[expression.numbers[-1].digits_end : expression.end]
    is_name = re.match(r"-[A-Z]|[A-Za-z]", place.folded.cased[expression.end : expression.end + 2])
    is_joined = written.startswith("-") and expression.unit not in {"%", "pp", "x"}
    return bool(is_name) or (is_joined and not _GAIN_AFTER.match(place.after))


def _is_spread(before: str) -> bool:
    return before.rstrip().endswith("±") or (before[-1:] == "(" and before[-2:-1].isdigit())


def _is_interval(before: str, after: str) -> bool:
    """True if the number is one of two in brackets, one of which may be round."""
    closes = re.match(r"[^\[\]]{0,30}\]", after)
    inside = re.split(r"[\[(]", before)[-1]
    return bool(closes) and ("," in inside or bool(re.match(r"%?[,\]]| ?-", after)))


def _is_share(expression: Expression, place: Place) -> bool:
    """True if a share or a difference was measured; a share of the data was chosen."""
    before, after, sentence = place.before[-60:], place.after, place.words
    if _CONDITION.search(place.before):
        return False
    return expression.unit != "%" or not (
        (DATA_DESCRIBED.search(sentence) and not _DESCRIBES_RESULT.search(sentence))
        or (_USED.search(before) and (_PART_OF_DATA.match(after) or _SETTING_AFTER.match(after)))
        or (_SPLIT.search(sentence) and (_SPLIT_BEFORE.search(before) or _SPLIT_AFTER.match(after)))
        or _SUBSET_OF.search(before)
        or (_PART_OF_WHOLE.match(after) and not before.endswith("by "))
    )


def _is_change(expression: Expression, place: Place) -> bool:
    """True if it is "from A to B" of a measured quantity."""
    last = expression.numbers[-1]
    is_model = place.folded.text[last.digits_end : last.end] in {"b", "t"}
    is_year = not expression.unit and _YEAR.fullmatch(str(last.value))
    is_size = is_model or is_year or _SIZE_AFTER.match(place.after)
    is_set = _CONDITION.search(place.before) or _CAUSES.match(place.after)
    return not (is_size or is_set) and bool(CHANGES.search(place.words))


def _is_level(expression: Expression, place: Place) -> bool:
    unit = expression.unit
    if unit in _LENGTHS:
        return _is_length(expression, place)
    if unit not in TIMES | {"day"} | _MEMORY | _LEVELS and "/" not in unit:
        return is_score(expression, place)
    is_given = unit != "fps" and _GIVEN.search(place.before)
    if is_given or _INPUT_AFTER.match(place.after):
        return False
    if unit in TIMES | {"day"}:
        return _is_time(expression, place)
    if unit in _MEMORY:
        is_size = _HARDWARE_BEFORE.search(place.before) or _MEMORY_OF_DATA.match(place.after)
        return not is_size and bool(_MEMORY_MEASURED.search(place.words))
    is_price = unit == "usd" and place.before.endswith(" a ")  # "a 350 USD printer"
    is_name = place.folded.cased.startswith("ML", expression.end - 2)  # "10 ML baselines"
    measured = _RATE_MEASURED if unit in _RATES else RESULT
    return not is_price and not is_name and bool(measured.search(place.words))


def _is_length(expression: Expression, place: Place) -> bool:
    """True if a length was measured; "within 0.5 m" and "a 40 m field" were given."""
    is_million = place.folded.cased.startswith("M", expression.end - 1)
    if is_million or expression.numbers[-1].value >= 10**6:
        return False  # 6.7M of 117M, 28 trillion pixels are a size
    if _LENGTH_AFTER.match(place.after):
        return True
    if expression.numbers[-1].is_word or _LENGTH_GIVEN.search(place.before):
        return False
    is_target = _TARGET_AFTER.match(place.after)
    return not is_target and bool(_LENGTH_MEASURED.search(place.before[-60:]))


def _is_time(expression: Expression, place: Place) -> bool:
    """True if a time was measured; the length of a "3-hour" recording was not."""
    if expression.unit == "day":
        return bool(_TAKES.search(place.before))
    is_name = place.folded.cased.startswith("H", expression.end - 1)  # "174 H&N patients"
    if is_name or _LENGTH_OF_INPUT.search(place.before):
        return False
    if expression.unit in {"h", "min"} and _HOURS_OF.search(place.words):
        return False
    return any(_TIME_MEASURED.search(words) for words in (place.before, place.after))


def _is_listed(expression: Expression, place: Place, last: Expression) -> bool:
    """True if a number follows an outcome of its kind in a list or a comparison."""
    if last.start < place.sentence[0]:
        return False
    shorter = not expression.unit and last.unit in _GAINS  # "17.9 points and 10.4"
    if expression.unit != last.unit and not shorter:
        return False
    if not expression.unit:
        text, number = place.folded.text, expression.numbers[-1]
        written = text[number.start : number.end]
        if "." not in written or number.end > number.digits_end:
            return False
        if not shorter and "." not in text[last.start : last.end]:
            return False
    joint = place.folded.text[last.end : expression.start]
    return len(joint) < _LISTED_REACH and bool(_LISTED.fullmatch(joint))
