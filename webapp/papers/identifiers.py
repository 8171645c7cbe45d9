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
# Where a paper of arXiv has an address, up to its identifier.
_PLACES = (
    r"(?:(?:www|export|browse|[a-z]{2})\.)?arxiv\.org/(?:abs|pdf|html|format|ps|src|e-print|tb)/",
    r"(?:www\.)?ar5iv(?:\.labs\.arxiv)?\.org/(?:abs|html|papers)/",
    r"(?:www\.)?(?:huggingface\.co|hf\.co)/papers/",
    r"(?:www\.)?alphaxiv\.org/(?:[a-z]{2}/)?(?:abs|pdf|html|overview|audio|review)/",
    r"(?:www\.|api\.)?semanticscholar\.org/(?:graph/v1/)?(?:paper/)?arxiv[:/]",
    r"(?:www\.)?(?:scirate\.com/arxiv|arxiv-vanity\.com/papers|emergentmind\.com/papers)/",
    r"(?:dx\.)?doi\.org/10\.48550/arxiv\.",
)
_PREFIX = re.compile(
    rf"(?:oai:arXiv\.org:|arXiv:\s?|(?:doi:\s?)?10\.48550/arxiv\.|(?:https?:/{{1,2}})?(?:{'|'.join(_PLACES)}))",
    re.IGNORECASE,
)
_ENDING = re.compile(r"(?:\.pdf|\.html)?/?(?:[?#].*)?$", re.IGNORECASE | re.DOTALL)
# In running text: a DOI of somebody else may look like one, and so may a sum of money.
_OTHER_DOI = re.compile(r"\b10\.(?!48550/)\d{4,9}/\S{1,300}")
_ANYWHERE = re.compile(
    rf"(?:(?<=arxiv)[.:]?|(?<![\w.,$€£¥+-]))({IDENTIFIER})({VERSION})?"
    r"(?![\d\w]|\.\d|\s?(?:%|°|€|£|USD\b|EUR\b|GBP\b|dollars?\b|euros?\b))",
    re.IGNORECASE,
)


def parse_identifier(text: str) -> tuple[str, int | None]:
    """The identifier and version in `text`: bare, an OAI name, `arXiv:…`, arXiv's DOI, or the
    address of a paper at arXiv or where its papers are read, with what follows it.

    Old identifiers lose their subject class, as arXiv itself writes them: `math.GT/0309136` and
    `math/0309136` are one paper. Raises ValueError when there is no identifier.
    """
    bare = text[:2_000].strip("<>()[]\"'“”.,; \t\r\n")
    prefix = _PREFIX.match(bare)
    if prefix:
        bare = _ENDING.sub("", bare[prefix.end() :])
    match = _VERSIONED.fullmatch(bare.removesuffix(".pdf"))
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an arXiv identifier")
    return _without_class(match[1]), int(match[2][1:]) if match[2] else None


def identifiers_in(text: str) -> list[str]:
    """The identifiers of papers in running text, each once, in order; no price and no other DOI."""
    text = _OTHER_DOI.sub(" ", text)
    named = (_without_class(match[1]) for match in _ANYWHERE.finditer(text))
    # A new identifier begins with a year that arXiv can have had.
    return list(dict.fromkeys(id_ for id_ in named if "/" in id_ or "07" <= id_[:2] <= "50"))


def _without_class(identifier: str) -> str:
    return re.sub(f"{_SUBJECT_CLASS}/", "/", identifier)


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
