"""Numbers that are written as words: "two", "eightfold", "halves", "two orders of magnitude", 三倍.

Each has a value and a unit ("" where a unit may follow), and other ways to say the same: half is
50 %, 0.5 and a factor of two.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from webapp.ui.tables import table

from .number import Number
from .units import unit_at

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL = {word: n for n, word in enumerate(_ONES)}
SMALL |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
SMALL |= {
    f"{ten}{joint}{one}": SMALL[ten] + SMALL[one]
    for ten in _TENS
    for one in _ONES[1:10]
    for joint in ("", " ")  # the fold takes the hyphen out of "twenty-five"
}
_LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_NUMBER = "|".join(sorted(SMALL, key=len, reverse=True))

_FIXED: dict[str, list[list[str]]] = table(__file__, "words.toml")
_WORDS = re.compile(
    rf"(?<![\w-])(?:"
    rf"(?P<orders>(?:(?P<order_count>{_NUMBER}|\d+|an?)(?: to (?:{_NUMBER}|\d+))? )"
    r"orders? of magnitude)"
    rf"|(?P<fold>{_NUMBER}|hundred|thousand) ?fold"
    rf"|(?P<number>{_NUMBER})(?: (?P<large>hundred|thousand|million|billion))?"
    rf"|(?P<half>half an?(?= [a-z]))"
    rf"|(?:an? )?(?P<bare>hundred|thousand|million|billion)"
    rf")(?!\w)(?!-\d)"
)
_FIXED_WORDS = tuple(
    (re.compile(rf"(?<![\w-])(?:{p})(?!\w)|(?:{p})(?<=[^\x00-\x7f])"), m) for p, m in _FIXED.items()
)
_CHINESE_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_PLACES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_CHINESE = "[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?"
_CHINESE_NUMBER = re.compile(
    rf"(?P<percent>百分之)(?P<part>{_CHINESE}|\d+(?:\.\d+)?)"
    rf"|(?P<whole>{_CHINESE})(?=(?P<unit>倍|成|个?百分点|毫秒|微秒|秒|分钟|小时|天))"
)


def word_numbers(text: str) -> Iterator[Number]:
    """Every number that a folded text writes in words."""
    for match in _WORDS.finditer(text):
        yield _english(text, match)
    for pattern, meanings in _FIXED_WORDS:
        (value, unit), *same = ((Decimal(value), unit) for value, unit in meanings)
        for match in pattern.finditer(text):
            yield _number(text, value, unit, match.span(), tuple(same))
    for match in _CHINESE_NUMBER.finditer(text):
        if match["percent"]:
            yield _number(text, chinese_value(match["part"]), "%", match.span())
        elif match["unit"] == "成":  # 三成 is 30 %
            span = match.start(), match.end() + 1
            yield _number(text, 10 * chinese_value(match["whole"]), "%", span)
        else:
            yield _number(text, chinese_value(match["whole"]), None, match.span("whole"))


def _english(text: str, match: re.Match[str]) -> Number:
    if match["orders"]:
        count = match["order_count"]
        power = 1 if count in {"a", "an"} else SMALL.get(count) or int(count[:2])
        return _number(text, Decimal(10) ** power, "x", match.span(), ((Decimal(power), ""),))
    if match["fold"]:
        value = SMALL.get(match["fold"]) or _LARGE[match["fold"]]
        return _number(text, Decimal(value), "x", match.span())
    if match["half"]:  # half a second
        return _number(text, Decimal("0.5"), None, match.span(), ((Decimal(50), "%"),))
    if match["bare"]:
        return _number(text, Decimal(_LARGE[match["bare"]]), None, match.span())
    value = SMALL[match["number"]] * _LARGE.get(match["large"], 1)
    return _number(text, Decimal(value), None, match.span())


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
        unit, end = unit_at(text, words_end)
        if not unit and text[words_end : words_end + 1] == " ":
            unit, end = unit_at(text, words_end + 1)
        end = end if unit else words_end
        if not unit and text.endswith("factor of ", 0, start):
            unit = "x"
    return Number(value, unit, start, end, words_end, is_word=True, own_unit=bool(unit), same=same)


def chinese_value(written: str) -> Decimal:
    """三点五 is 3.5, 一百二十 is 120; figures stand for themselves."""
    if written[0].isascii():
        return Decimal(written)
    whole, _, fraction = written.partition("点")
    total = section = digit = 0
    for char in whole:
        place = _CHINESE_PLACES.get(char)
        if place is None:
            digit = _CHINESE_DIGITS[char]
        elif place >= 10**4:
            total = (total + section + digit) * place
            section = digit = 0
        else:
            section += (digit or 1) * place
            digit = 0
    value = Decimal(total + section + digit)
    if fraction:
        value += Decimal("0." + "".join(str(_CHINESE_DIGITS[c]) for c in fraction))
    return value
