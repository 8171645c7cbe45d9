"""Labels: which papers are about which methods, as people judged; and how well links agree."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel

from webapp.catalog.models import MethodLink
from webapp.learning.tfidf import DATA
from webapp.summaries.management.shares import precision_and_recall

LABELS = str(DATA / "links.jsonl")
Folded = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


def is_trained_on(identifier: str) -> bool:
    """Whether a paper belongs to the training part, by its identifier's last digit: 0 to 2."""
    return identifier[-1:] in {"0", "1", "2"}


class Text(BaseModel):
    """A paper as it is linked and as a line of JSON gives it, blanks folded."""

    id: Folded
    title: Folded
    abstract: Folded

    @property
    def pair(self) -> tuple[str, str]:
        """Title and abstract."""
        return self.title, self.abstract


class Label(BaseModel):
    """What a person says of a paper and a method."""

    id: str
    method: str
    relation: str

    @property
    def about(self) -> bool:
        """Whether the paper is about the method."""
        return self.relation in {"about", "source"}


def decisions() -> tuple[list[Label], dict[str, Text]]:
    """What operators confirmed or rejected on this site, with the papers."""
    rows = MethodLink.objects.exclude(confirmed=None).select_related("paper")
    labels, texts = [], {}
    for row in rows:
        paper, relation = row.paper, "about" if row.confirmed else "none"
        labels.append(Label(id=paper.arxiv_id, method=row.method, relation=relation))
        texts[paper.arxiv_id] = Text(id=paper.arxiv_id, title=paper.title, abstract=paper.abstract)
    return labels, texts


class Agreement(NamedTuple):
    """Papers about a method: found and right, found, and there to find."""

    method: str
    right: int
    found: int
    there: int

    def text(self) -> str:
        """Precision and recall with their 95 % intervals (Wilson)."""
        return f"{self.method}: {precision_and_recall(self.right, self.found, self.there)}"


def agreement(labels: Iterable[Label], about: set[tuple[str, str]]) -> list[Agreement]:
    """How the links that say *about* agree with the labels, by method and over all."""
    of_method = attrgetter("method")
    rows = sorted(labels, key=of_method)
    by_method = [(name, list(mine)) for name, mine in groupby(rows, key=of_method)]
    return [
        Agreement(
            name,
            sum(row.about and (row.id, row.method) in about for row in mine),
            sum((row.id, row.method) in about for row in mine),
            sum(row.about for row in mine),
        )
        for name, mine in [*by_method, ("all methods", rows)]
        if mine
    ]
