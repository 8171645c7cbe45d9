"""The numbers of a folded text, each with its sign, magnitude, unit and spread."""

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from .folding import Folded, fold_with_places
from .number import Number
from .units import SIZES, TIMES, unit_behind
from .words import word_numbers

# A number begins neither inside a word (v2, resnet50), nor after a word and a hyphen (gpt-4),
# nor inside another number; it ends where no digit goes on. Words are Latin here: in Chinese a
# number stands beside its neighbours without a blank.
_NUMBER = re.compile(
    r"(?<![a-z0-9_.^@])(?:(?<![a-wyz^_]-)|(?<=\d[kmbtsh]-)|(?<=\d(?:ms|[kmgt]b|[kmc]m|hz|db)-))"
    r"(?<![\^_]\+)(?<![^\d]x-)(?<![a-z]\.)(?<!\d[,:])"
    r"(?P<factor>(?<![\d%)])x ?)?"
    r"(?P<sign>(?<![\d%x])(?<![\d%x] )(?:[-+] ?(?=[\d.])))?"
    r"(?P<digits>\d+(?:\.\d+)?|\.\d+)"
    r"(?:e(?P<exponent>[-+]?\d{1,3})(?![\d.])|x10 ?\^ ?(?P<power>[-+]?\d{1,3})"
    r"|(?<=10)(?<![\d.]10)\^ ?(?P<ten>[-+]?\d{1,3}))?"
    r"(?!\d|\.\d|,\d)"
)
# Before a unit these are one number: "1 234 ms", "1/2 ms", "1 1/2 ms".
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?: \d{3}){1,4}(?:\.\d+)?(?!\d|[.,:/]\d)")
_FRACTION = re.compile(r"(?<!/)(?P<whole>\d{1,3} )?(?P<part>1/2|1/3|2/3|1/4|3/4)(?![\d/.])")
_PARTS = {"1/2": ".5", "1/3": ".333", "2/3": ".667", "1/4": ".25", "3/4": ".75"}
_PARTED = TIMES | SIZES | {"day", "byte"}
_LABEL_BEFORE = re.compile(  # "Table 3 120 ms" and "layer 7 128 MB" are two
    r"(?<![a-z])(?:tab(?:le|\.)|sec(?:tion|\.)|fig(?:ure|\.)|eq(?:uation|\.)|appendix|chapter|page"
    r"|layer|block|head|level|step|stage|phase|epoch|round|day|week|version|experiment|case|model"
    r"|gpu|node)s? $"
)
_SPREAD = re.compile(r" ?± ?(\d+(?:\.\d+)?|\.\d+)(?P<percent>%?)")
_MAGNITUDES = {"k": 3, "m": 6, "b": 9, "t": 12, "mn": 6, "bn": 9, "thousand": 3, "million": 6}
_MAGNITUDES |= {"billion": 9, "trillion": 12, "十": 1, "百": 2, "千": 3, "万": 4, "亿": 8}
_MAGNITUDE_WORD = re.compile(
    r" ?-?(thousand|million|billion|trillion|bn|mn)(?!\w)|(万亿|[十百千]?[万亿]|千)"
)
_MAGNITUDE_SIGN = re.compile(r"(?: ?[MBT]|[kK])(?![A-Za-z0-9/])|(?: ?[MB]|[kK])(?=-[A-Za-z])")
_SIZE_AFTER = re.compile(r"%?x ?\d|x ?(?:[a-z]\b|\d)| by \d+(?: |-)?(?:px|pixel)")
_SIZE_BEFORE = re.compile(r"\d ?x ?$")
_LETTER = re.compile(r"[a-z]")
_NAME_BEFORE = re.compile(r"(?<![\w.-])[a-z][\w.-]*-$")  # the 7 of qwen2.5-7b
_PLURAL_OF_A_NAME = re.compile(r"s(?!\w)")  # "4090s" and "1990s" are plurals, "20 s" is a time
_NAME_AND_YEAR = re.compile(r"\bon [A-Z][\w-]* $")  # the 24 of "91% on AIME 24, and 64%"
_JOINED_BY = re.compile(r" ?(?:-|to|->|至|到|or|and|/|, and|, or) ?")
_RANGE = re.compile(r" ?(?:-|to|->|至|到|or|/) ?")
_LISTED_BY = re.compile(r", ?")


def numbers(text: str) -> list[Number]:
    """Return the numbers of a text, folded or not, in order."""
    return numbers_in(fold_with_places(text))


def numbers_in(folded: Folded) -> list[Number]:
    """Return the numbers of a folded text, in order, with words like "eightfold"."""
    candidates = sorted(
        [*_figures(folded), *word_numbers(folded.text)], key=lambda n: (n.start, n.start - n.end)
    )
    distinct: list[Number] = []
    for number in candidates:
        if not distinct or number.start >= distinct[-1].end or number.is_spread:
            distinct.append(number)
    return _with_shared_units(folded, distinct)


