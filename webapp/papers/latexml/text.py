"""The text of an element of a page, in the order of the page."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lxml import html
from lxml.html import HtmlElement

from .errors import without_arguments
from .scripts import TAIL, Line, attach

_HIDDEN = re.compile(r"\bltx_(?:phantom|ERROR)\b")
_ERROR = re.compile(r"\bltx_ERROR\b")
_BREAKS = re.compile(r"[\r\n\t\f]+")  # of the source: the page shows a blank
_SCRIPT = re.compile(r"\bltx_(sup|sub)\b")

# Return the replacement of a whole element after a line, or None to read its content.
Write = Callable[[HtmlElement, str], Line | None]
# Return the text before and after the content of an element.
Around = Callable[[HtmlElement], tuple[str, str]]


def parse(body: bytes) -> HtmlElement:
    """Parse an HTML page. Raises ParserError or ValueError if it has no elements."""
    return html.document_fromstring(body, parser=html.HTMLParser(encoding="utf-8"))


def read(root: HtmlElement, write: Write, around: Around) -> Iterator[Line]:
    """Return the text of an element in pieces; a superscript or subscript is one piece."""
    return _Reader(root, write, around).pieces()


@dataclass(frozen=True)
class _End:
    """End of an element, on the stack of nodes to be read."""

    closing: str = ""
    script: str = ""  # "sup" or "sub"
    line: str = ""  # before the script


class _Reader:
    """Depth-first reader with a stack of its own, because recursion would end at Python's limit."""

    def __init__(self, root: HtmlElement, write: Write, around: Around) -> None:
        self._root, self._write, self._around = root, write, around
        self._pending: list[HtmlElement | str | _End] = [root]
        self._line = ""  # the end of what was read
        self._held: list[str] | None = None  # of the script that is being read

    def pieces(self) -> Iterator[Line]:
        while self._pending:
            node = self._pending.pop()
            if isinstance(node, str):
                piece = Line(_BREAKS.sub(" ", node))
            elif isinstance(node, _End):
                piece = self._end(node)
            else:
                piece = self._begin(node)
            self._line = (self._line + piece.text)[-TAIL:]
            if self._held is not None:
                self._held.append(piece.text)
            elif piece != Line(""):
                yield piece

    def _begin(self, node: HtmlElement) -> Line:
        """Return the text that replaces or opens an element, and put its content on the stack."""
        tail = node.tail or ""
        if _ERROR.search(node.get("class") or ""):
            is_followed = node.getnext() is not None
            tail = without_arguments(node.text or "", tail, is_followed=is_followed)
        if node is not self._root and tail:
            self._pending.append(tail)
        if not isinstance(node.tag, str) or _is_hidden(node):
            return Line("")
        written = self._write(node, self._line)
        if written is not None:
            return written
        opening, closing = self._around(node)
        script = _script(node)
        if script and self._held is None:
            self._held = []
            self._pending.append(_End(script=script, line=self._line))
        elif closing:
            self._pending.append(_End(closing))
        self._pending += list(node)[::-1]
        if node.text:
            self._pending.append(node.text)
        return Line(opening)

    def _end(self, end: _End) -> Line:
        if not end.script:
            return Line(end.closing)
        script, self._held = "".join(self._held or ()), None
        self._line = end.line
        return attach(end.line, script, is_raised=end.script == "sup")


def _is_hidden(node: HtmlElement) -> bool:
    """True if an element only takes up space, or holds what LaTeXML could not convert."""
    is_invisible = "visibility:hidden" in (node.get("style") or "")
    return is_invisible or bool(_HIDDEN.search(node.get("class") or ""))


def _script(node: HtmlElement) -> str:
    """Return "sup" or "sub" for a superscript or subscript, else ""."""
    if node.tag in {"sup", "sub"}:
        return str(node.tag)
    match = _SCRIPT.search(node.get("class") or "")
    return match[1] if match else ""
