"""Units in any spelling: the canonical name of each, and its position in a text."""

import re

from webapp.core.tables import table

TIMES = frozenset({"ns", "us", "ms", "s", "min", "h"})
SIZES = frozenset({"kb", "mb", "gb", "tb"})

_SPELLINGS: dict[str, str] = table(__file__, "units.toml")
_SECOND = r"(?:seconds?|sec|s|秒)"
_RATE = re.compile(
    r"(tokens?|tok|images?|imgs?|samples?|steps?|queries|qs?|requests?|videos?|its?|iterations?"
    r"|words?|chars?|characters?|clips?|令牌|个?词元)"
    rf" ?(?:/|per |每) ?({_SECOND}|minutes?|min|hours?|h|days?)(?!\w)"
)
_RATE_NAMES = {"tok": "token", "img": "image", "it": "iteration", "querie": "query", "q": "query"}
_RATE_NAMES |= {"令牌": "token", "词元": "token", "个词元": "token"}
_COMPOUND = re.compile(rf"(gb|mb|tb|kb) ?(?:/|per ) ?{_SECOND}(?!\w)")
_UNITS = tuple(
    (name, re.compile(rf"(?:{spelling})(?!\w)|(?:{spelling})(?=[^\x00-\x7f])"))
    for name, spelling in _SPELLINGS.items()
)


def unit_at(text: str, start: int) -> tuple[str, int]:
    """Return the unit at `start` of a folded text and its end; ("", start) if there is none.

    The longest spelling wins: "% points" is not "%", "mb/s" is not "mb".
    """
    if rate := _RATE.match(text, start):
        noun = rate[1].removesuffix("s")
        per, _ = unit_at(rate[2], 0)
        return f"{_RATE_NAMES.get(noun, noun)}/{per}", rate.end()
    if compound := _COMPOUND.match(text, start):
        return f"{compound[1]}/s", compound.end()
    best, end = "", start
    for name, pattern in _UNITS:
        match = pattern.match(text, start)
        if match and match.end() > end:
            best, end = name, match.end()
    return best, end


def unit_behind(text: str, position: int) -> tuple[str, int]:
    """Return the unit at `position`, or after a space or hyphen there, and its end."""
    for start in (position, position + 1):
        if start > position and text[position : position + 1] not in {" ", "-"}:
            break
        unit, end = unit_at(text, start)
        if unit and not (
            unit == "x" and start > position and text[position] == "-" and text[start] == "x"
        ):
            return unit, end
    return "", position


def unit_named(written: str) -> str:
    """Return the canonical name of a unit as a person writes it, or "" if it is unknown."""
    name, end = unit_at(written, 0)
    return name if end == len(written) else ""
