"""Papers for reference managers: BibTeX, RIS and CSL-JSON, in Unicode.

BibTeX after arXiv's own export (https://info.arxiv.org/help/hypertex/bibstyles/), RIS after the
type Zotero gives preprints.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import date
from itertools import accumulate

from django.http import HttpResponse

from webapp.papers.models import Paper
from webapp.ui.markup import plain
from webapp.ui.pages import attachment

_TOKEN = re.compile(r"\\.|[&%#]")
_NAMED = {r"\{": r"\lbrace ", r"\}": r"\rbrace "}
_PARTICLES = frozenset(
    {"van", "von", "der", "den", "de", "del", "della", "di", "da", "dos", "la", "le"} | {"ter"}
)
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


def bibtex(paper: Paper) -> str:
    """A `@misc` entry with eprint, archivePrefix and primaryClass."""
    fields = {
        "title": f"{{{_tex(paper.title)}}}",
        "author": " and ".join(map(_bibtex_name, paper.author_names)),
        "year": str(year(paper)),
        "eprint": paper.arxiv_id,
        "archivePrefix": "arXiv",
        "primaryClass": paper.primary_category,
        "doi": paper.doi,
        "note": "Withdrawn" if paper.withdrawn else _tex(paper.journal_ref),
        "url": f"https://arxiv.org/abs/{paper.arxiv_id}",
    }
    width = max(map(len, fields))
    lines = [f"  {name:<{width}} = {{{value}}}" for name, value in fields.items() if value]
    return f"@misc{{{_key(paper)},\n" + ",\n".join(lines) + "\n}\n"


def ris(paper: Paper) -> str:
    """A RIS record of an unpublished work (preprint)."""
    day = published(paper)
    pairs = [
        ("TY", "UNPB"),
        ("TI", plain(paper.title)),
        *(("AU", _ris_name(name)) for name in paper.author_names),
        ("PY", str(year(paper))),
        ("DA", f"{day:%Y/%m/%d}" if day else ""),
        ("AB", plain(paper.abstract)),
        ("PB", "arXiv"),
        ("M1", f"arXiv:{paper.arxiv_id}"),
        ("DO", paper.doi),
        ("N1", "Withdrawn" if paper.withdrawn else plain(paper.journal_ref)),
        ("UR", f"https://arxiv.org/abs/{paper.arxiv_id}"),
        ("L1", f"https://arxiv.org/pdf/{paper.arxiv_id}"),
        *(("KW", category) for category in paper.categories),
    ]
    lines = [f"{tag}  - {value}" for tag, value in pairs if value]
    return "\r\n".join([*lines, "ER  - ", ""])


def csl(paper: Paper) -> dict[str, object]:
    """A CSL-JSON item (https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html)."""
    day = published(paper)
    parts = [day.year, day.month, day.day] if day else [year(paper)]
    names = (_ris_name(name).partition(", ") for name in paper.author_names)
    item = {
        "id": _key(paper),
        "type": "article",
        "title": plain(paper.title),
        "author": [
            {"family": family, "given": given} if given else {"literal": family}
            for family, _, given in names
        ],
        "issued": {"date-parts": [parts]},
        "abstract": plain(paper.abstract),
        "publisher": "arXiv",
        "number": f"arXiv:{paper.arxiv_id}",
        "DOI": paper.doi,
        "note": "Withdrawn" if paper.withdrawn else "",
        "URL": f"https://arxiv.org/abs/{paper.arxiv_id}",
    }
    return {name: value for name, value in item.items() if value}


FILES: dict[str, tuple[str, Callable[[Sequence[Paper]], str]]] = {
    "bib": ("application/x-bibtex", lambda papers: "\n".join(map(bibtex, papers))),
    "ris": ("application/x-research-info-systems", lambda papers: "".join(map(ris, papers))),
    "csl.json": (
        "application/vnd.citationstyles.csl+json",
        lambda papers: json.dumps([csl(one) for one in papers], ensure_ascii=False),
    ),
}


def download(papers: Sequence[Paper], name: str, suffix: str) -> HttpResponse:
    """The papers as a file for a reference manager."""
    media_type, written = FILES[suffix]
    return attachment(written(papers), f"{media_type}; charset=utf-8", f"{name}.{suffix}")


def _key(paper: Paper) -> str:
    """`surname2026word`, in ASCII."""
    names = paper.authors[0]["name"].split() if paper.authors else []
    first = names[-1] if names else "arxiv"
    words = re.findall(r"\w+", _ascii(plain(paper.title)))
    word = next((word for word in words if word.lower() not in _SMALL), "")
    return "".join(re.findall(r"[A-Za-z0-9]", f"{_ascii(first)}{year(paper)}{word}")).lower()


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _tex(text: str) -> str:
    """A line of arXiv's TeX as a field: braces balanced, special characters escaped.

    BibTeX counts an escaped brace like any other, so it is written by name.
    """
    line = _TOKEN.sub(_escaped, " ".join(text.split()).rstrip("\\"))
    depths = [0, *accumulate(1 if brace == "{" else -1 for brace in re.findall(r"[{}]", line))]
    is_balanced = min(depths) == depths[-1] == 0
    return line if is_balanced else re.sub(r"[{}]", "", line)


def _escaped(token: re.Match[str]) -> str:
    return _NAMED.get(token[0]) or (token[0] if token[0][0] == "\\" else f"\\{token[0]}")


def _bibtex_name(name: str) -> str:
    """A name, in braces if BibTeX would split it wrongly."""
    name = _tex(name)
    joined = {"and", "collaboration", "consortium", "team", "group"} & set(name.lower().split())
    return f"{{{name}}}" if joined or "," in name else name


def _ris_name(name: str) -> str:
    """`Surname, Given`; particles stay with the surname."""
    words = name.split()
    if len(words) < 2 or "," in name or words[-1].lower() in {"collaboration", "team", "group"}:
        return name
    at = len(words) - 1
    while at > 1 and words[at - 1].lower() in _PARTICLES:
        at -= 1
    return f"{' '.join(words[at:])}, {' '.join(words[:at])}"
