"""The names arXiv gives papers and categories.

https://info.arxiv.org/help/arxiv_identifier.html, https://arxiv.org/category_taxonomy
"""

import re
from collections.abc import Iterable

# Bounded, so that every name that is accepted fits the database's 32 characters.
_SUBJECT_CLASS = r"\.[A-Za-z-]{2,10}"
CATEGORY = rf"[a-z]{{1,10}}(?:-[a-z]{{1,8}})?(?:{_SUBJECT_CLASS})?"  # cs.CL, hep-th
IDENTIFIER = rf"(?:[0-9]{{4}}\.[0-9]{{4,5}}|{CATEGORY}/[0-9]{{7}})"  # 2512.14925, hep-th/9901001
VERSION = "v[1-9][0-9]{0,2}"
_VERSIONED = re.compile(rf"({IDENTIFIER})({VERSION})?")
_PREFIX = re.compile(
    r"^(?:oai:arXiv\.org:|arXiv:|https?://(?:[a-z]+\.)?arxiv\.org/(?:abs|pdf)/)", re.I
)


def parse_identifier(text: str) -> tuple[str, int | None]:
    """The identifier and version in `text`: bare, an OAI name, `arXiv:…` or a URL.

    Old identifiers lose their subject class, as arXiv itself writes them: `math.GT/0309136` and
    `math/0309136` are one paper. Raises ValueError when there is no identifier.
    """
    match = _VERSIONED.fullmatch(_PREFIX.sub("", text.strip()).removesuffix(".pdf"))
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an arXiv identifier")
    identifier, version = match.groups()
    return re.sub(f"{_SUBJECT_CLASS}/", "/", identifier), int(version[1:]) if version else None


def category_names(terms: Iterable[str]) -> tuple[str, ...]:
    """The terms that can be arXiv categories, each once, in order.

    The API's answers list MSC and ACM classes beside them (`68T50`, `I.2.7`).
    """
    names = map(str.strip, terms)
    return tuple(dict.fromkeys(name for name in names if re.fullmatch(CATEGORY, name)))


def checked_category(text: str) -> str:
    """`text`, an arXiv category: `cs.CL`, `hep-th`, `cond-mat.str-el`. Raises ValueError."""
    if not re.fullmatch(CATEGORY, text):
        raise ValueError(f"{text[:40]!r} is no arXiv category; write for instance cs.CL")
    return text
