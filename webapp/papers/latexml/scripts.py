"""Raised and lowered text behind a line: part of a name, an exponent, a spread, a gain, a note."""

import re
from typing import NamedTuple

TAIL = 40  # characters of a line that tell what stands raised or lowered behind them
_NUMBER = re.compile(r"(?:^|[\s(\[{/|,;:±~≈<>=×·x$€£])[-+−]?(?:\d[\d,]*)?\.?\d+\s?%?$")
_POWER_OF = re.compile(r"(?:^|[\s×·x*(])(?:10|\d)$|/10$")
_EXPONENT = re.compile(r"[-+−]?\d{1,3}")
_JOINED = re.compile(r"[±%°×].*|st|nd|rd|th", re.DOTALL)
_CHANGE = re.compile(r"\(?\s*[-+−–↑↓▲▼△▽]\s*[\d.].*", re.DOTALL)
_DECIMAL = re.compile(r"\(?\d*\.\d+%?\)?|\(.*\)")
_NOTE = re.compile(r"[\d,]{1,3}|[a-z](?:,[a-z])*|[^\w\s%°]+|\[[^\]]*\]")


class Line(NamedTuple):
    """Text that stands on a line, and the notes that are raised beside it."""

    text: str
    note: str = ""


def attach(line: str, script: str, *, is_raised: bool) -> Line:
    """Return the text that a script adds to the line before it, and the note beside it."""
    script = " ".join(script.split())
    written = f"{'^' if is_raised else '_'}{script}"
    if not script:
        return Line("")
    if not _NUMBER.search(line):
        is_mark = not script[0].isalnum() or not line.strip()
        is_index = not is_raised and not line[-1].isdigit() if line else False
        return Line(script if is_mark or is_index else written)
    is_exponent = is_raised and _POWER_OF.search(line) and _EXPONENT.fullmatch(script)
    if not is_exponent:
        if _JOINED.fullmatch(script):
            return Line(script)
        if _CHANGE.fullmatch(script) or _DECIMAL.fullmatch(script):
            return Line(f" ({script.strip('() ')})")
        if _NOTE.fullmatch(script):
            return Line("", script)
    return Line(written)
