"""A survey of real metadata as Assay reads it: `python -m tests.text.survey FILE.jsonl`.

The file has a paper a line, as arXiv's API, Kaggle's copy of arXiv or the usual exports name its
fields: id, title, abstract or summary, authors (a list, a list of {"name"}, or one text), and
where they are known journal_ref, doi, comment. Printed are the names that are not taken apart, the
macros that a page would show, the citation keys that are repeated, and the exports that are not
read back as they were written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()

import rispy
from citeproc.source.json import CiteProcJSON
from pybtex.database import Person, parse_string

from webapp.papers.citations import FILES, keys
from webapp.papers.formats import parse_authors
from webapp.papers.models import Paper
from webapp.papers.names import parse_name, unicode_name
from webapp.ui.markup import plain, render, without_tex

_MACRO = re.compile(r"\\[A-Za-z]+|\\[\"'`^~=.]")
_ID = re.compile(r"\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7}")


def papers_in(lines: Iterable[str]) -> Iterator[Paper]:
    """The papers of a file, with their texts as intake makes them."""
    for line in filter(str.strip, lines):
        row: dict[str, Any] = json.loads(line)
        found = _ID.search(str(row.get("id") or row.get("arxiv_id") or row.get("url") or ""))
        categories = row.get("categories") or row.get("category") or "cs.LG"
        names = categories.split() if isinstance(categories, str) else list(categories)
        yield Paper(
            arxiv_id=found[0] if found else "2512.00001",
            title=without_tex(" ".join(str(row["title"]).split())),
            abstract=without_tex(str(row.get("abstract") or row.get("summary") or "").strip()),
            authors=[{"name": name} for name in _authors(row["authors"])],
            journal_ref=without_tex(str(row.get("journal_ref") or row.get("journal-ref") or "")),
            doi=str(row.get("doi") or ""),
            comment=str(row.get("comment") or row.get("comments") or ""),
            primary_category=names[0],
            categories=names,
        )


def _authors(value: Any) -> list[str]:
    if isinstance(value, str):
        return [author.name for author in parse_authors(value.replace(" and ", ", "))]
    return [unicode_name(one["name"] if isinstance(one, dict) else str(one)) for one in value]


def names_not_parsed(papers: Iterable[Paper]) -> list[str]:
    """The names, each once, of which something remained that is no name."""
    names = dict.fromkeys(name for paper in papers for name in paper.author_names)
    return [name for name in names if name.strip() and not parse_name(name).is_whole]


def macros_left(paper: Paper) -> list[str]:
    """The macros that the page of a paper would show."""
    shown = f"{render(paper.title)} {render(paper.abstract)}"
    return _MACRO.findall(unescape(re.sub(r"<[^>]+>", "", shown)))


def repeated_keys(papers: Sequence[Paper]) -> list[str]:
    """The citation keys that stand more than once in one file of all papers."""
    unique = {paper.arxiv_id: paper for paper in papers}
    counted = Counter(keys(list(unique.values())))
    return [key for key, number in counted.items() if number > 1]


def not_read_back(papers: Sequence[Paper]) -> list[str]:
    """The differences between papers and what other programs read of the files of them."""
    return [*_bibtex(papers), *_ris(papers), *_csl(papers)]


def _person(name: str) -> tuple[str, str, str]:
    """Given names, last name with its particle, suffix."""
    parts = parse_name(name)
    if not parts.family:
        return "", parts.inverted, ""
    return parts.given, parts.last, parts.suffix


def _bibtex(papers: Sequence[Paper]) -> Iterator[str]:
    read = parse_string(FILES["bib"][1](papers), "bibtex")
    if len(read.entries) != len(papers):
        yield f"bib: {len(papers)} papers, {len(read.entries)} entries"
    for paper, key in zip(papers, keys(papers), strict=True):
        entry = read.entries[key]
        wanted = {"title": plain(paper.title), "doi": paper.doi, "eprint": paper.arxiv_id}
        for field, text in wanted.items():
            got = " ".join(_untex(entry.fields.get(field, "")).split())
            # What `_untex` undoes stands in formulas of the title itself.
            if got not in {" ".join(one.split()) for one in (text, _untex(text))}:
                yield f"bib {key} {field}: {text!r} became {got!r}"
        people = [_of_bibtex(person) for person in entry.persons.get("author", [])]
        if people != [_person(name) for name in paper.author_names if re.search(r"\w", name)]:
            yield f"bib {key} author: {paper.author_names} became {people}"


def _of_bibtex(person: Person) -> tuple[str, str, str]:
    given = [*person.first_names, *person.middle_names]
    last = [*person.prelast_names, *person.last_names]
    return _untex(" ".join(given)), _untex(" ".join(last)), _untex(" ".join(person.lineage_names))


def _untex(field: str) -> str:
    r"""A field as LaTeX would show it, formulas as their source: the specials of TeX undone."""
    inner = field[1:-1] if field.startswith("{") and field.endswith("}") else field
    for macro, char in (("braceleft", "{"), ("braceright", "}"), ("asciitilde", "~")):
        inner = inner.replace(rf"\text{macro}{{}}", char)
    inner = inner.replace(r"\textasciicircum{}", "^")
    inner = re.sub(r"\\([&%#_$])", r"\1", inner)
    return inner.replace(r"\textbackslash{}", "\\")


def _ris(papers: Sequence[Paper]) -> Iterator[str]:
    records = rispy.load(StringIO(FILES["ris"][1](papers)))
    if len(records) != len(papers):
        yield f"ris: {len(papers)} papers, {len(records)} records"
    for paper, record in zip(papers, records, strict=False):
        wanted = {"title": plain(paper.title), "abstract": plain(paper.abstract)}
        wanted["doi"] = " ".join(paper.doi.split())
        for field, text in wanted.items():
            if (got := record.get(field, record.get(f"primary_{field}", ""))) != text:
                yield f"ris {paper} {field}: {text!r} became {got!r}"
        people = [tuple(one.split(", ")) for one in record.get("authors", [])]
        names = [parse_name(n).inverted for n in paper.author_names if re.search(r"\w", n)]
        if people != [tuple(name.split(", ")) for name in names]:
            yield f"ris {paper} authors: {paper.author_names} became {people}"


def _csl(papers: Sequence[Paper]) -> Iterator[str]:
    items = json.loads(FILES["csl.json"][1](papers))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = CiteProcJSON(items)
    for paper, item in zip(papers, items, strict=True):
        reference = source[item["id"].lower()]
        if str(reference.get("title", "")) != plain(paper.title):
            yield f"csl {paper} title: {plain(paper.title)!r} became {reference['title']!r}"
        people = [_of_csl(name) for name in item.get("author", [])]
        if people != [_person(name) for name in paper.author_names if re.search(r"\w", name)]:
            yield f"csl {paper} author: {paper.author_names} became {people}"
        if len(reference.get("author", [])) != len(people):
            yield f"csl {paper}: {len(people)} authors became {len(reference.get('author', []))}"


def _of_csl(name: dict[str, str]) -> tuple[str, str, str]:
    if "literal" in name:
        return "", name["literal"], ""
    last = " ".join(filter(None, (name.get("non-dropping-particle"), name["family"])))
    return name.get("given", ""), last, name.get("suffix", "")


def main(arguments: Sequence[str]) -> None:
    """Print what is wrong with the papers of a file, the commonest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    path = parser.parse_args(arguments).file
    with path.open(encoding="utf-8-sig") as lines:
        papers = list({paper.arxiv_id: paper for paper in papers_in(lines)}.values())
    names = {name for paper in papers for name in paper.author_names}
    unparsed = names_not_parsed(papers)
    print(f"{len(papers)} papers, {len(names)} names")
    print(f"names not parsed: {len(unparsed)}", *unparsed[:10], sep="\n  ")
    left = [macros for paper in papers if (macros := macros_left(paper))]
    common = Counter(macro for macros in left for macro in set(macros)).most_common(10)
    print(f"papers with a macro left raw: {len(left)}", *common, sep="\n  ")
    repeated = repeated_keys(papers)
    print(f"keys repeated: {len(repeated)}", *repeated[:10], sep="\n  ")
    differences = not_read_back(papers)
    print(f"exports not read back: {len(differences)}", *differences[:10], sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
