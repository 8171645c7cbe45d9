"""Renders untrusted text with TeX as safe HTML.

arXiv's titles and abstracts are plain text with some TeX: formulas between dollars, a few text
macros, accents. `render` turns mathematics into MathML, shows the source of what is invalid, and
escapes everything else. Last, the result goes through nh3's allow-list, so no mistake of the steps
before it can make a page unsafe.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import nh3

from webapp.ui.formulas import mathml
from webapp.ui.tables import table

MAX_TEXT = 20_000  # characters parsed as TeX; the rest is shown as plain text
MAX_FORMULAS = 200  # rendered in one text
MAX_NESTING = 12  # of macros

# The allow-lists, and the characters that TeX's macros stand for.
DATA = table(__file__, "markup.toml")
_BOUNDED = {name: re.compile(pattern) for name, pattern in DATA["bounded"].items()}
_TEX: dict[str, dict[str, str]] = DATA["tex"]


def _attribute(_tag: str, name: str, value: str) -> str | None:
    pattern = _BOUNDED.get(name)
    return value if pattern is None or pattern.fullmatch(value) else None


def _cleaner(*kinds: str) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags={tag for kind in kinds for tag in DATA[kind]},
        attributes={tag: set(names) for tag, names in DATA["attributes"].items()},
        attribute_filter=_attribute,
        allowed_classes={tag: set(names) for tag, names in DATA["classes"].items()},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="nofollow noopener noreferrer",
    )


_CLEANER = _cleaner("mathml", "inline")
_BLOCK_CLEANER = _cleaner("mathml", "inline", "blocks")

# Only shapes and labels: no scripts, styles, links or external references.
_DRAWING = {tag: set(names) for tag, names in DATA["drawing"].items()}
_DRAWING_CLEANER = nh3.Cleaner(
    tags=_DRAWING.keys() - {"*"},
    clean_content_tags={"script", "style"},
    attributes=_DRAWING,
    generic_attribute_prefixes=set(),
    strip_comments=True,
)
_TOKEN = re.compile(
    r"""
      (?P<math> \$\$ (?P<m1> (?:[^$\\]|\\.){1,1100} ) \$\$
              | \$(?!\s) (?P<m2> (?:[^$\\]|\\.){1,1100} ) (?<!\s) \$(?!\d)
              | \$(?=[^$\s]*(?:\\[A-Za-z]|[\^_])) (?P<m6> (?:[^$\\]|\\.){1,1100} ) (?<!\s) \$
              | \$(?=\s) (?P<m3> (?:[^$\\]|\\.){1,1100} ) (?<=\s) \$(?!\d)
              | \\\( (?P<m4> .{1,1100}? ) \\\)
              | \\\[ (?P<m5> .{1,1100}? ) \\\] )
    | \\(?P<style> emph | textit | textsl | textbf | texttt | textsc | textrm | textsf | text
              | mbox | underline | textsuperscript | textsubscript ) (?P<open> \{ )
    | (?P<group> \{ ) \\(?P<switch> em | it | bf | tt ) \s
    | \\url \{ (?P<bare> https?://[^\s{}<>"\\^`]{1,500} ) \}
    | (?P<url> https?://[^\s{}<>"\\^`$|]{1,500} )
    | (?P<accent> \{? (?:
          \\(?P<a1>['`^"~=.]) \s? (?: \{ \\?(?P<l1>[A-Za-z]) \} | \\?(?P<l2>[A-Za-z]) )
        | \\(?P<a2>[cvHukbdr]) (?: \{ (?P<l3>[A-Za-z]) \} | \s(?P<l4>[A-Za-z])(?![A-Za-z]) )
      ) )
    | \\(?P<letter> [A-Za-z]{1,16} ) (?: \{\} | \s | (?![A-Za-z]) )
    | \\(?P<special> [%&_\#${}] )
    | (?P<sign> --- | -- | `` | '' | \\\\ | \\, | \\\s )
    | (?P<tie> (?<=[\w.,)\]]) ~ (?=[\w\\\[(]) )
    | (?P<break> \n[ \t]*\n\s* | \n[ \t]{2,}(?=\S) )
    | (?P<junk> [\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff] )
    """,
    re.VERBOSE | re.DOTALL,
)

# A formula with the punctuation around it.
_HELD = re.compile(
    r"(?P<before>[(\[“]{0,3})"
    r"<math\b(?![^<>]*block)[^<>]*>(?:(?!</math>).)*</math>"
    r"(?P<after>[,.;:!?)\]”%-]{0,4})",
    re.DOTALL,
)


def sanitise(html: str) -> str:
    """`html` with only allowed tags and attributes: text, MathML, marks, links."""
    return str(_CLEANER.clean(html))


def sanitise_blocks(html: str) -> str:
    """As `sanitise`, but with headings, lists and tables: for a rendered summary."""
    return str(_BLOCK_CLEANER.clean(html))


def sanitise_drawing(svg: str) -> str:
    """`svg` without scripts or external references."""
    return str(_DRAWING_CLEANER.clean(svg))


def render(text: str, marks: Sequence[tuple[int, int, int]] = (), *, links: bool = False) -> str:
    """Untrusted plain `text` as sanitised HTML, with its TeX rendered.

    `marks` are ranges (start, end, index) of `text`, shown as `<mark data-k="index">`; where
    ranges overlap the mark names every index (`data-k="0 3"`), and a range that touches a
    formula marks the whole formula. With `links`, http(s) addresses become links; do not use it
    for text inside a link.
    """
    spans = _disjoint(marks)
    starts = [start for start, _, _ in spans]
    html: list[str] = []
    for piece in _pieces(text):
        if piece.kind == "tag":
            if links or not piece.html.startswith(("<a", "</a")):
                html.append(piece.html)
            continue
        # The spans that overlap this piece; they are sorted and disjoint.
        first = max(bisect_right(starts, piece.start) - 1, 0)
        touching = [
            span for span in spans[first : bisect_left(starts, piece.end)] if span[1] > piece.start
        ]
        if piece.kind == "atom":
            keys = sorted({key for _, _, keys in touching for key in keys})
            html.append(_marked(piece.html, keys))
            continue
        at = piece.start
        for start, end, keys in touching:
            html.append(escape(text[at : max(start, at)]))
            html.append(_marked(escape(text[max(start, at) : min(end, piece.end)]), keys))
            at = min(end, piece.end)
        html.append(escape(text[at : piece.end]))
    return sanitise(_HELD.sub(_hold, "".join(html)))


def plain(text: str) -> str:
    """`text` as one line of plain text, as for a reference manager: accents and dashes in Unicode,
    no style macros, formulas as their source.
    """
    words = [
        piece.plain if piece.kind == "atom" else text[piece.start : piece.end]
        for piece in _pieces(text)
        if piece.kind != "tag"
    ]
    return " ".join("".join(words).split())


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the text: plain characters ("text"), an indivisible unit ("atom") or a tag."""

    kind: str
    start: int = 0
    end: int = 0
    html: str = ""
    plain: str = ""


def _hold(formula: re.Match[str]) -> str:
    """Keep a formula and the punctuation around it on one line."""
    if not (formula["before"] or formula["after"]):
        return formula[0]
    return f'<span class="held">{formula[0]}</span>'


def _pieces(text: str) -> Iterator[_Piece]:
    """The text as pieces, from left to right; tags are balanced."""
    end = min(len(text), MAX_TEXT)
    yield from _Reading(text, _braces(text[:end])).pieces(0, end)
    if end < len(text):
        yield _Piece("text", end, len(text))


@dataclass(slots=True)
class _Reading:
    """The state of parsing a text: where its braces close, and the formulas so far."""

    text: str
    braces: dict[int, int]
    formulas: int = 0

    def pieces(self, at: int, end: int, depth: int = 0) -> Iterator[_Piece]:
        while at < end and (token := _TOKEN.search(self.text, at, end)):
            if token.start() > at:
                yield _Piece("text", at, token.start())
            at = token.end()
            if token["math"]:
                yield self._formula(token)
            elif token["style"] or token["switch"]:
                at = yield from self._styled(token, end, depth)
            elif token["url"] or token["bare"]:
                at = yield from self._link(token)
            else:
                piece = self._character(token)
                yield piece
                at = piece.end
        if at < end:
            yield _Piece("text", at, end)

    def _formula(self, token: re.Match[str]) -> _Piece:
        self.formulas += 1
        source = next(filter(None, token.group("m1", "m2", "m3", "m4", "m5", "m6")))
        block = bool(token["m1"] or token["m5"])
        shown = mathml(source, block=block) if self.formulas <= MAX_FORMULAS else None
        html = shown or f'<code class="tex">{escape(token[0])}</code>'
        return _Piece("atom", token.start(), token.end(), html, token[0])

    def _styled(self, token: re.Match[str], end: int, depth: int) -> Generator[_Piece, None, int]:
        """The pieces of `\\emph{…}` or `{\\em …}`; returns where to go on."""
        closed = self.braces.get(token.start("open" if token["style"] else "group"), end)
        if closed >= end or depth >= MAX_NESTING:
            yield _Piece("text", token.start(), token.end())
            return token.end()
        tag = _TEX["styles"][token["style"] or token["switch"]]
        if tag:
            yield _Piece("tag", html=f"<{tag}>")
        yield from self.pieces(token.end(), closed, depth + 1)
        if tag:
            yield _Piece("tag", html=f"</{tag}>")
        return closed + 1

    def _link(self, token: re.Match[str]) -> Generator[_Piece, None, int]:
        """The pieces of an address; returns where to go on."""
        address = token["bare"] or _without_punctuation(token["url"])
        start = token.start("bare" if token["bare"] else "url")
        yield _Piece("tag", html=f'<a href="{escape(address)}">')
        yield _Piece("text", start, start + len(address))
        yield _Piece("tag", html="</a>")
        return token.end() if token["bare"] else start + len(address)

    def _character(self, token: re.Match[str]) -> _Piece:
        """An accent, a letter or a sign; plain text if it is unknown."""
        start, end, sign = token.start(), token.end(), _sign(token)
        if sign is None:
            return _Piece("text", start, end)
        if token["accent"] and token[0][0] == "{":
            if self.text[end : end + 1] == "}":
                end += 1
            else:  # the brace does not belong to the accent
                sign = "{" + sign
        return _Piece("atom", start, end, "<br>" if token["break"] else escape(sign), sign)


def _sign(token: re.Match[str]) -> str | None:
    """The characters that a token stands for; None for an unknown macro."""
    if token["accent"]:
        letter = next(filter(None, token.group("l1", "l2", "l3", "l4")))
        return unicodedata.normalize("NFC", letter + _TEX["accents"][token["a1"] or token["a2"]])
    if token["letter"]:
        return _TEX["letters"].get(token["letter"])
    if token["special"]:
        return token["special"]
    if token["sign"]:
        return _TEX["signs"].get(token["sign"], " ")
    if token["tie"]:
        return "\u00a0"
    return " " if token["break"] else ""


def _braces(text: str) -> dict[int, int]:
    """Where each opening brace of `text` is closed."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            pairs[opened.pop()] = match.start()
    return pairs


def _disjoint(marks: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, list[int]]]:
    """Overlapping marks as disjoint ranges, each with the indexes of its marks."""
    marks = [mark for mark in marks if 0 <= mark[0] < mark[1]]
    edges = sorted({edge for start, end, _ in marks for edge in (start, end)})
    starting: dict[int, list[tuple[int, int]]] = {}
    for start, end, key in marks:
        starting.setdefault(start, []).append((end, key))
    active: list[tuple[int, int]] = []
    spans = []
    for start, end in pairwise(edges):
        active = [mark for mark in active if mark[0] > start] + starting.get(start, [])
        if active:
            spans.append((start, end, sorted({key for _, key in active})))
    return spans


def _marked(html: str, keys: Sequence[int]) -> str:
    if not keys or not html:
        return html
    return f'<mark data-k="{" ".join(map(str, keys))}">{html}</mark>'


def _without_punctuation(address: str) -> str:
    """An address without the punctuation of the sentence that follows it."""
    address = address.rstrip(".,;:!?'*")
    while address.endswith(")") and address.count(")") > address.count("("):
        address = address[:-1].rstrip(".,;:!?'*")
    return address
