"""Word-by-word differences between two versions of a paper."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

from webapp.papers.models import Paper, PaperVersion

MAX_WORDS = 1_500  # of a text; longer ones are shown as one replacement


@dataclass(frozen=True)
class Span:
    """Some words, and whether they were kept, added or removed."""

    kind: Literal["same", "added", "removed"]
    text: str


@dataclass(frozen=True)
class VersionChange:
    """The changes from an older version; a text with the same words has no spans."""

    old: PaperVersion
    title: tuple[Span, ...]
    abstract: tuple[Span, ...]


def versions(paper: Paper) -> list[tuple[PaperVersion, VersionChange | None]]:
    """Each kept version with its changes from the one kept before it, the latest first."""
    stored = list(paper.versions.all())
    changes = [
        VersionChange(old, compare(old.title, new.title), compare(old.abstract, new.abstract))
        for old, new in pairwise(stored)
    ]
    return list(zip(stored, [None, *changes], strict=False))[::-1]


def compare(old: str, new: str) -> tuple[Span, ...]:
    """`new` with what it added to and removed from `old`; empty if only blanks changed.

    Joined, the spans that are not removed are the words of `new`, and those not added of `old`.
    """
    before, after = old.split(), new.split()
    if before == after:
        return ()
    if max(len(before), len(after)) > MAX_WORDS:
        codes = [("replace", 0, len(before), 0, len(after))]
    else:
        codes = list(SequenceMatcher(None, before, after).get_opcodes())
    spans = []
    for tag, i1, i2, j1, j2 in codes:
        removed, added = " ".join(before[i1:i2]), " ".join(after[j1:j2])
        if tag == "equal":
            spans.append(Span("same", added))
        else:
            spans += [Span("removed", removed), Span("added", added)]
    return tuple(span for span in spans if span.text)
