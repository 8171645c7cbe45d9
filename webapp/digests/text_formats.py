"""A digest as plain text and as JSON."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from assay_common.text import one_line
from webapp.digests.models import Digest, DigestEntry
from webapp.digests.scoring.terms import keyword_name
from webapp.papers.models import Paper
from webapp.ui.markup import plain

_WIDTH = 88
_AUTHORS = 6
# Fields of an entry and of its paper that JSON has unchanged.
_OF_ENTRY = ("rank", "version", "announce_type", "score", "also_mentioned", "matches")
_OF_PAPER = ("title", "withdrawn", "categories", "abstract")


def as_text(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    """Plain text, wrapped."""
    listed, mentioned = parted(entries)
    parts = [f"{_heading(digest)}\n{_summary(digest, listed)}"]
    for entry in listed:
        paper = entry.paper
        lines = (
            _one_line(paper.marked_title),
            authors(paper),
            f"{paper.primary_category} · {entry.announce_type} · {_address(entry)}",
            f"{entry.score:g} = {score_terms(entry)}",
        )
        wrapped = "\n".join(textwrap.fill(line, _WIDTH - 5) for line in lines)
        parts.append(f"{entry.rank:3}. {textwrap.indent(wrapped, ' ' * 5).lstrip()}")
    if mentioned:
        titles = (f"{_one_line(e.paper.marked_title)} ({_address(e)})" for e in mentioned)
        filled = (textwrap.fill(title, _WIDTH, subsequent_indent="     ") for title in titles)
        parts.append("\n".join([f"Also mentioned in {len(mentioned)}:", *filled]))
    return "\n\n".join(parts) + "\n"


def as_json(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    """One JSON object."""
    return json.dumps(
        {
            "profile": digest.profile.slug,
            "date": digest.date.isoformat(),
            "sample": digest.is_sample,
            "considered": digest.considered,
            "matched": digest.matched,
            "entries": [
                {
                    **{name: getattr(entry, name) for name in _OF_ENTRY},
                    **{name: getattr(entry.paper, name) for name in _OF_PAPER},
                    "id": entry.paper.arxiv_id,
                    "authors": entry.paper.author_names,
                }
                for entry in entries
            ],
        },
        ensure_ascii=False,
        indent=2,
    )


def parted(entries: Iterable[DigestEntry]) -> tuple[list[DigestEntry], list[DigestEntry]]:
    """The papers that are about what the profile seeks, and those that only mention it."""
    listed: list[DigestEntry] = []
    mentioned: list[DigestEntry] = []
    for entry in entries:
        (mentioned if entry.also_mentioned else listed).append(entry)
    return listed, mentioned


FORMATS = {"text": as_text, "json": as_json}


def score_terms(entry: DigestEntry) -> str:
    """The terms of the score: `Sparse +1.5, Attention +1`."""
    return ", ".join(f"{_reason(match)} {match['points']:+g}" for match in entry.matches)


def first_reason(entry: DigestEntry) -> str:
    """The reason with the most points, and how many more there are: `Sparse +1.5 (1 more)`."""
    if not entry.matches:
        return f"{entry.score:g}"
    match = max(entry.matches, key=lambda match: match["points"])
    others = len(entry.matches) - 1
    return f"{_reason(match)} {match['points']:+g}" + (f" ({others} more)" if others else "")


def method_texts(entry: DigestEntry) -> list[str]:
    """The methods that an entry's paper concerns, each with its figure, if one may stand there."""
    return [
        f"{chip['name']}: {chip['figure']}" if chip.get("figure") else chip["name"]
        for chip in entry.chips
    ]


def _reason(match: dict[str, Any]) -> str:
    """What earned the points: the keyword, or the saved paper that is nearest."""
    name = keyword_name(match["keyword"])
    if near := match.get("near"):
        name = f"{name}: “{_one_line(near)}”"
    if share := match.get("share"):
        name = f"{name} (closer than {share:g} % of recent papers)"
    return name


def authors(paper: Paper) -> str:
    """The first authors, and the number of further ones."""
    names = paper.author_names
    more = f" and {len(names) - _AUTHORS} more" if len(names) > _AUTHORS else ""
    return _one_line(", ".join(names[:_AUTHORS])) + more


def _address(entry: DigestEntry) -> str:
    return f"https://arxiv.org/abs/{entry.paper.arxiv_id}v{entry.version}"


def _heading(digest: Digest) -> str:
    sample = " (sample day)" if digest.is_sample else ""
    return f"{_one_line(digest.profile.name)}, {digest.date:%A %-d %B %Y}{sample}"


def _summary(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    if not entries:
        return f"Nothing of {digest.considered} papers matched."
    return f"{len(entries)} of {digest.matched} that matched, of {digest.considered} announced."


def _one_line(text: str) -> str:
    """Untrusted text as one line, without control characters."""
    return one_line(plain(text))
