"""arXiv identifiers, old and new (https://info.arxiv.org/help/arxiv_identifier.html)."""

import re

_IDENTIFIER = re.compile(
    r"(?P<id>\d{4}\.\d{4,5}|(?P<archive>[a-z]+(?:-[a-z]+)?)(?:\.[A-Za-z-]{2,8})?/(?P<number>\d{7}))"
    r"(?:v(?P<version>[1-9]\d{0,2}))?",
    re.ASCII,
)
_PREFIX = re.compile(
    r"^(?:oai:arXiv\.org:|arXiv:|https?://(?:[a-z]+\.)?arxiv\.org/(?:abs|pdf)/)", re.I
)


def parse_identifier(text: str) -> tuple[str, int | None]:
    """The identifier and version in `text`: bare, an oai name, `arXiv:…` or an address.

    Old identifiers lose their subject class, as arXiv itself writes them: `math.GT/0309136` and
    `math/0309136` are one paper. Raises ValueError when there is no identifier.
    """
    bare = _PREFIX.sub("", text.strip()).removesuffix(".pdf")
    match = _IDENTIFIER.fullmatch(bare)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an arXiv identifier")
    identifier = f"{match['archive']}/{match['number']}" if match["archive"] else match["id"]
    return identifier, int(match["version"]) if match["version"] else None
