"""Every reader of foreign text takes time that grows with the text's length, whatever it holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from html import escape

import pytest

from tests.clock import forget_texts
from tests.text.pathological import texts
from webapp.claims.extraction.quotes import quotes
from webapp.claims.tables.store import tables_of_html
from webapp.core.sandbox import UnreadableError
from webapp.library.references import references
from webapp.papers.formats import parse_feed
from webapp.papers.identifiers import identifiers_in
from webapp.papers.latexml import plain_tex
from webapp.papers.names import parse_name, unicode_name
from webapp.papers.proposal import in_two_lines, informative_sentence
from webapp.papers.repositories import offered, repository
from webapp.summaries.html_text import code_of_html, sections_of_html
from webapp.summaries.normalise import object_in
from webapp.summaries.paper_text import PaperText
from webapp.summaries.pdf_text import without_references
from webapp.summaries.schema import PaperSummary
from webapp.ui.markup import plain, render, without_tex

LENGTH = 10_000
NOTICED = 0.05  # seconds; a shorter time says nothing of growth
ENDLESS = 10.0  # seconds after which a reader is ended


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def page(text: str) -> bytes:
    return encoded(f"<article><p>{'A sentence. ' * 60}</p><p>{text}</p></article>")


def table(text: str) -> bytes:
    half = len(text) // 2
    rows = f"<tr><td>{text[:half]}</td><td>B</td></tr><tr><td>a</td><td>{text[half:]}</td></tr>"
    return encoded(f"<article><table class='ltx_tabular'>{rows}</table></article>")


def entry(text: str) -> bytes:
    return encoded(
        f"<rss version='2.0'><channel><item><title>{escape(text)}</title>"
        "<guid>oai:arXiv.org:2601.00001v1</guid><description>arXiv:2601.00001v1 Announce Type: "
        f"new Abstract: {escape(text)}</description></item></channel></rss>"
    )


def feed(body: bytes) -> object:
    return parse_feed(body, "cs.AI", date(2026, 1, 2))


def ground(text: str) -> object:
    return PaperText("A title", text, [("Results", text)]).ground("10", "%", text[:300])


READERS: dict[str, Callable[[str], object]] = {
    "sections of HTML": lambda text: sections_of_html(page(text)),
    "repository in HTML": lambda text: code_of_html(page(text)),
    "tables of HTML": lambda text: tables_of_html(table(text)),
    "pages of PDF": lambda text: without_references([text]),
    "feed": lambda text: feed(encoded(f"<rss version='2.0'><channel>{text}</channel></rss>")),
    "entry of a feed": lambda text: feed(entry(text)),
    "sentence that offers code": lambda text: offered([text]),
    "repository": lambda text: repository(text, "github.com"),
    "references": references,
    "answer of a model": lambda text: object_in(text, PaperSummary.model_fields),
    "TeX as HTML": lambda text: render(text, links=True),
    "TeX as Unicode": lambda text: (without_tex(text), plain(text)),
    "name": lambda text: (unicode_name(text), parse_name(text)),
    "identifiers": identifiers_in,
    "sentence of an abstract": informative_sentence,
    "sentence in two lines": in_two_lines,
    "quotes of an abstract": quotes,
    "a formula as text": plain_tex,
    "grounding": ground,
}


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End a reader that would take minutes."""
    import signal

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seconds(read: Callable[[str], object], text: str) -> float:
    """Processor time, of which at most ENDLESS is spent."""
    forget_texts()
    before = time.process_time()
    with suppress(UnreadableError, TimeoutError), _limited(ENDLESS):
        read(text)
    return time.process_time() - before


def suspect(read: Callable[[str], object], shorter: str, longer: str) -> bool:
    """Tell a time that more than triples, of the shortest of three readings of each text.

    Others use the caches, too, and a virtual machine may book the time of one to another.
    """
    once = twice = ENDLESS
    for _ in range(3):
        once = min(once, seconds(read, shorter))
        if once <= NOTICED:
            return False
        twice = min(twice, seconds(read, longer))
        if twice < min(3 * once, ENDLESS):
            return False
    return True


@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_no_more_than_three_times_the_time(name: str) -> None:
    read = READERS[name]
    read("A text.") if name not in {"sections of HTML", "feed"} else None
    longer, longest = dict(texts(2 * LENGTH)), dict(texts(4 * LENGTH))
    for kind, text in texts(LENGTH):
        # What grows faster than the text does so at every length: a step at one is none.
        grows = suspect(read, text, longer[kind]) and suspect(read, longer[kind], longest[kind])
        assert not grows, kind
