"""Numbers that are written as words: "two", "eightfold", "halves", "two orders of magnitude", 三倍.

Each has a value and a unit ("" if a unit may follow), and other ways to say the same: half is
50 %, 0.5 and a factor of two.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from webapp.core.tables import table

from .number import Number
from .units import unit_behind

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: n for n, word in enumerate(_ONES)}
_SMALL |= {
    f"{ten}{digit and joint}{digit}": 10 * tens + _SMALL.get(digit, 0)
    for tens, ten in enumerate(_TENS, 2)
    for digit in ("", *_ONES[1:10])
    for joint in ("", " ")  # the fold takes the hyphen out of "twenty-five"
}
_LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_VALUES = _SMALL | _LARGE | {"a": 1, "an": 1}
_ANY_LARGE = "|".join(_LARGE)
_NUMBER = rf"(?:{'|'.join(sorted(_SMALL, key=len, reverse=True))})(?!\w)"
_PART = re.compile(rf"{_NUMBER}|(?:{_ANY_LARGE}|an?)(?!\w)")
# Words that may follow "hundred" or "thousand"; "between one hundred and two hundred" has two.
_LARGE_AND_REST = rf"(?:{_ANY_LARGE})(?: {_NUMBER}| and {_NUMBER}(?! (?:{_ANY_LARGE})))?"

_FIXED: dict[str, list[list[str]]] = table(__file__, "words.toml")
_WORDS = re.compile(
    rf"(?<![\w-])(?:"
    rf"(?P<orders>(?:(?P<order_count>{_NUMBER}|\d+|an?)(?:(?: to |-)(?:{_NUMBER}|\d+))? )"
    r"orders? of magnitude)"
    rf"|(?P<fold>{'|'.join([*_SMALL, *_LARGE])}) ?fold"
    rf"|(?P<number>(?:{_NUMBER}|(?:an? )?{_LARGE_AND_REST})(?: {_LARGE_AND_REST}){{0,6}})"
    rf"(?: point(?P<fraction>(?: (?:{'|'.join(_ONES[:10])}))+))?(?P<and_half> and a half)?"
    r"|(?P<half>half an?(?= [a-z]))"
    rf")(?!\w)(?!-\d)"
)
_FIXED_WORDS = tuple(
    (re.compile(rf"(?<![\w-])(?:{p})(?!\w)|(?:{p})(?<=[^\x00-\x7f])"), m) for p, m in _FIXED.items()
)
_CHINESE_VALUES = {char: n for n, char in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2}
_CHINESE_VALUES |= {"百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_CHINESE = f"[{''.join(_CHINESE_VALUES)}]{{1,24}}(?:点[零〇一二三四五六七八九]{{1,24}})?"
_CHINESE_NUMBER = re.compile(
    rf"(?P<percent>百分之)(?P<part>{_CHINESE}|\d+(?:\.\d+)?)"
    rf"|(?P<whole>{_CHINESE})(?=(?P<unit>倍|成[一二三四五六七八九]?|个?百分点|毫秒|微秒|秒|分钟|小时|天))"
)


def word_numbers(text: str) -> Iterator[Number]:
    """Yield the numbers that a folded text writes in words."""
    for match in _WORDS.finditer(text):
        yield _english(text, match)
    for pattern, meanings in _FIXED_WORDS:
        (value, unit), *same = ((Decimal(value), unit) for value, unit in meanings)
        for match in pattern.finditer(text):
            yield _number(text, value, unit, match.span(), tuple(same))
    for match in _CHINESE_NUMBER.finditer(text):
        if match["percent"]:
            yield _number(text, _chinese_value(match["part"]), "%", match.span())
        elif match["unit"][0] == "成":  # 三成 is 30 %, 八成五 is 85 %
            tenth = _CHINESE_VALUES.get(match["unit"][1:], 0)
            value = 10 * _chinese_value(match["whole"]) + tenth
            yield _number(text, value, "%", (match.start(), match.end("unit")))
        else:
            yield _number(text, _chinese_value(match["whole"]), None, match.span("whole"))


def _english(text: str, match: re.Match[str]) -> Number:
    if match["orders"]:
        count = match["order_count"]
        figures = re.match(r"\d{1,2}", count)
        power = Decimal(figures[0]) if figures else _english_value(count)
        return _number(text, 10**power, "x", match.span(), ((power, ""),))
    if match["fold"]:
        return _number(text, _english_value(match["fold"]), "x", match.span())
    if match["half"]:  # half a second
        return _number(text, Decimal("0.5"), None, match.span(), ((Decimal(50), "%"),))
    value = _english_value(match["number"])
    if match["fraction"]:
        value += Decimal("0." + "".join(str(_SMALL[digit]) for digit in match["fraction"].split()))
    if match["and_half"]:
        value += Decimal("0.5")
    return _number(text, value, None, match.span())


def _english_value(written: str) -> Decimal:
    """The value of "two thousand three hundred and five", "a hundred" or "an"."""
    return _composed([_VALUES[part] for part in _PART.findall(written)], 100)


def _number(
    text: str,
    value: Decimal,
    unit: str | None,
    span: tuple[int, int],
    same: tuple[tuple[Decimal, str], ...] = (),
) -> Number:
    """A number in words at `span` of the text; where `unit` is None, one may follow the words."""
    start, words_end = span
    end = words_end
    if unit is None:
        unit, end = unit_behind(text, words_end)
        if not unit and text.endswith("factor of ", 0, start):
            unit = "x"
    return Number(value, unit, start, end, words_end, is_word=True, own_unit=bool(unit), same=same)


def _chinese_value(written: str) -> Decimal:
    """三点五 is 3.5, 一百二十 is 120; figures stand for themselves."""
    if written[0].isascii():
        return Decimal(written)
    whole, _, fraction = written.partition("点")
    digits = "".join(str(_CHINESE_VALUES[char]) for char in fraction)
    value = _composed([_CHINESE_VALUES[char] for char in whole], 10)
    return value + Decimal(f"0.{digits}") if digits else value


def _composed(parts: list[int], smallest: int) -> Decimal:
    """The number that digits and multipliers make: 2, 1000, 3, 100 and 5 are 2305.

    `smallest` is the least multiplier. What stands before the largest is multiplied by it, what
    stands behind it is added: 一亿二千万 is 1.2e8, 五万亿 is 5e12.
    """
    largest = max(parts, default=0)
    if largest < smallest:
        return Decimal(parts[-1] if parts else 0)
    split = parts.index(largest)
    multiplied = _composed(parts[:split], smallest) or 1
    return multiplied * largest + _composed(parts[split + 1 :], smallest)
