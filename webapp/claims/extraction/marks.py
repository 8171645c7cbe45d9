"""An abstract's HTML with the numbers that it reports marked in place."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from .claims import RuleClaim

_PARTS = re.compile(r"(<[^>]*>)")
_DOLLARS = re.compile(r"(?<!\\)\$\$?")
_NO_DIGIT = re.compile(r"\D*")
_TEX = re.compile(r"\\[a-zA-Z]+|[\\{}$]")


def with_marks(
    html: str, abstract: str, claims: Sequence[RuleClaim], links: Mapping[int, str]
) -> str:
    """The sanitised HTML of an abstract, each claim's number in a `mark`, in reading order.

    `links` has the addresses of numbers by their start. Of a number that stands in a formula the
    whole formula is marked.
    """
    parts = _PARTS.split(html)
    is_closed = _closed(parts)
    formulas = [at for at, part in enumerate(parts) if part.startswith("<math")]
    dollars = [found.start() for found in _DOLLARS.finditer(abstract)]
    index, start = 0, 0
    for claim in claims:
        link = links.get(claim.start, "")
        digit = claim.start + len(_NO_DIGIT.match(abstract[claim.start : claim.end])[0])  # type: ignore[index]
        opened = sum(at < digit for at in dollars)
        if opened % 2:
            # Where TeX and HTML have as many formulas, they are the same ones.
            if len(formulas) == len(dollars) // 2:
                index, start = formulas[opened // 2], 0
                _mark_formula(parts, index, claim, link)
            continue
        written = escape(" ".join(_TEX.sub("", abstract[claim.start : claim.end]).split()))
        number = re.compile(rf"(?<![\w.,]){re.escape(written)}(?!\w|[.,]\d)")
        for at in range(index, len(parts)):
            if at % 2 or is_closed[at] or not written:
                continue
            if found := number.search(parts[at], start if at == index else 0):
                marked = _marked(found[0], claim.start, link)
                parts[at] = parts[at][: found.start()] + marked + parts[at][found.end() :]
                index, start = at, found.start() + len(marked)
                break
    return "".join(parts)


def _mark_formula(parts: list[str], first: int, claim: RuleClaim, link: str) -> None:
    """Mark the formula that begins at a part, unless another of its numbers did.

    A link without text is named by the number: not every reader of a screen says MathML.
    """
    if not parts[first].startswith("<math"):
        return
    last = parts.index("</math>", first)
    marked = _marked("".join(parts[first : last + 1]), claim.start, link)
    parts[first] = marked.replace("<a ", f'<a aria-label="{escape(claim.shown)}" ', 1)
    parts[first + 1 : last + 1] = [""] * (last - first)


def _marked(written: str, start: int, link: str) -> str:
    mark = f'<mark id="number-{start}">{written}</mark>'
    return f'<a class="quantity" href="{escape(link)}">{mark}</a>' if link else mark


def _closed(parts: Sequence[str]) -> list[bool]:
    """Which parts stand inside MathML, or inside a link, which can hold no other."""
    inside, found = 0, []
    for part in parts:
        inside += part.startswith(("<math", "<a ")) - part.startswith(("</math", "</a"))
        found.append(inside > 0)
    return found
