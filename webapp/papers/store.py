"""A batch into rows: one transaction, idempotent, and the same for any order of batches.

Three rules make the order of arrival irrelevant: the text and metadata of a paper are those of its
highest version; what every version adds (a category, the first day) is a union or a minimum; and
an announcement is kept for as long as its listing.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from html import escape
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError
from webapp.papers.entries import Batch, Entry
from webapp.papers.models import Announcement, Listing, Paper, PaperVersion
from webapp.ui.markup import render

log = logging.getLogger(__name__)

_CHUNK = 500  # rows of one statement
_FACTS = ("license", "doi", "journal_ref", "comment", "submitted_at", "updated_at")
_FIXED = {"id", "arxiv_id"}
_MERGED = [column.name for column in Paper._meta.concrete_fields if column.name not in _FIXED]


# Title and abstract of a version as HTML.
Rendered = tuple[str, str]


def prepare(entries: Sequence[Entry]) -> dict[tuple[str, int], Rendered]:
    """The HTML of the entries whose text is new, by key.

    Rendering takes longer than storing, so it is done before any row is locked.
    """
    real = Paper.objects.filter(is_sample=False).only("arxiv_id", "version")
    shown = _by_identifier(real, entries)
    new = [
        entry
        for entry in entries
        if entry.arxiv_id not in shown or entry.version > shown[entry.arxiv_id].version
    ]
    if not new:
        return {}
    try:
        return sandbox.run(_render_all, new)
    except UnreadableError as error:
        log.warning("%d papers are rendered one by one: %s", len(new), error)
    return {entry.key: _render_apart(entry) for entry in new}


@transaction.atomic
def store_batch(
    batch: Batch,
    source: Listing.Source,
    moment: datetime,
    rendered: Mapping[tuple[str, int], Rendered],
    *,
    replaces: bool = False,
) -> Listing:
    """Store `batch` as the complete (or, without entries, empty) listing of its day.

    `rendered` is what `prepare` returned for the batch's entries. Called again with the same batch
    it writes only the audit's `polls` and `polled_at`. `replaces` deletes what the day's listing
    announced before.
    """
    is_sample = source == Listing.Source.SAMPLE
    papers = store_papers(
        batch.entries,
        batch.date,
        rendered,
        is_sample=is_sample,
        known_at=moment if source == Listing.Source.API else None,
    )
    listing = Listing.locked(batch.category, batch.date, moment, Listing.State.EMPTY)
    if replaces:
        listing.announcements.all().delete()
    _announce(listing, batch.entries, papers)
    counts = Counter(listing.announcements.values_list("type", flat=True))
    facts: dict[str, object] = {
        "state": Listing.State.COMPLETE if counts else Listing.State.EMPTY,
        "source": source,
        "reason": batch.note,
        "counts": dict(sorted(counts.items())),
        "problems": [asdict(problem) for problem in batch.problems],
        "etag": batch.etag[:255],
        "last_modified": batch.last_modified[:64],
    }
    listing.record_poll(moment, facts)
    return listing


def remove_sample() -> None:
    """Delete the sample day: its listings, and its papers with whatever was derived from them.

    A paper that a reader saved, noted or listed stays, because its identifier is a real one; the
    API replaces its text. Readers' rows are those whose model has a reader: they are found in the
    schema, since apps above this one define them.
    """
    if not Listing.objects.filter(source=Listing.Source.SAMPLE).delete()[0]:
        return
    sample = Paper.objects.filter(is_sample=True)
    touched: set[int] = set()
    derived = []
    for relation in Paper._meta.related_objects:
        model: Any = relation.related_model
        name = relation.field.name
        if any(field.related_model is User for field in model._meta.concrete_fields):
            touched.update(
                model.objects.filter(**{f"{name}__in": sample}).values_list(name, flat=True)
            )
        else:
            derived.append((model, name))
    sample.exclude(pk__in=touched).delete()
    for model, name in derived:
        model.objects.filter(**{f"{name}__in": touched}).delete()
    sample.update(announced_on=None)


@transaction.atomic
def store_papers(
    entries: Sequence[Entry],
    announced_on: date | None,
    rendered: Mapping[tuple[str, int], Rendered],
    *,
    is_sample: bool = False,
    known_at: datetime | None = None,
) -> dict[str, Paper]:
    """Update papers and their versions from `entries`; returns the papers by identifier.

    `entries` has each paper once. `announced_on` is the day of the batch, or None for entries that
    announce nothing. `known_at` marks entries of the API, whose metadata wins over a feed's of the
    same version; the paper needs no further enrichment.
    """
    # Rows are inserted, then locked, in the order of identifiers: two batches with papers in
    # common wait for each other instead of deadlocking.
    entries = sorted(entries, key=lambda entry: entry.arxiv_id)
    stored = Paper.objects.order_by("arxiv_id")
    by_identifier = _by_identifier(stored, entries)
    missing = [
        Paper(arxiv_id=entry.arxiv_id, version=0, is_sample=is_sample)
        for entry in entries
        if entry.arxiv_id not in by_identifier
    ]
    Paper.objects.bulk_create(missing, batch_size=_CHUNK, ignore_conflicts=True)
    papers = _by_identifier(stored.select_for_update(), entries)
    before = {name: _values(paper) for name, paper in papers.items()}
    for entry in entries:
        _merge(
            papers[entry.arxiv_id],
            entry,
            announced_on,
            rendered,
            known_at=known_at,
            is_sample=is_sample,
        )
    changed = [paper for name, paper in papers.items() if _values(paper) != before[name]]
    # Ten times as fast as bulk_update.
    Paper.objects.bulk_create(
        changed,
        batch_size=_CHUNK,
        update_conflicts=True,
        unique_fields=["pk"],
        update_fields=_MERGED,
    )
    _keep_versions(entries, papers, announced_on)
    return papers


def _merge(
    paper: Paper,
    entry: Entry,
    announced_on: date | None,
    rendered: Mapping[tuple[str, int], Rendered],
    *,
    known_at: datetime | None,
    is_sample: bool,
) -> None:
    """Write into `paper` what `entry` adds: all of a newer version, else what is missing."""
    authority = known_at is not None
    # arXiv's text replaces the sample's own for a paper that a reader keeps.
    replaces_sample = paper.is_sample and not is_sample
    newer = entry.version > paper.version or replaces_sample
    current = newer or entry.version == paper.version
    if newer:
        html = rendered.get(entry.key) or _render(entry)
        paper.version, paper.is_sample = entry.version, is_sample
        paper.title, paper.abstract = entry.title, entry.abstract
        paper.title_html, paper.abstract_html = html
        paper.enriched_at, paper.enrich_tries = None, 0  # ask the API again
        paper.comment = ""  # belongs to a version: the new one may not be withdrawn
    if current:
        for name in _FACTS:
            value = getattr(entry, name)
            if value and (newer or authority or not getattr(paper, name)):
                setattr(paper, name, value)
        if entry.authors and (newer or authority or not paper.authors):
            paper.authors = _authors(entry, [] if newer else paper.authors)
        if entry.categories and (newer or authority):
            paper.primary_category = entry.categories[0]
        if authority and paper.enriched_at is None:
            paper.enriched_at = known_at
    # The primary category stays first; others are only ever added.
    primary = [paper.primary_category] if paper.primary_category else []
    paper.categories = primary + sorted({*paper.categories, *entry.categories} - {*primary})
    if announced_on is not None:
        paper.announced_on = min(paper.announced_on or announced_on, announced_on)


def _authors(entry: Entry, stored: list[dict[str, str]]) -> list[dict[str, str]]:
    """The authors of an entry; the affiliations that only a feed gave stay."""
    authors = [asdict(author) for author in entry.authors]
    if len(authors) == len(stored):
        for author, before in zip(authors, stored, strict=True):
            author["affiliation"] = author["affiliation"] or before.get("affiliation", "")
    return authors


def _keep_versions(
    entries: Sequence[Entry], papers: Mapping[str, Paper], announced_on: date | None
) -> None:
    """Keep the text of every version once, with the first day it was announced."""
    rows = PaperVersion.objects.defer("title", "abstract").filter(paper__in=papers.values())
    stored = {(version.paper_id, version.number): version for version in rows}
    new: list[PaperVersion] = []
    earlier: list[PaperVersion] = []
    for entry in entries:
        day = announced_on if entry.announced_version in (None, entry.version) else None
        paper = papers[entry.arxiv_id]
        version = stored.get((paper.pk, entry.version))
        if version is None:
            texts = {"title": entry.title, "abstract": entry.abstract}
            new.append(PaperVersion(paper=paper, number=entry.version, announced_on=day, **texts))
        elif day is not None and day < (version.announced_on or date.max):
            version.announced_on = day
            earlier.append(version)
    PaperVersion.objects.bulk_create(new, batch_size=_CHUNK, ignore_conflicts=True)
    PaperVersion.objects.bulk_update(earlier, ["announced_on"], batch_size=_CHUNK)


def _announce(listing: Listing, entries: Sequence[Entry], papers: Mapping[str, Paper]) -> None:
    """Add the entries to the listing; of two announcements of a paper the weightier is kept."""
    standing = {row.paper_id: row for row in listing.announcements.all()}
    new: list[Announcement] = []
    weightier: list[Announcement] = []
    for entry in entries:
        paper, version = papers[entry.arxiv_id], entry.announced_version or entry.version
        row = Announcement(listing=listing, paper=paper, type=entry.type, version=version)
        announcement = standing.get(paper.pk)
        if announcement is None:
            new.append(row)
        elif row.weight < announcement.weight:
            row.pk = announcement.pk
            weightier.append(row)
    Announcement.objects.bulk_create(new, batch_size=_CHUNK)
    Announcement.objects.bulk_update(weightier, ["type", "version"], batch_size=_CHUNK)


def _by_identifier(papers: QuerySet[Paper], entries: Sequence[Entry]) -> dict[str, Paper]:
    return papers.in_bulk([entry.arxiv_id for entry in entries], field_name="arxiv_id")


def _values(paper: Paper) -> tuple[object, ...]:
    return tuple(getattr(paper, name) for name in _MERGED)


def _render_all(entries: Sequence[Entry]) -> dict[tuple[str, int], Rendered]:
    return {entry.key: _render(entry) for entry in entries}


def _render_apart(entry: Entry) -> Rendered:
    """Render one paper; one that cannot be rendered is shown as its source."""
    try:
        return sandbox.run(_render, entry)
    except UnreadableError as error:
        log.warning("%s is shown as its source: %s", entry.arxiv_id, error)
        return escape(entry.title), escape(entry.abstract)


def _render(entry: Entry) -> Rendered:
    return render(entry.title), render(entry.abstract, links=True)
