"""The rules of a feed, and the papers and matches that scoring speaks of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from math import log
from typing import Annotated, Literal, NamedTuple, NotRequired, Self, TypedDict

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass

from webapp.digests.scoring.terms import AUTHOR
from webapp.learning.preferences import Learned
from webapp.papers.names import ComparableName, comparable_name

PaperField = Literal["title", "abstract", "authors"]
Place = Literal["title", "proposal", "repeated", "mention"]
UNIT = 1_000_000  # points are counted in millionths: sums are exact, in whatever order
MAX_WEIGHT = 100.0
UNCOUNTED = 20.0  # papers in 1,000: assumed for a keyword without a frequency
Points = Annotated[float, Field(ge=0, le=MAX_WEIGHT, allow_inf_nan=False)]


@pydantic_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Keyword:
    """A search term and its points. `frequency`: papers out of 1,000 recent ones that have it."""

    keyword: str
    weight: Points = 1.0
    title_bonus: Points = 0.5
    frequency: Annotated[float, Field(ge=0, le=1000)] | None = None

    @model_validator(mode="after")
    def _earns(self) -> Self:
        if round(self.weight + self.title_bonus, 6) == 0:
            raise ValueError("earns nothing: give it a weight or a title bonus")
        return self


@dataclass(frozen=True, slots=True)
class Rules:
    """Selection rules of a profile; no categories or no announce types means all of them."""

    keywords: tuple[Keyword, ...]
    exclude: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    announce_types: tuple[str, ...] = ()
    substring: bool = False
    by_rarity: bool = False
    by_place: bool = False  # what a paper is about; below `min_score` it is only kept apart
    min_score: float = 0.0
    size: int = 30
    learned: Learned | None = None

    @property
    def admits_all(self) -> bool:
        """True if every paper is considered."""
        return not (self.announce_types or self.categories)

    def admits(self, categories: Iterable[str], announce_type: str) -> bool:
        """True if a paper with these categories and this announce type is considered at all."""
        return (not self.announce_types or announce_type in self.announce_types) and (
            not self.categories or not set(self.categories).isdisjoint(categories)
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A paper as scoring reads it."""

    id: str
    title: str
    abstract: str
    categories: tuple[str, ...] = ()
    announce_type: str = "new"
    submitted_at: datetime | None = None
    authors: tuple[str, ...] = ()


class Match(TypedDict):
    """A keyword that was found, with its fields and points, as it is stored and printed.

    With the seed bot's rule a keyword may extend from the title into the abstract; it counts as one
    in the abstract.
    """

    keyword: str
    where: list[PaperField]
    points: float
    text: NotRequired[str]  # the words that matched, where the keyword says others
    place: NotRequired[Place]  # by place: the weightiest
    rarity: NotRequired[str]  # by rarity: rare, uncommon or common; or learned
    closeness: NotRequired[str]  # "very close", "close" or "further"
    near: NotRequired[str]  # title of the nearest paper that was saved, or refused
    near_id: NotRequired[str]  # its identifier; "" where the site lacks it


class Standing(IntEnum):
    """Relation of a paper to a profile, best first."""

    ABOUT = 0
    BELOW = 1  # it is about it, below the minimum score
    MENTIONS = 2  # it only has single mentions
    NEAREST = 3  # it has no keyword and is not close, but closer than the others


class Kept(NamedTuple):
    """A candidate that rules keep: its place in the sequence scored, and its score.

    `by_rules` are its points without those of closeness.
    """

    at: int
    score: float
    matches: bool = True  # the rules alone keep it
    by_rules: float = 0.0
    log_odds: float = 0.0
    closeness: float = 0.0
    by_author: bool = False  # of an author that the rules follow
    standing: Standing = Standing.ABOUT


def author_of(keyword: str) -> ComparableName | None:
    """Return the author that `author:…` asks for; None for other keywords."""
    if not keyword.casefold().startswith(AUTHOR):
        return None
    name = comparable_name(keyword[len(AUTHOR) :])
    return name if name.letters else None


def rarity_factor(frequency: float | None) -> float:
    """The factor of a keyword's weight: 6.9 for one paper in 1,000, at least 0.1."""
    return max(0.1, log(1000 / max(UNCOUNTED if frequency is None else frequency, 0.5)))


def rarity_of(frequency: float | None) -> str:
    """The rarity as a word; "" if the frequency is unknown."""
    if frequency is None:
        return ""
    return "rare" if frequency < 10 else "uncommon" if frequency < 50 else "common"


def total(matches: Iterable[Match]) -> float:
    """The score that the matches add up to."""
    return sum(round(match["points"] * UNIT) for match in matches) / UNIT
