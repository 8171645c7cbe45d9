"""Text of PDF files, page by page."""

import io
import re

from webapp.core.sandbox import UnreadableError

from .html_text import Section

MAX_PAGES = 80
_REFERENCES = re.compile(
    r"^[^\S\n]*(?:\d{1,2}\.?[^\S\n]+)?(?:references|bibliography|literature cited)[^\S\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
# Parts of the paper after its references: an appendix by its name, or section A.
_APPENDIX = re.compile(
    r"^[ \t]*(?:(?:[A-Z]\.?[ \t]+)?(?:appendi(?:x|ces)|supplement(?:ary|al)\b)[^\n]{0,80}"
    r"|A\.?[ \t]+[A-Z][a-z]+(?:[ \t](?!and\b)[A-Za-z-]+){1,7}|A[ \t]+[A-Z][a-z]{3,})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# An entry of a list of references: a year, a number in brackets at the start of a line.
_ENTRY = re.compile(r"\b(?:19|20)\d\d[a-z]?\b|^[^\S\n]*\[[\w+-]{1,12}\]|et al\.", re.MULTILINE)
_ENTRIES_A_PAGE = 6  # of a page that has nothing else


def sections_of_pdf(body: bytes) -> list[Section]:
    """Return a section for each page, at most MAX_PAGES, without the list of references.

    Raises UnreadableError for a damaged or encrypted file, and for one without text.
    """
    # Slow, and only a child of the sandbox needs it.
    from pypdf import PdfReader  # noqa: PLC0415

    try:
        texts = [page.extract_text() for page in PdfReader(io.BytesIO(body)).pages[:MAX_PAGES]]
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # pypdf raises many kinds for damaged files
        raise UnreadableError(f"the PDF could not be read: {error!r:.200}") from error
    pages = without_references([text.encode(errors="replace").decode() for text in texts])
    if sum(map(len, pages)) < 500:
        raise UnreadableError("the PDF holds no text")
    return [Section(f"page {n}", text) for n, text in enumerate(pages, 1) if text.strip()]


def without_references(pages: list[str]) -> list[str]:
    """The pages without the list of references, which ends where the paper's own text goes on."""
    remaining: list[str] = []
    in_references = False
    for text in pages:
        body, rest = "", text
        if not in_references and (cut := _REFERENCES.search(text)):
            body, rest, in_references = text[: cut.start()], text[cut.end() :], True
            is_listed = True
        else:
            is_listed = len(_ENTRY.findall(text)) >= _ENTRIES_A_PAGE
        if in_references:
            appendix = _APPENDIX.search(rest)
            if appendix or not is_listed:
                in_references = False
                rest = rest[appendix.start() :] if appendix else rest
            else:
                rest = ""
        remaining.append(body + rest)
    return remaining
