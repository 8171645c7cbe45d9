"""A digest as plain text and as JSON."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from assay_common.text import one_line
from webapp.digests.models import Digest, DigestEntry
from webapp.digests.scoring.terms import keyword_name
from webapp.learning.preferences import CHOSEN
from webapp.papers.models import Paper
from webapp.ui.markup import plain

_WIDTH = 88
# Fields of an entry and of its paper that JSON has unchanged.
_OF_ENTRY = ("rank", "version", "announce_type", "score", "also_mentioned", "matches")
_OF_PAPER = ("title", "withdrawn", "categories", "abstract")


def as_text(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    """Plain text, wrapped."""
    shown = parted(entries)
    parts = [f"{_heading(digest)}\n{_summary(digest, shown.listed)}"]
    for entry in shown.listed:
        paper = entry.paper
        lines = (
            _one_line(paper.marked_title),
            authors(paper),
            f"{paper.primary_category} · {entry.announce_type} · {_address(entry)}",
            reasons(entry),
        )
        wrapped = "\n".join(textwrap.fill(line, _WIDTH - 5) for line in lines)
        parts.append(f"{entry.rank:3}. {textwrap.indent(wrapped, ' ' * 5).lstrip()}")
    headings = {"Lower matches": shown.lower, "Closest other papers": shown.nearest}
    for heading, folded in headings.items():
        titles = (f"{_one_line(e.paper.marked_title)} ({_address(e)})" for e in folded)
        filled = [textwrap.fill(title, _WIDTH, subsequent_indent="     ") for title in titles]
        if filled:
            parts.append("\n".join([f"{heading} ({len(filled)}):", *filled]))
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


@dataclass(frozen=True)
class Parts:
    """The entries of a digest by their standing."""

    listed: list[DigestEntry]
    lower: list[DigestEntry]  # lower matches
    nearest: list[DigestEntry]  # of the rest, to what the reader saved


def parted(entries: Iterable[DigestEntry]) -> Parts:
    """Separate the papers that are listed from those that are folded."""
    parts = Parts([], [], [])
    for entry in entries:
        if entry.is_nearest:
            parts.nearest.append(entry)
        else:
            (parts.lower if entry.also_mentioned else parts.listed).append(entry)
    return parts


FORMATS = {"text": as_text, "json": as_json}


def reasons(entry: DigestEntry) -> str:
    """Return why a paper is there: `sparse attention, close to “Saved title”`."""
    return ", ".join(_reason(match) for match in _by_points(entry))


def first_reason(entry: DigestEntry) -> str:
    """Return the strongest reason, and how many more there are: `sparse attention (1 more)`."""
    if not entry.matches:
        return ""
    others = len(entry.matches) - 1
    return _reason(_by_points(entry)[0]) + (f" ({others} more)" if others else "")


def _by_points(entry: DigestEntry) -> list[dict[str, Any]]:
    return sorted(entry.matches, key=lambda match: -match["points"])


def method_texts(entry: DigestEntry) -> list[str]:
    """The mechanism by which an entry's paper can be tested here, with our figure of it."""
    return [
        f"{chip['name']}: {chip['figure']}" if chip.get("figure") else chip["name"]
        for chip in entry.chips
    ]


def _reason(match: dict[str, Any]) -> str:
    """Return the words that matched, or the saved paper that is nearest."""
    near = f"“{_one_line(match['near'])}”" if match.get("near") else ""
    if closeness := match.get("closeness"):
        preposition = "from" if closeness == "further" else "to"
        others = "the papers this feed is about" if match["keyword"] == CHOSEN else "what was saved"
        return f"{closeness} {preposition} {near or others}"
    if near:
        return f"like {near}, which is not for you"
    return match.get("text") or keyword_name(match["keyword"])


def authors(paper: Paper) -> str:
    """Return the first and the last author and their number, as a row does."""
    names = paper.author_names
    if len(names) > 2:
        return f"{_one_line(names[0])} … {_one_line(names[-1])} ({len(names)})"
    return _one_line(", ".join(names))


def _address(entry: DigestEntry) -> str:
    return f"https://arxiv.org/abs/{entry.paper.arxiv_id}v{entry.version}"


def _heading(digest: Digest) -> str:
    sample = " (sample day)" if digest.is_sample else ""
    return f"{_one_line(digest.profile.name)}, {digest.date:%A %-d %B %Y}{sample}"


def _summary(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    if not entries:
        nothing = "Nothing close" if digest.liked else "No match"
        return f"{nothing} among {digest.considered} announced papers."
    return f"{len(entries)} of {digest.considered} announced papers."


def _one_line(text: str) -> str:
    """Untrusted text as one line, without control characters."""
    return one_line(plain(text))
