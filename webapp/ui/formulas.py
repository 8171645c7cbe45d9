"""TeX mathematics as MathML, as arXiv's titles and abstracts use it."""

import re
import unicodedata
from functools import lru_cache
from html import escape

from latex2mathml.converter import convert

MAX_LENGTH = 1_000  # characters of one formula
MAX_NESTING = 12  # braces within a formula

# Replacements for macros that latex2mathml does not know.
_ALIASES = (
    (re.compile(r"\\(?:xspace|ensuremath|nolimits|displaystyle|textstyle)(?![A-Za-z])"), ""),
    # Its argument, a name as a rule, would vanish.
    (re.compile(r"\\mathop\s*\{\s*\\(?:mathrm|text|mathsf|mathbf|mathit|operatorname\*?)\s*"
                r"\{\s*([A-Za-z]+)\s*\}\s*\}"), r"\\operatorname{\1}"),
    (re.compile(r"\\mathop\s*\{\s*\\(?:rm|sf|bf)\s+([A-Za-z]+)\s*\}"), r"\\operatorname{\1}"),
    (re.compile(r"\\(?:mathop|mathbin|mathrel|mathopen|mathclose|mathord)(?![A-Za-z])"), ""),
    (re.compile(r"\\(?:textsc|textsf|textup|textnormal)(?![A-Za-z])"), r"\\text"),
    (re.compile(r"\\(?:mathds|mathbbm|mathbbold)(?![A-Za-z])"), r"\\mathbb"),
    (re.compile(r"\\(?:bm|pmb)(?![A-Za-z])"), r"\\boldsymbol"),
    (re.compile(r"\\(?:nicefrac|sfrac)(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\arg\s*\\(max|min)(?![A-Za-z])"), r"\\operatorname{arg\1}"),
    (re.compile(r"\\(?:softmax|argmax|argmin|polylog|poly)(?![A-Za-z])"),
     lambda m: rf"\operatorname{{{m[0][1:]}}}"),
)  # fmt: skip
# A macro that the converter does not know, which it passes through as an identifier.
_UNKNOWN = re.compile(r"<mi>\\([A-Za-z]+)</mi>")
_ENTITY = re.compile(r"&#x([0-9A-F]+);")
_IDENTIFIER = re.compile(r"<mi>([^<&\w])</mi>")
_FUNCTION = re.compile(
    r"(?P<before></m\w+>|<mrow>)<m[io]>(?P<name>[a-z]{2,12})</m[io]>(?=(?P<after></?m\w+))"
)
_THIN = '<mspace width="0.167em"></mspace>'
_FIRST = re.compile(r"(?<=\"><mrow>)<mo>([^<&\w])</mo>")
_LAST = re.compile(r"<mo>([^<&\w])</mo>(?=</mrow></math>)")


@lru_cache(maxsize=4096)
def mathml(source: str, *, block: bool = False) -> str | None:
    """TeX mathematics as MathML, not yet sanitised; None if it is invalid or too large."""
    if len(source) > MAX_LENGTH or _depth(source) > MAX_NESTING:
        return None
    for pattern, replacement in _ALIASES:
        source = pattern.sub(replacement, source)
    try:
        html = convert(source, display="block" if block else "inline")
    # The converter may raise anything on hostile TeX; callers then show the source.
    except Exception:
        return None
    # Authors' own macros, such as `\R`, are read by their names; not those that have arguments.
    if not any(re.search(rf"\\{name}\s*[\[{{]", source) for name in _UNKNOWN.findall(html)):
        html = _UNKNOWN.sub(r"<mi>\1</mi>", html)
    if "\\" in html:
        return None
    html = _ENTITY.sub(lambda entity: escape(chr(int(entity[1], 16))), html)
    html = _IDENTIFIER.sub(_operator, html)
    html = _FUNCTION.sub(_spaced, html)
    return _LAST.sub(r"<mi>\1</mi>", _FIRST.sub(r"<mi>\1</mi>", html))


def _operator(identifier: re.Match[str]) -> str:
    """`<mi>±</mi>` as `<mo>±</mo>`: the converter takes some operators for identifiers."""
    char = "∼" if identifier[1] == "~" else identifier[1]
    is_operator = unicodedata.category(char) == "Sm" and char not in "∞∅∂∇"
    return f"<mo>{char}</mo>" if is_operator else identifier[0]


def _spaced(function: re.Match[str]) -> str:
    """Function names such as `log` with TeX's thin space before and after letters and numbers."""
    before, name, after = function.group("before", "name", "after")
    left = _THIN if before not in {"<mrow>", "</mo>"} else ""
    right = _THIN if after in {"<mi", "<mn", "<msub", "<msup", "<mfrac", "<msqrt"} else ""
    return f"{before}{left}<mi>{name}</mi>{right}"


def _depth(source: str) -> int:
    """The depth of nested braces; more than the limit if they do not balance."""
    depth = deepest = 0
    for brace in re.findall(r"\\.|[{}]", source, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        deepest = max(deepest, depth)
        if depth < 0:
            return MAX_NESTING + 1
    return deepest if depth == 0 else MAX_NESTING + 1
