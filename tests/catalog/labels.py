"""Labels that people gave to papers and methods, and the agreement of links with them."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator, BaseModel

from webapp.claims.shares import precision_and_recall

Folded = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


def is_trained_on(identifier: str) -> bool:
    """True if a paper belongs to the training split: the last digit of its identifier is 0 to 2."""
    return identifier[-1:] in {"0", "1", "2"}


class Text(BaseModel):
    """A paper to be linked, from the database or a line of JSON, with single spaces."""

    id: Folded
    title: Folded
    abstract: Folded

    @property
    def pair(self) -> tuple[str, str]:
        """Title and abstract."""
        return self.title, self.abstract


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
