"""One spelling for text that means the same: what numbers are read from and quotes compared in.

PDF, HTML, TeX and a model's answer write one sentence in many ways: ligatures, hyphenation at
line ends, thin spaces, dashes, percent and times signs, invisible characters. `fold` maps them to
one form and never makes a number out of what was none (10² becomes 10^2, not 102). Every folded
character knows its place in the text it came from.
"""

import re
import unicodedata
from dataclasses import dataclass

from webapp.core.tables import table

_TABLES = table(__file__, "rewrites.toml")
_SIGNS: dict[str, str] = {c: plain for signs, plain in _TABLES["signs"].items() for c in signs}
_REWRITES = tuple((re.compile(pattern), plain) for pattern, plain in _TABLES["rewrites"])
# ASCII as it is, a control character, or another with its accents.
_CLUSTER = re.compile(r"(?P<plain>[\t-\r -~]+)|[\x00-\x7f]|.[\u0300-\u036f]*", re.DOTALL)
_COMMA_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,])")


Places = list[tuple[int, int]]  # of each character: where it began and ended in the original


@dataclass(frozen=True)
class Folded:
    """A text in its one form. `places[i]` is where `text[i]` stood before.

    `cased` is `text` before it was put in lower case: 5M are millions, 5m are metres.
    """

    text: str
    cased: str
    places: Places

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the place of the folded characters `start:end` in the original text."""
        return self.places[start][0], self.places[end - 1][1]


def fold(text: str) -> str:
    """`text` in the one form that grounding compares: lower case, single spaces, plain signs."""
    return fold_with_places(text).text


def fold_with_places(text: str) -> Folded:
    """`text` in its one form, with the way back to the places of the original."""
    cased, places = _plain_characters(text)
    for pattern, plain in _REWRITES:
        cased, places = _rewritten(pattern, plain, cased, places)
    numbers = (range(*match.span()) for match in _COMMA_THOUSANDS.finditer(cased))
    if commas := {i for number in numbers for i in number if cased[i] == ","}:
        indices = [i for i in range(len(cased)) if i not in commas]
        cased, places = "".join(cased[i] for i in indices), [places[i] for i in indices]
    return Folded(_lower(cased), cased, places)


def _plain_characters(text: str) -> tuple[str, Places]:
    """Signs and compatibility forms spelt plainly; invisible characters left out."""
    written: list[str] = []
    places: Places = []
    for cluster in _CLUSTER.finditer(text):
        start, end = cluster.span()
        if cluster["plain"]:
            written.append(cluster[0])
            places.extend((index, index + 1) for index in range(start, end))
            continue
        plain = cluster[0][0]  # thin spaces stay: a rewrite removes those between thousands
        if plain not in "\u2009\u202f\u00a0":
            plain = "".join(_SIGNS.get(c, c) for c in cluster[0])
            plain = unicodedata.normalize("NFKC", plain)
            plain = "".join(_SIGNS.get(c, c) for c in plain if not _is_invisible(c))
        written.append(plain)
        places.extend([(start, end)] * len(plain))
    return "".join(written), places


def _is_invisible(char: str) -> bool:
    """Controls, and format characters: zero-width, soft hyphen, bidirectional overrides."""
    return unicodedata.category(char) in {"Cc", "Cf", "Cs"} and char not in "\n\t\r\f\v\x85"


def _lower(text: str) -> str:
    """Lower case, character by character, so that places stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _rewritten(
    pattern: re.Pattern[str], plain: str, text: str, places: Places
) -> tuple[str, Places]:
    """Return `pattern.sub(plain, text)`, each new character at its source's place."""
    pieces: list[str] = []
    new_places: Places = []
    position = 0
    for match in pattern.finditer(_lower(text)):
        start, end = match.span()
        pieces.append(text[position:start])
        new_places += places[position:start]
        if "\\1" in plain:  # the braces around a number go, the number stays where it is
            first, last = match.span(1)
            pieces.append(text[first:last])
            new_places += places[first:last]
        else:
            pieces.append(plain)
            new_places += [(places[start][0], places[end - 1][1])] * len(plain)
        position = end
    return "".join([*pieces, text[position:]]), new_places + places[position:]
