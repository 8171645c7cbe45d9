"""References in any text: arXiv ids, BibTeX, RIS or CSL-JSON, with what they say of a paper.

The formats are read by pybtex and rispy. The text and what its macros stand for are bounded in
size. Nothing here touches the database.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import unescape
from itertools import islice
from typing import Any

from assay_common.text import clean
from webapp.core.sandbox import UnreadableError
from webapp.papers.identifiers import identifiers_in
from webapp.papers.search.query import words_of
from webapp.ui.markup import plain

SECONDS = 10  # of reading, while a reader waits
MAX_REFERENCES = 1_000  # papers of one import
MAX_TEXT = 2_000_000  # characters read
MAX_EXPANDED = 2_000_000  # characters that BibTeX's macros stand for
_BIBTEX_ENTRY = re.compile(r"@\s*(?!comment|string|preamble)\w+\s*[{(]", re.IGNORECASE)
# Google Scholar writes `@article{,` for authors whose names it cannot spell.
_KEYLESS = re.compile(
    r"(@\s{0,9}(?!comment|string|preamble)\w{1,30}\s{0,9}[{(])\s{0,9}(,|\w{1,30}\s{0,9}=)", re.I
)
# Escaped braces of a text, which end no field: BibTeX itself counts them.
_ESCAPED_BRACE = re.compile(r"(?<!\\)\\([{}])")
_BRACES = {"{": "\ue000", "}": "\ue001"}
_COMMENT = re.compile(r"@\s*comment\s*[{(]", re.IGNORECASE)
_RIS_LINE = re.compile(r"^[ \t]{0,8}([A-Z][A-Z0-9]) {1,3}-(?: |$)(.*)$")
_RIS_TYPE = re.compile(r"^[ \t]{0,8}TY {1,3}-", re.MULTILINE)
# Where a reference names its paper, before what it says of others.
_BIBTEX_NAMES = (
    *("eprint", "arxivid", "arxiv", "doi", "url", "journal", "volume", "number", "note"),
    *("howpublished", "pages", "institution", "publisher", "booktitle", "file", "ids"),
)
# One of these in an entry that BibTeX cannot read to its end.
_NAMING_FIELD = re.compile(
    rf"\b(?:{'|'.join(_BIBTEX_NAMES)})\s{{0,9}}=\s{{0,9}}[{{\"]([^{{}}\"\n]{{1,300}})",
    re.IGNORECASE,
)
MAX_ENTRY = 20_000  # characters of such an entry that are read
_CSL_NAMES = (
    *("arxivId", "eprint", "DOI", "doi", "URL", "number", "archive_location", "archiveID", "note"),
    *("reportNumber", "callNumber", "publicationTitle", "url"),  # of Zotero's own JSON
    *("container-title", "alternative-id", "extra", "id", "link", "resource", "externalIds"),
)
_CSL_LISTS = ("message", "items", "data", "results")  # in which services wrap their items
# EndNote's tags (%T) as those of RIS; http://support.endnote.com, "Tagged" import.
_ENDNOTE_TYPE = re.compile(r"^%0 ", re.MULTILINE)
_ENDNOTE_TAG = re.compile(r"^%(\S) ", re.MULTILINE)
_ENDNOTE = {"0": "TY", "T": "TI", "X": "AB", "U": "UR", "R": "DO"}


@dataclass(frozen=True)
class Reference:
    """A paper in an export; `arxiv_id` is "" without one."""

    arxiv_id: str = ""
    title: str = ""
    abstract: str = ""


def is_export(text: str) -> bool:
    """True if a text is BibTeX, RIS, EndNote or CSL-JSON rather than words or identifiers."""
    start = text[:MAX_TEXT].lstrip("\ufeff \t\r\n")
    return bool(
        _ENDNOTE_TYPE.match(start)
        or _RIS_TYPE.search(start)
        or _BIBTEX_ENTRY.search(start)
        or (start.startswith(("[", "{")) and _csl_items(start))
    )


def references(text: str) -> list[Reference]:
    """Return at most MAX_REFERENCES papers of a text in any of the formats.

    Raises UnreadableError. Call it through the sandbox: the parsers take their time.
    """
    text = text[:MAX_TEXT].replace("\ufeff", "").replace("\x00", "")
    if _ENDNOTE_TYPE.match(text.lstrip()):
        text = _ENDNOTE_TAG.sub(lambda tag: f"{_ENDNOTE.get(tag[1], 'ZZ')}  - ", text)
    if text.lstrip().startswith(("[", "{")) and (items := _csl_items(text)):
        read: Iterable[Reference] = map(_csl, items)
    elif _RIS_TYPE.search(text):
        read = _ris(text)
    elif _BIBTEX_ENTRY.search(text):
        read = _bibtex(text)
    else:
        read = map(Reference, identifiers_in(text))
    # Escapes such as \\u0000 or \\ud800 in JSON hold what no text and no database takes.
    return [
        Reference(reference.arxiv_id, clean(reference.title), clean(reference.abstract))
        for reference in islice(read, MAX_REFERENCES)
    ]


def _named(texts: Iterable[object]) -> str:
    """The first identifier in the texts, or "".

    A bare DOI of arXiv or an `eprint` of digits is one; `volume = {abs/2301.01234}` too.
    """
    for text in texts:
        if text and (identifiers := identifiers_in(str(text)[:5_000])):
            return identifiers[0]
    return ""


def _csl_items(text: str) -> list[dict[str, Any]]:
    """The items of CSL-JSON: a list, one, one a line, or in the lists that services give."""
    try:
        items: Any = json.loads(text)
    except (ValueError, RecursionError):
        items = [item for line in text.splitlines() for item in _object_in(line)]
    for name in _CSL_LISTS:
        if isinstance(items, dict) and isinstance(items.get(name), dict | list):
            items = items[name]
    listed = items if isinstance(items, list) else [items]
    return [item for item in listed if isinstance(item, dict)]


def _object_in(line: str) -> list[Any]:
    try:
        return [json.loads(line)] if line.startswith("{") else []
    except (ValueError, RecursionError):
        return []


def _csl(item: dict[str, Any]) -> Reference:
    """Return the reference of a CSL item; Crossref names a preprint among a paper's relations."""
    if isinstance(item.get("data"), dict):  # Zotero's API gives the item within
        item = item["data"]
    relation = item.get("relation")
    places = [item.get(name) for name in _CSL_NAMES]
    places.append(relation.get("has-preprint") if isinstance(relation, dict) else None)
    named = _named(json.dumps(place) for place in places if place)
    abstract = item.get("abstract") or item.get("abstractNote")
    return Reference(named, _first(item.get("title")), _first(abstract))


