"""Papers that a reader likes, from references in any text."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from webapp.core import limits, sandbox, tasks
from webapp.library.models import LikedText, Star
from webapp.library.references import SECONDS, references
from webapp.papers.arxiv_api import IDS, by_author, lookup
from webapp.papers.entries import Entry
from webapp.papers.models import Paper
from webapp.papers.names import parse_name, wrote
from webapp.papers.search import search
from webapp.papers.store import prepare, store_papers


@dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    starred: int  # papers of this site that are now saved
    learned_from: int  # titles of papers that this site lacks, kept to learn from
    unknown: list[str]  # identifiers of papers that this site lacks and that came without a title


@dataclass(frozen=True)
class Named:
    """The papers that a text names."""

    papers: list[Paper]  # of this site
    texts: dict[str, str]  # abstracts by title, of papers that this site lacks
    unknown: list[str]  # identifiers of papers that it lacks and that came without a title


def named_in(text: str) -> Named:
    """The papers in a text of any of the formats. Raises UnreadableError."""
    named = sandbox.run(references, text, seconds=SECONDS)
    here = Paper.objects.in_bulk([reference.arxiv_id for reference in named], field_name="arxiv_id")
    papers, texts, unknown = {}, {}, []
    for reference in named:
        if paper := here.get(reference.arxiv_id):
            papers[paper.pk] = paper
        elif reference.title.strip():
            texts[" ".join(reference.title.split())[:500]] = reference.abstract[:5_000]
        elif reference.arxiv_id:
            unknown.append(reference.arxiv_id)
    return Named(list(papers.values()), texts, list(dict.fromkeys(unknown)))


def import_liked(reader: User, text: str) -> Imported:
    """Save the papers in a text; keep the titles of those that this site lacks to learn from.

    Raises UnreadableError. The text is read before anything is locked.
    """
    return import_named(reader, named_in(text))


def import_named(reader: User, named: Named) -> Imported:
    """Save the papers that were named; keep titles of those that this site lacks to learn from."""
    with transaction.atomic():
        starred = sum(Star.objects.get_or_create(reader=reader, paper=p)[1] for p in named.papers)
        stored = sum(
            LikedText.objects.get_or_create(
                reader=reader, title=title, defaults={"abstract": abstract}
            )[1]
            for title, abstract in named.texts.items()
        )
    return Imported(starred, stored, named.unknown)


def save_named(reader_id: int, identifiers: Sequence[str]) -> int:
    """Fetch papers from arXiv and save them for a reader; returns how many arXiv knows.

    Raises FetchError, with nothing changed.
    """
    return _save(reader_id, lookup(identifiers))


def papers_by(name: str) -> list[Paper]:
    """The latest papers of this site by an author of that name."""
    parts = parse_name(name)
    papers = search(f'author:"{parts.given} {parts.last}"', order="newest", relax=False).papers
    return [paper for paper in papers if wrote(name, paper.author_names)]


def save_by(reader_id: int, name: str) -> int:
    """Fetch an author's papers from arXiv and save them for a reader; returns how many.

    Raises FetchError, with nothing changed.
    """
    entries = by_author(name)
    return _save(reader_id, [e for e in entries if wrote(name, [who.name for who in e.authors])])


def _save(reader_id: int, entries: Sequence[Entry]) -> int:
    """Store papers and save them for a reader; returns how many."""
    rendered = prepare(entries)
    with transaction.atomic():
        papers = store_papers(entries, None, rendered, known_at=timezone.now())
        for reader in User.objects.filter(pk=reader_id):
            for paper in papers.values():
                Star.objects.get_or_create(reader=reader, paper=paper)
    return len(papers)


def ask_for_author(reader: User, name: str) -> bool:
    """Have a worker run `save_by`; False if the broker is down. Raises LimitReachedError."""
    limits.spend("lookups", limits.reader_key(reader.pk), 1)
    return tasks.send("site.save_by", [reader.pk, name], lost="papers are not asked for")


def ask_for(reader: User, identifiers: Sequence[str]) -> bool:
    """Have a worker run `save_named`; False if the broker is down. Raises LimitReachedError."""
    limits.spend("lookups", limits.reader_key(reader.pk), len(identifiers))
    parts = (list(identifiers[start : start + IDS]) for start in range(0, len(identifiers), IDS))
    lost = "papers are not asked for"
    return all(tasks.send("site.save_named", [reader.pk, part], lost=lost) for part in parts)
