"""A paper's text: arXiv's HTML, else its PDF, else the abstract; fetched once per version."""

import hashlib
import json

from django.conf import settings
from django.utils import timezone

from webapp.papers import fetch
from webapp.papers.models import Paper

from .html_text import Section, UnreadableError, sections_of_html
from .models import FullText
from .pdf_text import sections_of_pdf

MAX_CHARACTERS = 600_000  # of one paper that are kept; a long thesis has about as many
Source = FullText.Source
_READERS = {Source.HTML: sections_of_html, Source.PDF: sections_of_pdf}


class NotYetError(Exception):
    """arXiv cannot be asked now, so nothing is known about the paper; the message says why."""


def full_text(paper: Paper) -> FullText:
    """The text of the paper's latest version, from the cache or, within the limiter, from arXiv.

    Raises NotYetError where arXiv is unreachable or asks us to wait: the abstract would otherwise
    be stored for good although the full text can be fetched later.
    """
    known = FullText.objects.filter(paper=paper, version=paper.version).first()
    if known:
        return known
    reasons: list[str] = []
    for source, read in _READERS.items():
        url = f"{settings.ARXIV_SITE_URL}/{source.value}/{paper.arxiv_id}v{paper.version}"
        try:
            return _kept(paper, source, read(fetch.get(url).body), reasons)
        except (fetch.OutOfReachError, fetch.AskedToWaitError) as error:
            raise NotYetError(str(error)) from error
        except (fetch.FetchError, UnreadableError) as error:
            reasons.append(f"no {source.value.upper()}: {error}")
    return _kept(paper, Source.ABSTRACT, [Section("Abstract", paper.abstract)], reasons)


def _kept(paper: Paper, source: str, sections: list[Section], reasons: list[str]) -> FullText:
    total = sum(len(s.text) for s in sections) or 1
    kept, room = [], MAX_CHARACTERS
    for section in sections:
        kept.append({"title": section.title[:300], "text": section.text[:room]})
        room -= len(section.text)
        if room <= 0:
            break
    stored = json.dumps(kept, ensure_ascii=False).encode()
    text, _ = FullText.objects.get_or_create(
        paper=paper,
        version=paper.version,
        defaults={
            "source": source,
            "sections": kept,
            "sha256": hashlib.sha256(stored).hexdigest(),
            "share": min(1.0, sum(len(s["text"]) for s in kept) / total),
            "reason": "; ".join(reasons)[:1000],
            "fetched_at": timezone.now(),
        },
    )
    return text
