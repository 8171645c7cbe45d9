"""A PDF's words, read in a process of its own: a hostile file can waste only that.

`python -m webapp.summaries.pdf_text` reads a PDF on standard input and prints JSON.
"""

import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

from .html_text import Section, UnreadableError

MAX_PAGES = 80
SECONDS = 60
MEMORY = 1 << 30  # bytes
ROOT = Path(__file__).resolve().parent.parent.parent
_REFERENCES = re.compile(
    r"^\s*(?:\d{1,2}\.?\s+)?(?:references|bibliography|literature cited)\s*$",
    re.IGNORECASE | re.MULTILINE,
)
# What follows the references and is the paper's own: an appendix by its name, or section A.
_APPENDIX = re.compile(
    r"^[ \t]*(?:(?:[A-Z]\.?[ \t]+)?(?:appendi(?:x|ces)|supplement(?:ary|al)\b)[^\n]{0,80}"
    r"|A\.?[ \t]+[A-Z][a-z]+(?:[ \t](?!and\b)[A-Za-z-]+){1,7}|A[ \t]+[A-Z][a-z]{3,})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# An entry of a list of references: a year, a number in brackets at the start of a line.
_ENTRY = re.compile(r"\b(?:19|20)\d\d[a-z]?\b|^\s*\[[\w+-]{1,12}\]|et al\.", re.MULTILINE)
_ENTRIES_A_PAGE = 6  # of a page that has nothing else


def sections_of_pdf(body: bytes) -> list[Section]:
    """One section a page without the reference list, the appendix after it kept; at most MAX_PAGES.

    Raises UnreadableError for a damaged, encrypted or wordless file, and for one that takes more
    than SECONDS or MEMORY.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "webapp.summaries.pdf_text"],
            input=body,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(f"the PDF could not be read within {SECONDS} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
        raise UnreadableError(f"the PDF could not be read: {last[0][:200]}")
    pages: list[str] = json.loads(done.stdout)
    if sum(map(len, pages)) < 500:
        raise UnreadableError("the PDF holds no text")
    return [Section(f"page {n}", text) for n, text in enumerate(pages, 1) if text.strip()]


def _read_pages(body: bytes) -> list[str]:
    # Only this process pays for loading the library.
    from pypdf import PdfReader  # noqa: PLC0415

    texts = [page.extract_text() for page in PdfReader(io.BytesIO(body)).pages[:MAX_PAGES]]
    return _without_references([text.encode(errors="replace").decode() for text in texts])


def _without_references(pages: list[str]) -> list[str]:
    """The pages without the list of references, which ends where the paper's own text goes on."""
    kept: list[str] = []
    in_references = False
    for text in pages:
        own, rest = "", text
        if not in_references and (cut := _REFERENCES.search(text)):
            own, rest, in_references = text[: cut.start()], text[cut.end() :], True
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
        kept.append(own + rest)
    return kept


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    json.dump(_read_pages(sys.stdin.buffer.read()), sys.stdout)
