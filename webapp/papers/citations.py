"""Papers for reference managers: BibTeX, RIS and CSL-JSON, in Unicode.

BibTeX after arXiv's own export (https://info.arxiv.org/help/hypertex/bibstyles/). RIS has no type
for preprints, so it is a manuscript: Zotero's importer (zotero/translators, RIS.js) knows no `UNPB`
and makes a journal article of it, with the arXiv identifier as its issue.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import date
from itertools import accumulate, chain, count
from string import ascii_lowercase

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from webapp.papers.folding import fold
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper
from webapp.papers.names import Name, parse_name
from webapp.ui.markup import apart, plain
from webapp.ui.pages import attachment

# Special characters of TeX in running text; in a formula only the last three do harm.
_TEXT_SPECIALS = {
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{char: f"\\{char}" for char in "$_%&#"},
}
_UNESCAPED = re.compile(r"(\\.)|([%&#])", re.DOTALL)
_SMALL = {"a", "an", "the", "on", "of", "in", "for", "and", "to", "is", "with", "from", "towards"}


def published(paper: Paper) -> date | None:
    """The day of the first version; until the API was asked, the day it was announced."""
    return paper.submitted_at.date() if paper.submitted_at else paper.announced_on


def year(paper: Paper) -> int:
    """The year of the first version, by the identifier if no date is known."""
    day = published(paper)
    if day:
        return day.year
    two = int(paper.arxiv_id.rpartition("/")[2][:2])
    return 1900 + two if two > 90 else 2000 + two


def bibtex(paper: Paper, key: str = "") -> str:
    """A `@misc` entry with eprint, archivePrefix and primaryClass, under `key` if one is given."""
    fields = {
        "title": f"{{{_tex(paper.title)}}}",
        "author": " and ".join(map(_bibtex_name, authors(paper))),
        "year": str(year(paper)),
        "eprint": paper.arxiv_id,
        "archivePrefix": "arXiv",
        "primaryClass": _tex(paper.primary_category),
        "doi": re.sub(r"[\\{}]", "", doi(paper)),
        "note": _tex(note(paper)),
        "url": f"https://arxiv.org/abs/{paper.arxiv_id}",
    }
    width = max(map(len, fields))
    lines = [f"  {name:<{width}} = {{{value}}}" for name, value in fields.items() if value]
    return f"@misc{{{key or _key(paper)},\n" + ",\n".join(lines) + "\n}\n"


def ris(paper: Paper) -> str:
    """A RIS record of a manuscript."""
    day = published(paper)
    pairs = [
        ("TY", "MANSCPT"),
        ("TI", plain(paper.title)),
        *(("AU", name.inverted) for name in authors(paper)),
        ("PY", str(year(paper))),
        ("DA", f"{day:%Y/%m/%d}" if day else ""),
        ("AB", plain(paper.abstract)),
        ("PB", "arXiv"),
        ("M1", f"arXiv:{paper.arxiv_id}"),
        ("DO", doi(paper)),
        ("N1", note(paper)),
        ("UR", f"https://arxiv.org/abs/{paper.arxiv_id}"),
        ("L1", f"https://arxiv.org/pdf/{paper.arxiv_id}"),
        *(("KW", category) for category in paper.categories),
    ]
    lines = [f"{tag}  - {' '.join(value.split())}" for tag, value in pairs if value]
    return "\r\n".join([*lines, "ER  - ", ""])


def csl(paper: Paper, key: str = "") -> dict[str, object]:
    """A CSL-JSON item (https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html)."""
    day = published(paper)
    parts = [day.year, day.month, day.day] if day else [year(paper)]
    item = {
        "id": key or _key(paper),
        "type": "article",
        "title": plain(paper.title),
        "author": [_csl_name(name) for name in authors(paper)],
        "issued": {"date-parts": [parts]},
        "abstract": plain(paper.abstract),
        "publisher": "arXiv",
        "number": f"arXiv:{paper.arxiv_id}",
        "DOI": doi(paper),
        "note": note(paper),
        "URL": f"https://arxiv.org/abs/{paper.arxiv_id}",
    }
    return {name: value for name, value in item.items() if value}


def keys(papers: Sequence[Paper]) -> list[str]:
    """The citation keys of the papers of one file: `zhang2026efficient`, `zhang2026efficienta`, …

    Of papers whose keys would be equal the one with the first identifier has it bare, so that the
    order of the file makes no difference.
    """
    named: dict[str, str] = {}
    taken: set[str] = set()
    for paper in sorted(papers, key=lambda paper: paper.arxiv_id):
        bare = _key(paper)
        if paper.arxiv_id not in named:
            endings = (f"{a}{b}" for a in ("", *ascii_lowercase) for b in ascii_lowercase)
            numbers = map(str, count(1))
            key = next(k for e in chain([""], endings, numbers) if (k := bare + e) not in taken)
            named[paper.arxiv_id] = key
            taken.add(key)
    return [named[paper.arxiv_id] for paper in papers]


FILES: dict[str, tuple[str, Callable[[Sequence[Paper]], str]]] = {
    "bib": ("application/x-bibtex", lambda papers: "\n".join(map(bibtex, papers, keys(papers)))),
    "ris": ("application/x-research-info-systems", lambda papers: "".join(map(ris, papers))),
    "csl.json": (
        "application/vnd.citationstyles.csl+json",
        lambda papers: json.dumps([*map(csl, papers, keys(papers))], ensure_ascii=False),
    ),
}


def download(papers: Sequence[Paper], name: str, suffix: str) -> HttpResponse:
    """The papers as a file for a reference manager."""
    media_type, written = FILES[suffix]
    return attachment(written(papers), f"{media_type}; charset=utf-8", f"{name}.{suffix}")


@require_safe
def citation(request: HttpRequest, arxiv_id: str, suffix: str) -> HttpResponse:
    """A paper as a BibTeX or RIS file."""
    paper = get_object_or_404(Paper, arxiv_id=parse_identifier(arxiv_id)[0])
    return download([paper], paper.arxiv_id.replace("/", "-"), suffix)


def authors(paper: Paper) -> list[Name]:
    """The authors, without those of whom a feed left only punctuation."""
    return [parse_name(name) for name in paper.author_names if re.search(r"\w", name)]


def doi(paper: Paper) -> str:
    """Return the paper's first DOI: authors give arXiv several in a field."""
    return next(iter(paper.doi.replace(",", " ").replace(";", " ").split()), "")


