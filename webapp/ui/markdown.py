"""Renders one line of a model's Markdown, with TeX, as safe HTML.

Only bold, emphasis and code are rendered: no links, images or headings. Formulas are taken out
before Markdown is parsed, and everything goes through nh3 at the end.
"""

import re
from collections.abc import Callable
from html import escape

import nh3
from markdown_it import MarkdownIt

from .formulas import mathml
from .markup import sanitise

MAX_LINE = 4_000  # characters; the rest is not shown
_MARKDOWN = MarkdownIt("zero", {"html": False}).enable(["emphasis", "backticks", "escape"])
_FORMULA = re.compile(r"\$\$?([^$\n]{1,1000})\$\$?|\\\((.{1,1000}?)\\\)")
_KEEP, _OPEN, _CLOSE = "\ue000", "\ue001", "\ue002"  # private use: stripped from the input
_PRIVATE = re.compile(f"[{_KEEP}{_OPEN}{_CLOSE}\x00-\x08\x0b-\x1f]")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.^])(?<![A-Za-z]-)\d+(?:[.,]\d+)*")
_MISSING = '<mark class="unverified" title="This number was not found in the text">'


def render_line(text: str, stands: Callable[[str], bool] = lambda _: True) -> str:
    """`text` as sanitised inline HTML; numbers for which `stands` is false are marked."""
    formulas: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        source = match[1] or match[2]
        html = sanitise(mathml(source) or f'<code class="tex">{escape(match[0])}</code>')
        missing = any(not stands(n) for n in _NUMBER.findall(source))
        formulas.append(f"{_MISSING}{html}</mark>" if missing else html)
        return _KEEP

    text = _FORMULA.sub(set_aside, _PRIVATE.sub("", text)[:MAX_LINE])
    text = _NUMBER.sub(lambda m: m[0] if stands(m[0]) else f"{_OPEN}{m[0]}{_CLOSE}", text)
    html = str(_CLEANER.clean(_MARKDOWN.renderInline(text)))
    html = html.replace(_OPEN, _MISSING).replace(_CLOSE, "</mark>")
    return re.sub(_KEEP, lambda _: formulas.pop(0), html)


def plain_line(text: str, stands: Callable[[str], bool] = lambda _: True) -> str:
    """`text` without Markdown; numbers for which `stands` is false get "[unverified]"."""
    text = _NUMBER.sub(lambda m: m[0] if stands(m[0]) else f"{m[0]} [unverified]", text[:MAX_LINE])
    return " ".join(re.sub(r"\*\*|__|`", "", _PRIVATE.sub("", text)).split())


_CLEANER = nh3.Cleaner(tags={"em", "strong", "code"}, attributes={}, url_schemes=set())
