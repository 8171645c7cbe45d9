"""A paper's text: arXiv's HTML, else its PDF, else the abstract; fetched once per version."""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Exists, OuterRef
from django.utils import timezone

from assay_common.text import clean
from webapp.claims.models import TableReading
from webapp.claims.tables.store import store_tables, without_tables
from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError
from webapp.papers import fetch
from webapp.papers.models import Paper

from .html_text import Section, code_of_html, sections_of_html
from .models import FullText
from .pdf_text import sections_of_pdf

log = logging.getLogger(__name__)

TABLES_AT_ONCE = 5  # papers a tick: the limiter is arXiv's, and others wait for it too
MAX_CHARACTERS = 600_000  # of one paper that are kept; a long thesis has about as many
Source = FullText.Source
_READERS = {Source.HTML: sections_of_html, Source.PDF: sections_of_pdf}


class NotYetError(Exception):
    """arXiv cannot be asked now, so nothing is known about the paper; the message says why."""

    def __init__(self, message: str, *, is_away: bool = False) -> None:
        """`is_away`: it was not reached at all, where otherwise it asks to wait."""
        super().__init__(message)
        self.is_away = is_away


def full_text(paper: Paper) -> FullText:
    """The text of the paper's latest version, from the cache or, within the limiter, from arXiv.

    Raises NotYetError if arXiv is unreachable or asks us to wait: the abstract would otherwise
    be stored for good although the full text can be fetched later.
    """
    stored = FullText.objects.filter(paper=paper, version=paper.version).first()
    if stored:
        return stored
    reasons: list[str] = []
    for source, read in _READERS.items():
        try:
            body = fetch.get(address(paper, source)).body
            sections = sandbox.run(read, body)
            with _paper_must_exist(paper):
                if source == Source.HTML:
                    _read_whole(paper, body)
                return _store(paper, source, sections, reasons)
        except (fetch.OutOfReachError, fetch.AskedToWaitError) as error:
            is_away = isinstance(error, fetch.OutOfReachError)
            raise NotYetError(str(error), is_away=is_away) from error
        except (fetch.FetchError, UnreadableError) as error:
            reasons.append(f"no {source.value.upper()}: {error}")
    with _paper_must_exist(paper):
        return _store(paper, Source.ABSTRACT, [Section("Abstract", paper.abstract)], reasons)


@contextmanager
def _paper_must_exist(paper: Paper) -> Iterator[None]:
    """Raise NotYetError if the paper was removed during the fetch, as the sample day is."""
    try:
        yield
    except IntegrityError as error:
        raise NotYetError(f"{paper.arxiv_id} was removed meanwhile") from error


def abstract_alone(paper: Paper, reason: str) -> FullText:
    """Return the abstract as a paper's text, not stored: the whole may be had another time."""
    sections = [{"title": "Abstract", "text": clean(paper.abstract)}]
    return FullText(
        paper=paper, version=paper.version, source=Source.ABSTRACT, sections=sections, share=1.0,
        reason=reason[:1000], fetched_at=timezone.now(),
    )  # fmt: skip


def read_tables(paper: Paper) -> None:
    """Read the tables of the latest version from arXiv's HTML, once; its text is kept as well.

    Raises NotYetError if arXiv is unreachable or asks us to wait.
    """
    if TableReading.objects.filter(paper=paper, version=paper.version).exists():
        return
    try:
        body = fetch.get(address(paper, Source.HTML)).body
        sections = sandbox.run(sections_of_html, body)
    except (fetch.OutOfReachError, fetch.AskedToWaitError) as error:
        raise NotYetError(str(error)) from error
    except (fetch.FetchError, UnreadableError) as error:
        with _paper_must_exist(paper):
            without_tables(paper, paper.version, f"no HTML: {error}")
        return
    with _paper_must_exist(paper):
        _read_whole(paper, body)
        _store(paper, Source.HTML, sections, [])


def _read_whole(paper: Paper, body: bytes) -> None:
    """Store the rest of arXiv's HTML: the tables, and the address of the authors' code."""
    store_tables(paper, paper.version, body)
    try:
        code = sandbox.run(code_of_html, body)[:255]
    except UnreadableError as error:
        log.warning("The repository of %s cannot be read: %s", paper.arxiv_id, error)
        return
    if code != paper.code_offered:
        paper.code_offered = code
        # Feeds ask for the last change of any paper; one without it is still to be enriched.
        paper.enriched_at = paper.enriched_at and timezone.now()
        paper.save(update_fields=["code_offered", "enriched_at"])


def read_some_tables(paper_ids: Sequence[int]) -> int:
    """Read the tables of the first few of these papers that were not read; how many were.

    Stops where arXiv cannot be asked now: the next call goes on.
    """
    read = TableReading.objects.filter(paper=OuterRef("pk"), version=OuterRef("version"))
    unread = Paper.objects.filter(~Exists(read), pk__in=paper_ids).in_bulk()
    papers = [unread[key] for key in dict.fromkeys(paper_ids) if key in unread][:TABLES_AT_ONCE]
    for count, paper in enumerate(papers):
        try:
            read_tables(paper)
        except NotYetError as error:
            log.info("Tables wait for the next tick: %s", error)
            return count
    return len(papers)


def read_tables_of(paper_id: int) -> None:
    """Read the tables of a paper that a reader asked for."""
    read_some_tables([paper_id])


def address(paper: Paper, source: str) -> str:
    """Return the address of a paper's latest version on arXiv."""
    return f"{settings.ARXIV_SITE_URL}/{source}/{paper.arxiv_id}v{paper.version}"


def _store(paper: Paper, source: str, sections: list[Section], reasons: list[str]) -> FullText:
    total = sum(len(s.text) for s in sections) or 1
    shortened, room = [], MAX_CHARACTERS
    for section in sections:  # a PDF holds NUL where a font has no letter for it
        shortened.append({"title": clean(section.title)[:300], "text": clean(section.text)[:room]})
        room -= len(section.text)
        if room <= 0:
            break
    stored = json.dumps(shortened, ensure_ascii=False).encode()
    # Tables that are read anew bring their text anew: an older reader may have read it wrongly.
    text, _ = FullText.objects.update_or_create(
        paper=paper,
        version=paper.version,
        defaults={
            "source": source,
            "sections": shortened,
            "sha256": hashlib.sha256(stored).hexdigest(),
            "share": min(1.0, sum(len(s["text"]) for s in shortened) / total),
            "reason": "; ".join(reasons)[:1000],
            "fetched_at": timezone.now(),
        },
    )
    return text
