"""Numbers as they stand in folded text, with the unit written beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

# A number begins neither inside a word (v2, resnet50), nor after a word and a hyphen (gpt-4),
# nor inside another number; it ends where no digit goes on. `e` takes an exponent. Words are
# Latin here: in Chinese a number stands beside its neighbours without a blank.
_NUMBER = re.compile(
    r"(?<![a-z0-9_.^])(?<![a-z]-)(?<!\d,)"
    r"(?P<sign>(?<!\d)(?<![\d%x]\s)[-+])?"
    r"(?P<digits>\d+(?:\.\d+)?|\.\d+)"
    r"(?P<exponent>e[-+]?\d{1,3})?"
    r"(?!\d|\.\d|,\d)"
)
# "4090s" and "1990s" are plurals, "0.8s" and "20 s" are seconds.
_UNIT = re.compile(r"(?!(?<=\d{4})s\b)\s?(%|(?:[a-zμ°][a-zμ/]*|-fold)(?!\w))")

_SAME_UNIT = {
    "percent": "%",
    "percentage": "%",
    "pct": "%",
    "times": "x",
    "fold": "x",
    "-fold": "x",
    "xfaster": "x",
    "percentagepoints": "points",
    "pp": "points",
    "point": "points",
    "pts": "points",
    "%points": "points",
    "seconds": "s",
    "second": "s",
    "sec": "s",
    "secs": "s",
    "milliseconds": "ms",
    "millisecond": "ms",
    "microseconds": "us",
    "μs": "us",
    "minutes": "min",
    "minute": "min",
    "mins": "min",
    "hours": "h",
    "hour": "h",
    "hr": "h",
    "hrs": "h",
    "days": "day",
    "gigabytes": "gb",
    "gib": "gb",
    "megabytes": "mb",
    "mib": "mb",
    "kib": "kb",
    "billion": "b",
    "million": "m",
    "thousand": "k",
}
KNOWN_UNITS = frozenset(
    {"%", "x", "points", "s", "ms", "us", "ns", "min", "h", "day", "gb", "mb", "kb", "tb"}
    | {"b", "m", "k", "t", "db", "hz", "khz", "mhz", "ghz", "w", "kw", "j", "mj", "kwh"}
    | {"tokens/s", "tok/s", "flops", "gflops", "tflops", "fps", "px", "mm", "cm", "km"}
)


def unit_name(written: str) -> str:
    """One name for a unit however it is written: `percent` is `%`, `times` and `×` are `x`."""
    plain = re.sub(r"[\s.]+", "", written.casefold().replace("×", "x"))
    return _SAME_UNIT.get(plain, plain)


@dataclass(frozen=True)
class Number:
    """A number at `start:end` of a folded text, and the unit behind it ("" where none is known)."""

    value: Decimal
    unit: str
    start: int
    end: int


def numbers(folded: str) -> Iterator[Number]:
    """Every number of a folded text, in order. `2-3x` holds 2 and 3, the unit on the last."""
    for match in _NUMBER.finditer(folded):
        written = (match["sign"] or "") + match["digits"] + (match["exponent"] or "")
        behind = _UNIT.match(folded, match.end())
        unit = unit_name(behind[1]) if behind else ""
        if behind and folded[behind.end() : behind.end() + 7] == " points" and unit == "%":
            unit = "points"
        yield Number(
            Decimal(written), unit if unit in KNOWN_UNITS else "", match.start(), match.end()
        )
