"""Precision and recall of the numbers of abstracts, against those that a person marked.

`annotations.jsonl` has the places of the numbers that 690 abstracts report, and of some that may or
may not count; the texts belong to arXiv. `drawn` names the random draw that an abstract is of.

    python -m tests.claims.report --input FILE

prints precision and recall with 95 % intervals (Wilson 1927, "Probable inference") for each draw
that FILE, lines of {"id", "abstract"}, has texts of.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from webapp.claims.extraction.reported import reported_numbers
from webapp.claims.shares import precision_and_recall
from webapp.core.json_lines import read_lines

ANNOTATIONS = Path(__file__).with_name("annotations.jsonl")
Span = tuple[int, int]


class Abstract(BaseModel):
    """An abstract as a line gives it."""

    id: Any
    abstract: str


class Annotation(BaseModel):
    """The places of the numbers that an abstract reports, and of what may count as one."""

    id: Any
    drawn: int = 1
    claims: list[Span]
    optional: list[Span] = []


@dataclass
class Score:
    """Counts over abstracts. A number that may or may not count is neither."""

    abstracts: int = 0
    found: int = 0
    invented: int = 0
    missed: int = 0

    def add(self, abstract: str, marked: Sequence[Span], optional: Sequence[Span] = ()) -> None:
        """Count an abstract whose numbers stand at `marked`, [start, end) each."""
        self.abstracts += 1
        missing = list(marked)
        for number in reported_numbers(abstract):
            span = (number.start, number.end)
            hit = next((mark for mark in missing if _same(abstract, span, mark)), None)
            if hit is not None:
                missing.remove(hit)
                self.found += 1
            elif not any(_same(abstract, span, mark) for mark in optional):
                self.invented += 1
        self.missed += len(missing)

    def __str__(self) -> str:
        found, marked = self.found + self.invented, self.found + self.missed
        return f"{self.abstracts} abstracts, {precision_and_recall(self.found, found, marked)}"


def _same(abstract: str, span: Span, other: Span) -> bool:
    """Return whether two spans overlap and begin with the same figures, or with none."""
    if span[0] >= other[1] or other[0] >= span[1]:
        return False
    first, second = (re.search(r"\d+(?:\.\d+)?", abstract[a:b]) for a, b in (span, other))
    return (first and first[0]) == (second and second[0])


def scores(texts: Path, annotations: Path = ANNOTATIONS) -> dict[int, Score]:
    """Return the score of each draw, over the abstracts that `texts` has."""
    marked = {str(row.id): row for row in read_lines(str(annotations), Annotation)}
    counted: dict[int, Score] = defaultdict(Score)
    for paper in read_lines(str(texts), Abstract):
        if row := marked.pop(str(paper.id), None):
            counted[row.drawn].add(paper.abstract, row.claims, row.optional)
    return dict(sorted(counted.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--input", type=Path, required=True, metavar="FILE.jsonl")
    for drawn, score in scores(parser.parse_args().input).items():
        print(f"draw {drawn}: {score}")
