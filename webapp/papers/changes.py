"""What a replacement changed, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import pairwise

from webapp.papers.models import Paper, PaperVersion

MAX_WORDS = 1_500  # of the part that differs; longer ones are shown as one replacement


class Kind(StrEnum):
    """What became of some words."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True)
class Span:
    """Some words and what became of them."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Change:
    """From one kept version of a paper to the next."""

    old: PaperVersion
    new: PaperVersion
    title: tuple[Span, ...]
    abstract: tuple[Span, ...]

    @property
    def title_changed(self) -> bool:
        """Whether the title has other words."""
        return any(span.kind != Kind.SAME for span in self.title)

    @property
    def abstract_changed(self) -> bool:
        """Whether the abstract has other words."""
        return any(span.kind != Kind.SAME for span in self.abstract)


def changes(paper: Paper) -> list[Change]:
    """What each kept version changed against the one kept before it, the latest first."""
    versions = list(paper.versions.all())
    return [
        Change(old, new, compare(old.title, new.title), compare(old.abstract, new.abstract))
        for old, new in pairwise(versions)
    ][::-1]


def compare(old: str, new: str) -> tuple[Span, ...]:
    """`new` with what it added to and removed from `old`; blanks alone are no change.

    The spans that are not removed, joined, are the words of `new`; those not added, of `old`.
    """
    a, b = _words(old), _words(new)
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    spans = [(Kind.SAME, a[:start])]
    if max(len(middle_a), len(middle_b)) > MAX_WORDS:
        spans += [(Kind.REMOVED, middle_a), (Kind.ADDED, middle_b)]
    else:
        matcher = SequenceMatcher(a=middle_a, b=middle_b, autojunk=True)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag == "equal":
                spans.append((Kind.SAME, middle_a[i1:i2]))
            else:
                spans += [(Kind.REMOVED, middle_a[i1:i2]), (Kind.ADDED, middle_b[j1:j2])]
    spans.append((Kind.SAME, a[len(a) - end :]))
    return tuple(_joined(spans))


def _words(text: str) -> list[str]:
    return re.findall(r"\S+", text)


def _joined(spans: Sequence[tuple[Kind, list[str]]]) -> list[Span]:
    """Spans with words in them, neighbours of one kind made one."""
    joined: list[Span] = []
    for kind, words in spans:
        if not words:
            continue
        text = " ".join(words)
        if joined and joined[-1].kind == kind:
            joined[-1] = Span(kind, f"{joined[-1].text} {text}")
        else:
            joined.append(Span(kind, text))
    return joined
