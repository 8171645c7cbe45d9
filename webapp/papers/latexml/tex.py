"""A formula's TeX as one line of text."""

import re

from .scripts import TAIL, Line, attach

MAX_TEX = 2_000  # characters of a formula that are read as text
# Commands and the signs that they stand for.
_SIGNS = """
    pm ± times × uparrow ↑ downarrow ↓ leq ≤ le ≤ geq ≥ ge ≥ approx ≈ sim ~ cdot · infty ∞ ell ℓ
    sqrt √ leftarrow ← leftrightarrow ↔ Rightarrow ⇒
    rightarrow → to → dagger † dag † ddagger ‡ ddag ‡ star * ast * checkmark ✓ circ ° degree °
    alpha α beta β gamma γ delta δ epsilon ε varepsilon ε lambda λ mu μ sigma σ tau τ theta θ
    rho ρ eta η kappa κ phi φ psi ψ omega ω pi π Delta Δ prime ′
"""
_PAIRS = iter(_SIGNS.split())
_COMMANDS = dict(zip(_PAIRS, _PAIRS, strict=True)) | {"quad": " ", "qquad": " ", "newline": " "}
_STYLE = re.compile(
    r"(?:math|text|bold|display|script|operator)\w*$|(?:bm|bf|rm|it|sf|tt|underline|uline|hbox)$"
    r"|(?:mbox|left|right|big|Big|bigg|tiny|small|scriptsize|footnotesize|normalsize|fbox)$"
    r"|(?:boxed|boldsymbol|pmb|emph|uwave|centering|leavevmode)$"
    r"|(?:wide)?(?:hat|tilde)$|(?:bar|vec|overline)$"
)
# Commands of colours and boxes with the number of arguments that are no text.
_ARGUMENTS = {
    **dict.fromkeys(("color", "textcolor", "cellcolor", "rowcolor", "columncolor"), 1),
    **dict.fromkeys(("pagecolor", "colorbox", "phantom", "hphantom", "vphantom"), 1),
    **dict.fromkeys(("hspace", "vspace", "raisebox", "scalebox", "parbox", "label", "cite"), 1),
    **dict.fromkeys(("fcolorbox", "multicolumn", "resizebox", "rule", "fontsize"), 2),
    **dict.fromkeys(("multirow",), 2),
    **dict.fromkeys(("makecell", "makebox", "framebox"), 0),
    "definecolor": 3,
}
_TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|.", re.DOTALL)
_COLOUR = re.compile(
    r"\\(?:page)?color\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}"
    r"|\\definecolor\s*(?:\[[^\]]*\])?(?:\s*\{[^{}]*\}){3}"
)


def plain_tex(tex: str, line: str = "") -> Line:
    """A short formula as text behind `line`: "85.3\\pm 0.2" is "85.3±0.2".

    Fonts, colours, boxes and braces go, known signs become letters, other commands keep their name.
    """
    return _Formula(tex, line).read()


class _Formula:
    """The tokens of a formula, and the groups of it that are open."""

    def __init__(self, tex: str, line: str) -> None:
        self._tokens = _TOKEN.findall(tex[:MAX_TEX])
        self._line = line[-TAIL:]
        self._groups: list[tuple[list[str], str]] = [([], "")]  # texts, and the sign before them
        self._script = ""  # "^" or "_" before the next symbol
        self._notes: list[str] = []

    def read(self) -> Line:
        index = 0
        while index < len(self._tokens):
            symbol, index = self._tokens[index], index + 1
            if symbol[0] == "\\":
                index = self._command(symbol[1:].rstrip("*"), index)
            elif symbol in {"^", "_"}:
                self._script = symbol
            elif symbol == "{":
                self._groups.append(([], self._script))
                self._script = ""
            elif symbol == "}":
                self._close()
            elif not (symbol.isspace() and self._script):
                self._add(" " if symbol == "~" else symbol)
        text = "".join("".join(parts) for parts, _ in self._groups)
        text = re.sub(r"(?<=\d)\s+(?=[±%])|(?<=±)\s+", "", text)
        return Line(text, " ".join(filter(None, self._notes)))

    def _command(self, name: str, index: int) -> int:
        """Write a command's text; return the index of the symbol after it and its arguments."""
        if not name[:1].isalpha():
            self._add("" if name == "!" else " " if not name or name in " ,;:\\" else name)
            return index
        if name in _ARGUMENTS:
            return _behind_arguments(self._tokens, index, _ARGUMENTS[name])
        while index < len(self._tokens) and self._tokens[index].isspace():
            index += 1  # a blank ends the name
        if not _STYLE.match(name):
            self._add(_COMMANDS.get(name, name))
        return index

    def _close(self) -> None:
        if len(self._groups) > 1:
            parts, self._script = self._groups.pop()
            self._add("".join(parts))

    def _add(self, text: str) -> None:
        if self._script:
            nearest = self._groups[-4:]
            line = self._line + "".join("".join(parts[-TAIL:]) for parts, _ in nearest)
            attached = attach(line[-TAIL:], text, is_raised=self._script == "^")
            self._notes.append(attached.note)
            text, self._script = attached.text, ""
        self._groups[-1][0].append(text)


def _behind_arguments(tokens: list[str], index: int, count: int) -> int:
    """The place behind a command's optional arguments and the `count` that follow them."""
    is_optional = True
    while index < len(tokens):
        if tokens[index].isspace():
            index += 1
        elif is_optional and tokens[index] == "[" and "]" in tokens[index : index + TAIL]:
            index = tokens.index("]", index) + 1
        elif not count:
            break
        else:
            index, count, is_optional = _behind_group(tokens, index), count - 1, False
    return index


def _behind_group(tokens: list[str], index: int) -> int:
    """The place behind a symbol, or behind the group that begins with it."""
    depth = 0
    while index < len(tokens):
        depth += (tokens[index] == "{") - (tokens[index] == "}")
        index += 1
        if depth <= 0:
            break
    return index


def without_colours(tex: str) -> str:
    """The TeX of a formula without the commands that LaTeXML writes for its colours."""
    return _COLOUR.sub("", tex)
