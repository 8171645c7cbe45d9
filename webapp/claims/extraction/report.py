"""How many of the claims that a person marked in abstracts are found, and how many of those found
were marked: precision and recall with 95 % intervals (Wilson 1927, "Probable inference")."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webapp.claims.shares import precision_and_recall

from .reported import reported_numbers


@dataclass
class Score:
    """Counts over abstracts. A span that may or may not count as a claim is neither."""

    papers: int = 0
    found: int = 0
    invented: int = 0
    missed: int = 0

    def add(
        self, abstract: str, marked: Sequence[Sequence[int]], optional: Sequence[Sequence[int]] = ()
    ) -> None:
        """Count an abstract whose claims stand at `marked`, [start, end) each."""
        self.papers += 1
        left = [tuple(span) for span in marked]
        for claim in reported_numbers(abstract):
            span = (claim.start, claim.end)
            hit = next((m for m in left if _same(abstract, span, (m[0], m[1]))), None)
            if hit is not None:
                left.remove(hit)
                self.found += 1
            elif not any(_same(abstract, span, (o[0], o[1])) for o in optional):
                self.invented += 1
        self.missed += len(left)

    def __str__(self) -> str:
        found, there = self.found + self.invented, self.found + self.missed
        return f"{self.papers} abstracts, {precision_and_recall(self.found, found, there)}"


def _same(abstract: str, span: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two spans overlap and begin with the same number, or hold none but words."""
    if span[0] >= other[1] or other[0] >= span[1]:
        return False
    first, second = (re.search(r"\d+(?:\.\d+)?", abstract[a:b]) for a, b in (span, other))
    return (first and first[0]) == (second and second[0])
