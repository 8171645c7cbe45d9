"""An abstract's HTML with the numbers that it reports marked in place."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from .claims import RuleClaim

_PARTS = re.compile(r"(<[^>]*>)")
_TEX = re.compile(r"\\[a-zA-Z]+|[\\{}$]")


def with_marks(
    html: str, abstract: str, claims: Sequence[RuleClaim], links: Mapping[int, str]
) -> str:
    """The sanitised HTML of an abstract, each claim's number in a `mark`, in reading order.

    `links` has the addresses of numbers by their start. A number that stands in a formula, whose
    HTML is other than its text, stays as it is.
    """
    parts = _PARTS.split(html)
    is_formula = _formulas(parts)
    index, start = 0, 0
    for claim in claims:
        written = escape(" ".join(_TEX.sub("", abstract[claim.start : claim.end]).split()))
        number = re.compile(rf"(?<![\w.,]){re.escape(written)}(?!\w|[.,]\d)")
        for at in range(index, len(parts)):
            if at % 2 or is_formula[at] or not written:
                continue
            if found := number.search(parts[at], start if at == index else 0):
                marked = _marked(found[0], claim.start, links.get(claim.start, ""))
                parts[at] = parts[at][: found.start()] + marked + parts[at][found.end() :]
                index, start = at, found.start() + len(marked)
                break
    return "".join(parts)


def _marked(written: str, start: int, link: str) -> str:
    mark = f'<mark id="number-{start}">{written}</mark>'
    return f'<a class="quantity" href="{escape(link)}">{mark}</a>' if link else mark


def _formulas(parts: Sequence[str]) -> list[bool]:
    """Which parts stand inside MathML, or inside a link, which can hold no other."""
    inside, found = 0, []
    for part in parts:
        inside += part.startswith(("<math", "<a ")) - part.startswith(("</math", "</a"))
        found.append(inside > 0)
    return found
