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
from functools import cache, lru_cache
from html import escape
from itertools import pairwise

import nh3

from webapp.core.tables import table
from webapp.ui.formulas import mathml

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
    | \\href \s? \{ (?P<to> (?:[^\s{}]|\\.){1,500} ) \} \s? (?P<shown> \{ )
    | \\(?P<style> emph | text(?:it|sl|bf|tt|sc|rm|sf|up|md|normal|color\{[^{}]{1,30}\})? | mbox
              | underline | uline | textsuperscript | textsubscript | math(?:rm|bf|it|sf|tt|cal)
              | enquote | footnote | hbox | textquote | textgreek ) \s? (?P<open> \{ )
    | (?P<group> \{ ) \s? \\(?P<switch> em | it | bf | tt | sc | sf | rm | sl | tiny | small | large
              | footnotesize | scriptsize | Large
              | (?:bf|tt|sc|it|sl|rm|sf|md|up)(?:series|family|shape)
              | normalfont | color\{[^{}]{1,30}\} ) (?![A-Za-z]) \s?
    | \\(?P<drop> (?:cite|citep|citet|label|ref|eqref|autoref|cref|thanks|vspace|hspace|color|begin
              |end|footnotemark) \*? (?:\[[^\]\n]{0,100}\])? \{ [^{}]{0,200} \} )
    | \\url \s? \{ (?P<bare> https?://(?:[^\s{}<>"\\^`]|\\[_%&\#~]){1,500} ) \}
    | \\(?:url|path|nolinkurl) \s? \{ (?P<path> [^{}]{1,500} ) \}
    | (?P<url> https?://[^\s{}<>"\\^`$|]{1,500} )
    | (?P<accent> \{? (?:
          \\(?P<a1>['`^"~=.]) \s? (?: \{ \\?(?P<l1>[^\W\d_]) \} | \\?(?P<l2>[^\W\d_]) )
        | \\(?P<a2>[cvHukbdrtg]) (?: \{ \\?(?P<l3>[^\W\d_]{1,2}) \}
              | \s\\?(?P<l4>[^\W\d_])(?![A-Za-z]) | \\(?P<l5>[ij])(?![A-Za-z]) )
        | (?<=[^\W\d_])\\(?P<a3>[cvHuk]) \s (?P<l6>[^\W\d_])
      ) )
    | (?P<kept> \{ ) \\(?P<inner> [A-Za-z]{1,30} ) \s? (?:\{\})? \s? \}
    | \\(?P<letter> [A-Za-z]{1,30} ) (?: \{\} | (?P<gap>\s) | (?![A-Za-z]) )
    | \\(?P<special> [%&_\#${}] )
    | (?P<sign> --- | -- | `` | '' | \\\\ | \\[,;:!/@-] | \\[\^~]\{\} | \\\s )
    | (?P<tie> (?<=[\w.,)\]]) ~ (?=[\w\\\[(]) )
    | (?P<break> \n[ \t]*\n\s* | \n[ \t]{2,}(?=\S) )
    | (?P<junk> [\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff] )
    """,
    re.VERBOSE | re.DOTALL,
)

_MAY_BE_TEX = re.compile(r"[\\{~`]|--|''")
# A macro of the authors' own, `\ours`, is read by its name; `\n` and the parts of a path are none.
_OWN_MACRO = re.compile(r"\\(?:[A-Za-z]{3,30}(?![A-Za-z])|[A-Za-z]{2}(?={))")
_BEFORE_OWN_MACRO = re.compile(r"(?:^|[^\w\\:/]|(?:^|[\s{(\[])(?:\\[A-Za-z]+)+)$")
# `{BERT}` keeps its capitals in a bibliography; other braces are the author's own.
_WORD_IN_BRACES = re.compile(r"(?<![\\_^$}\w]){([A-Z][A-Za-z0-9-]{0,30})}(?![{$])")

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
    """Sanitise a rendered summary: as `sanitise`, but headings, lists and tables may stay."""
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
        position = piece.start
        for start, end, keys in touching:
            html.append(escape(text[position : max(start, position)]))
            html.append(_marked(escape(text[max(start, position) : min(end, piece.end)]), keys))
            position = min(end, piece.end)
        html.append(escape(text[position : piece.end]))
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


def without_tex(text: str) -> str:
    """`text` with its TeX outside formulas in Unicode, lines and paragraphs as they are.

    Formulas stay as they are, and so does `\\$`, which would else begin one. What is no TeX that
    pages understand stays. Idempotent but for accents upon accents.
    """
    if not _MAY_BE_TEX.search(text):
        return text
    plain = "".join(part for part, _ in apart(text))
    plain = _WORD_IN_BRACES.sub(r"\1", plain)
    return plain if plain.strip() else text


def apart(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a text, and whether each is a formula; others are in Unicode."""
    for piece in _pieces(text):
        source = text[piece.start : piece.end]
        if piece.kind == "text":
            is_own = _OWN_MACRO.match(text, piece.start) and _BEFORE_OWN_MACRO.search(
                text[max(piece.start - 60, 0) : piece.start]
            )
            yield source[1:] if is_own else source, False
        elif piece.kind == "atom" and source[:1] != "\n" and source[:2] != "\\$":
            is_formula = source[:1] == "$" or source[:2] in {"\\(", "\\["}
            yield (source, True) if is_formula else (piece.plain.replace("\u00a0", " "), False)
        elif piece.kind == "atom":
            yield source, False


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


@lru_cache(4_096)  # the titles and abstracts of a day, in which each profile marks its own words
def _pieces(text: str) -> Sequence[_Piece]:
    """The text as pieces, from left to right; tags are balanced."""
    end = min(len(text), MAX_TEXT)
    pieces = list(_Reading(text, _braces(text[:end])).pieces(0, end))
    return [*pieces, _Piece("text", end, len(text))] if end < len(text) else pieces


@dataclass(slots=True)
class _Reading:
    """The state of parsing a text: where its braces close, and the formulas so far."""

    text: str
    braces: dict[int, int]
    formulas: int = 0

    def pieces(self, position: int, end: int, depth: int = 0) -> Iterator[_Piece]:
        while position < end and (token := _TOKEN.search(self.text, position, end)):
            if token.start() > position:
                yield _Piece("text", position, token.start())
            position = token.end()
            if token["math"]:
                yield self._formula(token)
            elif token["to"]:
                position = yield from self._named_link(token, end, depth)
            elif token["style"] or token["switch"]:
                position = yield from self._styled(token, end, depth)
            elif token["url"] or token["bare"]:
                position = yield from self._link(token)
            elif token["letter"] and _symbol(token["letter"]) is None and position in self.braces:
                position = yield from self._unknown(position, end, depth)
            else:
                piece = self._character(token)
                yield piece
                position = piece.end
        if position < end:
            yield _Piece("text", position, end)

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
        tag = _TEX["styles"].get(token["style"] or token["switch"])
        if tag:
            yield _Piece("tag", html=f"<{tag}>")
        yield from self.pieces(token.end(), closed, depth + 1)
        if tag:
            yield _Piece("tag", html=f"</{tag}>")
        return closed + 1

    def _unknown(self, position: int, end: int, depth: int) -> Generator[_Piece, None, int]:
        """The pieces of the argument of a macro that is not known, as `\\name{Foo}`."""
        closed = self.braces[position]
        if closed >= end or depth >= MAX_NESTING:
            yield _Piece("text", position, position + 1)
            return position + 1
        yield from self.pieces(position + 1, closed, depth + 1)
        return closed + 1

    def _named_link(
        self, token: re.Match[str], end: int, depth: int
    ) -> Generator[_Piece, None, int]:
        """The pieces of `\\href{address}{words}`: words (address); returns where to go on."""
        closed = self.braces.get(token.start("shown"), end)
        if closed >= end or depth >= MAX_NESTING:
            yield _Piece("text", token.start(), token.end())
            return token.end()
        yield from self.pieces(token.end(), closed, depth + 1)
        address = re.sub(r"\\(.)", r"\1", token["to"])
        if self.text[token.end() : closed].strip() != address and address.startswith("http"):
            yield from _shown_link(closed, address, " (", ")")
        return closed + 1

    def _link(self, token: re.Match[str]) -> Generator[_Piece, None, int]:
        """The pieces of an address; returns where to go on."""
        if token["bare"] and "\\" in token["bare"]:
            yield from _shown_link(token.start(), token["bare"].replace("\\", ""))
            return token.end()
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


def _shown_link(position: int, address: str, before: str = "", after: str = "") -> Iterator[_Piece]:
    """A link to an address that stands nowhere in the text as it is shown."""
    yield _Piece("atom", position, position, before, before)
    yield _Piece("tag", html=f'<a href="{escape(address)}">')
    yield _Piece("atom", position, position, escape(address), address)
    yield _Piece("tag", html="</a>")
    yield _Piece("atom", position, position, after, after)


def _sign(token: re.Match[str]) -> str | None:
    """The characters that a token stands for; None for an unknown macro."""
    if token["accent"]:
        return _accented(token)
    if token["inner"]:
        sign, name = _symbol(token["inner"]), token["inner"]
        return name if sign is None and len(name) > 2 else sign  # `{\ours}` is read by its name
    if token["letter"]:
        sign = _symbol(token["letter"])
        # TeX swallows the blank after a macro, which authors do not mean after a symbol.
        is_letter = sign is not None and len(sign) <= 2 and sign.isalpha() and sign < "\u0370"
        return sign if not sign or is_letter or not token["gap"] else sign + " "
    if token["sign"]:
        return _TEX["signs"].get(token["sign"], " ")
    if token["tie"]:
        return "\u00a0"
    return token["special"] or token["path"] or (" " if token["break"] else "")


def _accented(token: re.Match[str]) -> str:
    """A letter with its accent; `O\\'Brien` has an apostrophe."""
    accent = token["a1"] or token["a2"] or token["a3"]
    letter = next(filter(None, token.group("l1", "l2", "l3", "l4", "l5", "l6")))
    first, rest = letter[0], letter[1:]
    composed = unicodedata.normalize("NFC", first + _TEX["accents"][accent] + rest)
    if accent == "'" and len(composed) > 1 and first.isupper():
        return f"’{letter}"
    return composed


@cache
def _symbol(macro: str) -> str | None:
    """The characters of a macro without arguments, by `markup.toml`, else by pylatexenc."""
    symbol = _TEX["letters"].get(macro)
    if symbol is not None:
        return symbol
    from pylatexenc.latex2text import get_default_latex_context_db  # noqa: PLC0415 - slow

    spec = get_default_latex_context_db().get_macro_spec(macro)
    text = getattr(spec, "simplify_repl", None)
    is_plain = isinstance(text, str) and not re.search("[%<]", text)
    return str(text) if is_plain else None


def _braces(text: str) -> dict[int, int]:
    """Map each opening brace of `text` to the brace that closes it."""
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