def note(paper: Paper) -> str:
    """Return the note of a citation: withdrawal, and the journal."""
    parts = ["Withdrawn"] * paper.withdrawn + [plain(paper.journal_ref)]
    return ". ".join(filter(None, parts))


def _key(paper: Paper) -> str:
    """`surname2026word`, in ASCII."""
    names = authors(paper)
    first = (names[0].family or names[0].literal.split()[-1]) if names else "arxiv"
    words = re.findall(r"\w+", _ascii(plain(paper.title)))
    word = next((word for word in words if word.lower() not in _SMALL), "")
    return "".join(re.findall(r"[A-Za-z0-9]", f"{_ascii(first)}{year(paper)}{word}")).lower()


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", fold(text)).encode("ascii", "ignore").decode()


def _tex(text: str) -> str:
    """A text as a field: what TeX would take for its own is escaped, in formulas what breaks them.

    Braces of a formula that do not balance would end the entry: they are left out.
    """
    parts = []
    for part, is_formula in apart(" ".join(text.split())):
        if is_formula:
            parts.append(_formula(part))
        else:
            bare = part.replace("\\$", "$")
            parts.append("".join(_TEXT_SPECIALS.get(char, char) for char in bare))
    return "".join(parts)


def _formula(source: str) -> str:
    escaped = _UNESCAPED.sub(lambda sign: sign[1] or f"\\{sign[2]}", source)
    braces = re.findall(r"[{}]", escaped)
    depths = [0, *accumulate(1 if brace == "{" else -1 for brace in braces)]
    return escaped if min(depths) == depths[-1] == 0 else re.sub(r"\\?[{}]", "", escaped)


def _bibtex_name(name: Name) -> str:
    """A name as BibTeX takes it apart: `von Last, Jr, First` unless `First Last` says the same."""
    if not name.family:
        return f"{{{_tex(name.inverted)}}}"
    plain = not name.particle and not name.suffix and " " not in name.family
    if plain and all(word[0].isupper() for word in f"{name.given} {name.family}".split()):
        return f"{_tex(name.given)} {_tex(name.family)}"
    last = _tex(name.last)
    return ", ".join(filter(None, (last, _tex(name.suffix), _tex(name.given))))


def _csl_name(name: Name) -> dict[str, str]:
    if not name.family:
        return {"literal": name.inverted}
    parts = {
        "family": name.family,
        "given": name.given,
        "non-dropping-particle": name.particle,
        "suffix": name.suffix,
    }
    return {part: text for part, text in parts.items() if text}
