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
_REFERENCES = re.compile(r"^\s*(?:references|bibliography)\s*$", re.IGNORECASE | re.MULTILINE)


def sections_of_pdf(body: bytes) -> list[Section]:
    """One section a page, the reference list cut off; at most MAX_PAGES pages.

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

    pages: list[str] = []
    for page in PdfReader(io.BytesIO(body)).pages[:MAX_PAGES]:
        text = page.extract_text().encode(errors="replace").decode()
        if cut := _REFERENCES.search(text):
            return [*pages, text[: cut.start()]]
        pages.append(text)
    return pages


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    json.dump(_read_pages(sys.stdin.buffer.read()), sys.stdout)
