"""Labels that people gave to papers and methods, and the agreement of links with them.

python -m tests.catalog.labels --papers FILE.jsonl --labels FILE.jsonl
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator

import django
from pydantic import BaseModel

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()

from webapp.catalog import evidence
from webapp.catalog.management.commands.link_papers import PaperText
from webapp.claims.shares import precision_and_recall
from webapp.core.json_lines import read_lines


def is_trained_on(identifier: str) -> bool:
    """True if a paper belongs to the training split: the last digit of its identifier is 0 to 2."""
    return identifier[-1:] in {"0", "1", "2"}


class Label(BaseModel):
    """A person's judgement of a paper's relation to a method."""

    id: str
    method: str
    relation: str

    @property
    def about(self) -> bool:
        """True if the paper is about the method."""
        return self.relation in {"about", "source"}


def agreement(labels: Iterable[Label], about: set[tuple[str, str]]) -> Iterator[str]:
    """Precision and recall of the links that say *about*, a line per method and one over all."""
    rows = list(labels)
    for method in [*sorted({row.method for row in rows}), ""]:
        mine = [row for row in rows if method in {row.method, ""}]
        linked = [row for row in mine if (row.id, row.method) in about]
        right, there = (sum(row.about for row in some) for some in (linked, mine))
        if mine:
            yield f"{method or 'all methods'}: {precision_and_recall(right, len(linked), there)}"


def report(papers: Iterable[PaperText], labels: Iterable[Label]) -> list[str]:
    """The agreement of links with the labels of held-out papers. Raises ValueError without any."""
    held_out = [label for label in labels if not is_trained_on(label.id)]
    identifiers = {label.id for label in held_out}
    texts = {paper.id: paper for paper in papers if paper.id in identifiers}
    about = {
        (paper.id, link.method)
        for paper in texts.values()
        for link in evidence.links(paper.id, *paper.pair)
        if link.relation in {"about", "source"}
    }
    lines = list(agreement((label for label in held_out if label.id in texts), about))
    if not lines:
        raise ValueError("No paper has a label that counts: 0, 1 and 2 at the end are trained on.")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", required=True)
    parser.add_argument("--labels", required=True)
    options = parser.parse_args()
    rows = read_lines(options.labels, Label)
    print("\n".join(report(read_lines(options.papers, PaperText), rows)))