def _first(value: object) -> str:
    """Return a text, or the first of Crossref's list of texts, without JATS tags."""
    text = value[0] if isinstance(value, list) and value else value
    bare = re.sub(r"</?[A-Za-z][^<>]{0,100}>", " ", text) if isinstance(text, str) else ""
    return " ".join(unescape(bare).split())


def _ris(text: str) -> Iterator[Reference]:
    """Parse RIS; values may continue over lines, and records may lack their end."""
    import rispy  # noqa: PLC0415 - only an import needs it

    for record in islice(_ris_records(text), MAX_REFERENCES):
        lines = "\n".join(f"{tag}  - {value}" for tag, value in record)
        (read,) = rispy.loads(f"{lines}\nER  - \n") or [{}]
        titles = (read.get(name) for name in ("title", "primary_title", "translated_title"))
        abstracts = (read.get(name) for name in ("abstract", "notes_abstract"))
        outside = [value for tag, value in record if tag not in {"TI", "T1", "AB", "N2", "TT"}]
        title, abstract = next(filter(None, titles), ""), next(filter(None, abstracts), "")
        yield Reference(_named(outside), str(title), str(abstract))


def _ris_records(text: str) -> Iterator[list[tuple[str, str]]]:
    """The tags and values of each record; a line without a tag goes on with the one before."""
    record: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _RIS_LINE.match(line)
        tag = match[1] if match else ""
        if tag in {"TY", "ER"}:
            if record:
                yield [(name, " ".join(" ".join(values).split())) for name, values in record]
            record = [("TY", [match[2]])] if match and tag == "TY" else []
        elif match and record:
            record.append((tag, [match[2]]))
        elif record:
            record[-1][1].append(line)
    if record:
        yield [(name, " ".join(" ".join(values).split())) for name, values in record]


class _Macros(dict[str, str]):
    """BibTeX's macros, whatever their case; what they stand for in all is bounded."""

    expanded = 0

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name.lower())
        self.expanded += len(value)
        if self.expanded > MAX_EXPANDED:
            raise UnreadableError("its macros stand for too much text")
        return value

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(name.lower(), value)


def _bibtex(text: str) -> Iterator[Reference]:
    """Parse BibTeX; an unreadable field is left out, and parsing goes on."""
    # Slow, and only an import needs it.
    from pybtex.database.input.bibtex import LowLevelParser, month_names  # noqa: PLC0415

    macros = _Macros({name.lower(): month for name, month in month_names.items()})
    text = _KEYLESS.sub(lambda at: f"{at[1]}_{'' if at[2] == ',' else ','}{at[2]}", text)
    text = _ESCAPED_BRACE.sub(lambda brace: _BRACES[brace[1]], text)
    parser = LowLevelParser(_without_comments(text), macros=macros, handle_error=lambda error: None)
    for kind, value in parser:
        if kind.lower() in {"string", "preamble", "comment"}:
            continue
        fields = {name.lower(): "".join(parts) for name, parts in value[1] or ()}
        if re.fullmatch(r"\d{7}", fields.get("eprint", "")):  # before 2007 ids had an archive
            fields["eprint"] = f"{fields.get('primaryclass', '').split('.')[0]}/{fields['eprint']}"
        title = _shown(fields.get("title", ""))
        named = _named(fields.get(name) for name in _BIBTEX_NAMES) or _named([value[0]])
        yield Reference(
            named or _named(_NAMING_FIELD.findall(_source(parser))),
            title if words_of(title) else "",
            _shown(fields.get("abstract", "")),
        )


def _source(parser: Any) -> str:
    """The text of the entry that was parsed last, up to the next."""
    start = parser.command_start
    end = _BIBTEX_ENTRY.search(parser.text, start + 1, start + MAX_ENTRY)
    return str(parser.text[start : end.start() if end else start + MAX_ENTRY])


def _shown(field: str) -> str:
    """A field as it is read: TeX in Unicode, without the braces that keep capitals."""
    bare = re.sub(r"(?<!\\)[{}]", "", plain(field[:20_000]))
    return bare.translate({ord(mark): brace for brace, mark in _BRACES.items()})


def _without_comments(text: str) -> str:
    """Return `text` without `@comment{…}`, which may contain whole entries."""
    if not _COMMENT.search(text):
        return text
    closed: dict[int, int] = {}
    opened: list[int] = []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.end()
    parts, end = [], 0
    for comment in _COMMENT.finditer(text):
        if comment.start() >= end:
            parts.append(text[end : comment.start()])
            end = closed.get(comment.end() - 1, comment.end())
    return "".join(parts) + text[end:]
