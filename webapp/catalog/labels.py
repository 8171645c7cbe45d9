"""Labels: which papers are about which methods, as people judged; and how well links agree."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from webapp.catalog.models import MethodLink
from webapp.learning.tfidf import DATA
from webapp.summaries.management.shares import in_words
from webapp.ui.json_lines import read_lines

LABELS = DATA / "links.jsonl"
PARTS = ("test", "training", "all")


def part(identifier: str) -> str:
    """Which part a paper belongs to, by its identifier's last digit: 0 to 2, 3 and 4, or none."""
    return {"0": "training", "1": "training", "2": "training", "3": "test", "4": "test"}.get(
        identifier[-1:], "held out"
    )


class PaperLine(BaseModel):
    """A paper as a line of JSON gives it."""

    id: str
    title: str
    abstract: str


@dataclass(frozen=True)
class Text:
    """A paper as it is linked, without line breaks."""

    id: str
    title: str
    abstract: str

    @property
    def training(self) -> bool:
        """Whether it belongs to the training part."""
        return part(self.id) == "training"

    @property
    def pair(self) -> tuple[str, str]:
        """Title and abstract, blanks folded."""
        return self.title, self.abstract


@dataclass(frozen=True)
class Label:
    """What a person says of a paper and a method."""

    id: str
    method: str
    relation: str

    @property
    def part(self) -> str:
        """Training or test."""
        return part(self.id)

    @property
    def about(self) -> bool:
        """Whether the paper is about the method."""
        return self.relation in {"about", "source"}


def read_papers(path: Path) -> Iterator[Text]:
    """The papers of a file of JSON lines; raises CommandError with the line that is none."""
    for line in read_lines(str(path), PaperLine):
        yield Text(*(" ".join(text.split()) for text in (line.id, line.title, line.abstract)))


def read(path: Path) -> list[Label]:
    """The labels of a file of JSON lines: id, method, relation."""
    rows = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    return [Label(row["id"], row["method"], row["relation"]) for row in rows]


def decisions() -> tuple[list[Label], dict[str, Text]]:
    """What operators confirmed or rejected on this site, with the papers."""
    rows = MethodLink.objects.exclude(confirmed=None).select_related("paper")
    labels, texts = [], {}
    for row in rows:
        paper = row.paper
        labels.append(Label(paper.arxiv_id, row.method, "about" if row.confirmed else "none"))
        texts[paper.arxiv_id] = Text(paper.arxiv_id, paper.title, paper.abstract)
    return labels, texts


@dataclass(frozen=True)
class Agreement:
    """Papers about a method: found and right, found, and there to find."""

    method: str
    right: int
    found: int
    there: int

    def text(self) -> str:
        """Precision and recall with their 95 % intervals (Wilson)."""
        return (
            f"{self.method}: precision {in_words(self.right, self.found)}, "
            f"recall {in_words(self.right, self.there)}"
        )


def agreement(labels: Iterable[Label], about: set[tuple[str, str]]) -> list[Agreement]:
    """How the links that say *about* agree with the labels, by method and over all."""
    by_method: dict[str, list[Label]] = {}
    for label in labels:
        by_method.setdefault(label.method, []).append(label)
        by_method.setdefault("all methods", []).append(label)
    return [
        Agreement(
            name,
            sum(row.about and (row.id, row.method) in about for row in rows),
            sum((row.id, row.method) in about for row in rows),
            sum(row.about for row in rows),
        )
        for name, rows in sorted(
            by_method.items(), key=lambda pair: (pair[0] == "all methods", pair)
        )
    ]
