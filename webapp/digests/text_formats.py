"""A digest as plain text, as Markdown and as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from webapp.digests.models import Digest, DigestEntry
from webapp.digests.scoring.terms import keyword_name
from webapp.papers.models import Paper
from webapp.ui.markup import plain

_WIDTH = 88
_AUTHORS = 6
_ARXIV = "https://arxiv.org/abs/"
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|!~$&])")


def as_text(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    """Plain text, wrapped."""
    blocks = [_heading(digest), _summary(digest, entries), ""]
    for entry in entries:
        lead = f"{entry.rank:3}. "
        indent = " " * len(lead)
        blocks += [
            textwrap.fill(lead + _one_line(entry.paper.title), _WIDTH, subsequent_indent=indent),
            textwrap.indent(textwrap.fill(authors(entry.paper), _WIDTH - len(indent)), indent),
            f"{indent}{entry.paper.primary_category} · {entry.announce_type} · "
            f"{_ARXIV}{entry.paper.arxiv_id}v{entry.version}",
            textwrap.indent(
                textwrap.fill(f"{entry.score:g} = {score_terms(entry)}", _WIDTH - 5), indent
            ),
            "",
        ]
    return "\n".join(blocks)


def as_markdown(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    """Markdown with nothing in it but what this function wrote: all else is escaped."""
    blocks = [
        f"# {_escape_markdown(_heading(digest))}",
        "",
        _escape_markdown(_summary(digest, entries)),
        "",
    ]
    for entry in entries:
        paper = entry.paper
        blocks += [
            f"## {entry.rank}. [{_escape_markdown(_one_line(paper.title))}]"
            f"({_ARXIV}{paper.arxiv_id}v{entry.version})",
            "",
            _escape_markdown(authors(entry.paper)),
            "",
            f"{paper.primary_category} · {entry.announce_type} · "
            f"**{entry.score:g}** = {_escape_markdown(score_terms(entry))}",
            "",
            _escape_markdown(_one_line(paper.abstract)),
            "",
        ]
    return "\n".join(blocks)


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
                    "rank": entry.rank,
                    "id": entry.paper.arxiv_id,
                    "version": entry.version,
                    "announce_type": entry.announce_type,
                    "score": entry.score,
                    "matches": entry.matches,
                    "title": entry.paper.title,
                    "authors": [author["name"] for author in entry.paper.authors],
                    "categories": entry.paper.categories,
                    "abstract": entry.paper.abstract,
                }
                for entry in entries
            ],
        },
        ensure_ascii=False,
        indent=2,
    )


FORMATS: Mapping[str, Callable[[Digest, Sequence[DigestEntry]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
}


def score_terms(entry: DigestEntry) -> str:
    """The score's parts: `Sparse +1.5, Attention +1`."""
    return ", ".join(f"{keyword_name(one['keyword'])} {one['points']:+g}" for one in entry.matches)


def authors(paper: Paper) -> str:
    """The first authors and how many more there are."""
    names = [author["name"] for author in paper.authors]
    more = f" and {len(names) - _AUTHORS} more" if len(names) > _AUTHORS else ""
    return _one_line(", ".join(names[:_AUTHORS])) + more


def _heading(digest: Digest) -> str:
    sample = " (sample day)" if digest.is_sample else ""
    return f"{_one_line(digest.profile.name)}, {digest.date:%A %-d %B %Y}{sample}"


def _summary(digest: Digest, entries: Sequence[DigestEntry]) -> str:
    if not entries:
        return f"Nothing of {digest.considered} papers matched."
    return f"{len(entries)} of {digest.matched} that matched, of {digest.considered} announced."


def _one_line(text: str) -> str:
    """Hostile text as one line without characters that a terminal obeys."""
    return _CONTROL_CHARACTERS.sub("", plain(text))


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)
