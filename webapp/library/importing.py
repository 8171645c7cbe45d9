"""Papers that a reader likes, from arXiv ids in any text, BibTeX, RIS or Zotero's CSL-JSON."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from webapp import tasks
from webapp.digests.models import Star
from webapp.library.models import LikedText
from webapp.papers.api import IDS, lookup
from webapp.papers.identifiers import CATEGORY, parse_identifier
from webapp.papers.models import Paper
from webapp.papers.search.query import words_of
from webapp.papers.store import prepare, store_papers

MOST = 1_000  # papers of one import
MAX_TEXT = 2_000_000  # characters read
_ID = re.compile(rf"(?:(?<![\d.])[0-9]{{4}}\.[0-9]{{4,5}}|\b{CATEGORY}/[0-9]{{7}})(?!\d)")
_BIBTEX_ENTRY = re.compile(r"@(?!comment|string|preamble)\w+\s*[{(]", re.IGNORECASE)
_BIBTEX_FIELD = re.compile(r"\b(title|abstract)\s*=\s*([{\"])", re.IGNORECASE)
_RIS_RECORD = re.compile(r"^(?=TY  -)", re.MULTILINE)
_RIS_END = re.compile(r"^ER  -", re.MULTILINE)
_RIS_FIELDS = {"TI": "title", "T1": "title", "AB": "abstract", "N2": "abstract"}
_RIS_LINE = re.compile(r"^(TI|T1|AB|N2)  - ?(.*)", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """A paper in an export."""

    text: str  # the whole record, for the identifier
    title: str = ""
    abstract: str = ""

    @property
    def arxiv_id(self) -> str:
        """Its arXiv identifier, or "" without one."""
        found = _ID.search(self.text)
        return parse_identifier(found[0])[0] if found else ""


@dataclass(frozen=True)
class Imported:
    """The outcome of an import."""

    starred: int  # papers of this site that are now saved
    learned_from: int  # titles of papers that this site lacks, kept to learn from
    unknown: list[str]  # identifiers of papers that this site lacks and that came without a title


def references(text: str) -> list[Reference]:
    """The papers in a text of any of the formats."""
    text = text[:MAX_TEXT]
    if text.lstrip().startswith(("[", "{")):
        return list(_csl(text))
    if _RIS_RECORD.search(text):
        return list(_ris(text))
    if _BIBTEX_ENTRY.search(text):
        return list(_bibtex(text))
    return [Reference(one) for one in dict.fromkeys(_ID.findall(text))]


@transaction.atomic
def import_liked(reader: User, text: str) -> Imported:
    """Save the papers in a text; keep the titles of those that this site lacks to learn from."""
    named = references(text)[:MOST]
    here = Paper.objects.in_bulk([one.arxiv_id for one in named], field_name="arxiv_id")
    starred, texts, unknown = 0, 0, []
    for one in named:
        if paper := here.get(one.arxiv_id):
            starred += Star.objects.get_or_create(reader=reader, paper=paper)[1]
        elif one.title.strip():
            title = " ".join(one.title.split())[:500]
            texts += LikedText.objects.get_or_create(
                reader=reader, title=title, defaults={"abstract": one.abstract[:5_000]}
            )[1]
        elif one.arxiv_id:
            unknown.append(one.arxiv_id)
    return Imported(starred, texts, unknown)


def save_named(reader_id: int, identifiers: Sequence[str]) -> int:
    """Fetch papers from arXiv and save them for a reader; returns how many arXiv knows.

    Raises FetchError, with nothing changed.
    """
    entries = lookup(identifiers)
    rendered = prepare(entries)
    with transaction.atomic():
        papers = store_papers(entries, None, rendered, known_at=timezone.now())
        for reader in User.objects.filter(pk=reader_id):
            for paper in papers.values():
                Star.objects.get_or_create(reader=reader, paper=paper)
    return len(papers)


def ask_for(reader: User, identifiers: Sequence[str]) -> bool:
    """Have a worker run `save_named`; False where the broker is down."""
    parts = (list(identifiers[at : at + IDS]) for at in range(0, len(identifiers), IDS))
    lost = "papers are not asked for"
    return all(tasks.send("site.save_named", [reader.pk, part], lost=lost) for part in parts)


def _csl(text: str) -> Iterator[Reference]:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        items = []
    if isinstance(items, dict):
        items = items.get("items", [items])
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            title, abstract = (str(item.get(name) or "") for name in ("title", "abstract"))
            yield Reference(json.dumps(item), title, abstract)


def _ris(text: str) -> Iterator[Reference]:
    for record in _RIS_RECORD.split("\n".join(text.splitlines()))[1:]:
        if _RIS_END.search(record):
            fields = {_RIS_FIELDS[tag]: value for tag, value in _RIS_LINE.findall(record)}
            yield Reference(record, **fields)


def _bibtex(text: str) -> Iterator[Reference]:
    for entry in _BIBTEX_ENTRY.split(text)[1:]:
        found = _BIBTEX_FIELD.finditer(entry)
        fields = {match[1].lower(): _value(entry, match.end() - 1) for match in found}
        title = fields.get("title", "")
        yield Reference(entry, title if words_of(title) else "", fields.get("abstract", ""))


def _value(entry: str, start: int) -> str:
    """The value of a field that starts at `start`, without braces."""
    depth, quoted = 0, entry[start] == '"'
    for at in range(start + quoted, len(entry)):
        depth += {"{": 1, "}": -1}.get(entry[at], 0)
        if (quoted and entry[at] == '"' and not depth) or (not quoted and not depth):
            return re.sub(r"[{}]", "", entry[start + 1 : at])
    return ""