def _figures(folded: Folded) -> Iterator[Number]:
    text = folded.text
    for match in _NUMBER.finditer(text):
        before = text[max(0, match.start() - 40) : match.start("digits")]
        if not _NAME_BEFORE.search(before):
            yield from _figure(folded, match)


def _figure(folded: Folded, match: re.Match[str]) -> Iterator[Number]:
    text = folded.text
    digits, end = _digits(text, match)
    value = Decimal((match["sign"] or "").strip() + digits)
    if match["exponent"] or match["power"]:
        value = value.scaleb(int(match["exponent"] or match["power"]))
    elif match["ten"]:
        value = Decimal(1).scaleb(int(match["ten"]))
    digits_end = end
    before = text[max(0, match.start() - 4) : match.start()]
    is_size = bool(_SIZE_AFTER.match(text, end) or _SIZE_BEFORE.search(before))
    power, end = _magnitude(folded, end)
    value = value.scaleb(power)
    spread = _SPREAD.match(text, end)
    after = spread.end() if spread else end
    if spread and spread["percent"]:
        unit, unit_end = "%", after
    elif len(digits) == 4 and _PLURAL_OF_A_NAME.match(text, after):
        unit, unit_end = "", after
    else:
        unit, unit_end = unit_behind(text, after)
    if match["factor"] or (not unit and text.endswith("factor of ", 0, match.start())):
        unit, unit_end = "x", after
    elif not unit and text.endswith("\\$", 0, match.start()):
        unit, unit_end = "usd", after
    if unit:
        end = unit_end
    if is_size and unit == "x":
        unit, end = "", digits_end
    if not (unit or is_size or power) and _LETTER.match(text, digits_end):
        return  # the 3 of "3dgs", the 1080 of "1080p"
    start = match.start() if not (is_size and match["factor"]) else match.start("digits")
    if unit == "usd" and unit_end == after:
        start -= len("\\$")
    yield Number(value, unit, start, end, digits_end, is_size, own_unit=bool(unit))
    if spread:
        span = spread.span(1)
        yield Number(Decimal(spread[1]), unit, *span, span[1], is_spread=True)


def _digits(text: str, match: re.Match[str]) -> tuple[str, int]:
    """The digits of a number and where they end; "1 234" and "1/2" are one before a unit."""
    start, end = match.start("digits"), match.end("digits")
    if end == match.end():
        thousands = _THOUSANDS.match(text, start)
        if thousands and not _LABEL_BEFORE.search(text[max(0, start - 20) : start]):
            is_size = _SIZE_AFTER.match(text, thousands.end())
            if not is_size and _leads_to_unit(text, thousands.end()):
                return thousands[0].replace(" ", ""), thousands.end()
        fraction = _FRACTION.match(text, start)
        if fraction and unit_behind(text, fraction.end())[0] in _PARTED:
            whole = (fraction["whole"] or "").strip()
            return whole + _PARTS[fraction["part"]], fraction.end()
    return match["digits"], match.end()


def _leads_to_unit(text: str, position: int) -> bool:
    """True if a unit follows, or ends the range that begins here: "1 000 to 2 500 ms"."""
    joint = _RANGE.match(text, position)
    other_end = joint and _THOUSANDS.match(text, joint.end())
    return bool(
        unit_behind(text, position)[0] or (other_end and unit_behind(text, other_end.end())[0])
    )


def _magnitude(folded: Folded, position: int) -> tuple[int, int]:
    """The power of ten that K, M, B or a word behind a number stands for, and where it ends."""
    if word := _MAGNITUDE_WORD.match(folded.text, position):
        return sum(_MAGNITUDES[part] for part in ([word[1]] if word[1] else word[2])), word.end()
    if sign := _MAGNITUDE_SIGN.match(folded.cased, position):
        return _MAGNITUDES[sign[0].strip().lower()], sign.end()
    return 0, position


def _with_shared_units(folded: Folded, separate: list[Number]) -> list[Number]:
    """The first ends of "2 to 3 ms" and "12, 15 and 18%" take the unit of the last."""
    shared = list(separate)
    in_list = False  # further right an "and" or "to" joins two numbers: commas list more of them
    for i in range(len(separate) - 2, -1, -1):
        number, following = separate[i], shared[i + 1]
        joint = folded.text[number.end : following.start]
        if _NAME_AND_YEAR.search(folded.cased, max(0, number.start - 20), number.start):
            continue
        in_list = bool(_JOINED_BY.fullmatch(joint) or (in_list and _LISTED_BY.fullmatch(joint)))
        if not in_list or number.unit or number.is_size or number.is_spread or number.is_word:
            continue
        if following.unit == "x" and not _RANGE.fullmatch(joint):
            continue  # "for batch 1 and 0.9x as fast"
        if following.unit and not (following.is_word or following.is_spread):
            shared[i] = replace(number, unit=following.unit)
    return shared
