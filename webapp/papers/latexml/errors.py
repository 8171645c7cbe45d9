"""Commands that LaTeXML did not know: it writes their arguments into the text behind them.

`\\cellcolor{blue!10}63.5` becomes "blue!1063.5". An argument is taken away only where it is sure
where it ends: else the text stays, and is no number.
"""

import re

_COLOURS = re.compile(r"\\(?:(?:cell|row|column|text|page)?color|colorbox)\*?")
_HTML = re.compile(r"\s*\[HTML\]\s*[0-9A-Fa-f]{6}")
_MODEL = re.compile(r"\s*\[(?P<model>rgb|RGB|gray|cmyk)\]\s*(?P<first>(?:[\d.]+,\s*){0,3})")
_NAMED = re.compile(r"\s*(?:[A-Za-z]+!\d{1,3}!)*(?P<name>[A-Za-z]+)(?P<share>!(?=\d))?")
_COLOURS_OF_XCOLOR = (
    "red|green|blue|cyan|magenta|yellow|black|white|gray|grey|brown|lime|olive|orange|pink|purple"
    "|teal|violet"
)
# "gray", "mygray", "Gray" or "ForestGreen"; behind it "Wren" of "redWren" is another word.
_COLOUR = rf"(?:[a-z]*(?:{_COLOURS_OF_XCOLOR})|(?:[A-Z][a-z]+)?(?:{_COLOURS_OF_XCOLOR.title()}))"
_ENDS_IN_COLOUR = re.compile(rf"(?:{_COLOUR})+")
_BEGINS_WITH_COLOUR = re.compile(rf"{_COLOUR}(?=[A-Z])")
_NUMBER_ALONE = re.compile(r"\s*[-+−±]?\.?\d[^A-Za-z]*")
_PART = re.compile(r"\d{1,3}|[01]?\.\d{1,4}")
_NUMBER = re.compile(r"[-+−]?(?:0|[1-9][\d,]*)(?:\.\d+)?(?![\d.])")
_ROWS = re.compile(r"\s*-?\d{1,2}\s*\*")
LONGEST = 24  # digits that a colour and a number behind it have
MOST = {"rgb": 1, "cmyk": 1, "gray": 1, "RGB": 255, "!": 100}


def is_row_colour(command: str) -> bool:
    """True if an unknown command colours the row it is in."""
    return command.strip().startswith("\\rowcolor")


def is_colour(command: str) -> bool:
    """True if an unknown command sets a colour."""
    return bool(_COLOURS.fullmatch(command.strip()))


def without_arguments(command: str, text: str, *, is_followed: bool = False) -> str:
    """Return the text behind an unknown command without the arguments at its beginning.

    The text `is_followed` if an element stands behind it: then it may be an argument alone.
    """
    if command.strip() == "\\multirow":
        return _ROWS.sub("", text, count=1)
    if not is_colour(command):
        return text
    if html := _HTML.match(text):
        return text[html.end() :]
    if model := _MODEL.match(text):
        parts = re.findall(r"[\d.]+", model["first"])
        return _behind_number(text, model.end(), MOST[model["model"]], parts)
    named = _NAMED.match(text)
    if named and named["share"]:
        return _behind_number(text, named.end(), 100, [])
    length = named and _length_of_name(named["name"], text[named.end() :], is_followed)
    return text[named.start("name") + length :] if named and length else text


def _length_of_name(letters: str, rest: str, is_followed: bool) -> int:
    """Return how many of the letters name a colour; 0 if it is not sure where the name ends.

    A colour of one's own may have any name ("best"), which is sure to end only at a number.
    """
    if _ENDS_IN_COLOUR.fullmatch(letters):
        return len(letters)
    if colour := _BEGINS_WITH_COLOUR.match(letters):
        return colour.end()
    is_alone = is_followed and not rest.strip()
    is_before_number = letters.islower() and _NUMBER_ALONE.fullmatch(rest)
    return len(letters) if is_alone or is_before_number else 0


def _behind_number(text: str, start: int, most: int, parts: list[str]) -> str:
    """The text behind a number of at most `most` that the next number may run into.

    It ends where no digit follows, or at the only place that leaves a number as people write it: a
    share of five or more like other shares, or as many decimals as the other parts have.
    """
    run = re.match(rf"[\d.]{{0,{LONGEST}}}", text[start : start + LONGEST])
    digits = run[0] if run else ""
    if _PART.fullmatch(digits) and float(digits) <= most:
        return text[start + len(digits) :]
    decimals = {len(part.partition(".")[2]) for part in parts}
    ends = [
        end
        for end in range(1, len(digits))
        if _PART.fullmatch(digits[:end])
        and float(digits[:end]) <= most
        and _NUMBER.match(digits[end:])
        and _is_usual(digits[:end], decimals)
    ]
    return text[start + ends[0] :] if len(ends) == 1 else text


def _is_usual(part: str, decimals: set[int]) -> bool:
    if decimals:
        return len(part.partition(".")[2]) in {0, max(decimals)}
    return "." in part or int(part) % 5 == 0
