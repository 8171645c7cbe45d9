"""What is read over the interface, as the OpenAPI document describes it."""

from __future__ import annotations

from datetime import date as Date
from datetime import datetime
from typing import Annotated, Any, Self

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.catalog.measured import Answered
from webapp.digests.models import DigestEntry, Profile
from webapp.library.forms import MAX_NOTE, MAX_TAG, MAX_TAGS
from webapp.library.models import LibraryEntry
from webapp.papers.models import Paper
from webapp.summaries.models import Claim


class PaperSchema(Schema):
    """A paper, as its latest known version says."""

    id: str = Field(description="arXiv's identifier, without a version.")
    version: int
    title: str
    abstract: str
    authors: list[str]
    categories: list[str]
    announced_on: Date | None
    doi: str

    @classmethod
    def of(cls, paper: Paper) -> PaperSchema:
        """The schema of a stored paper."""
        return PaperSchema(
            id=paper.arxiv_id,
            version=paper.version,
            title=paper.title,
            abstract=paper.abstract,
            authors=[author["name"] for author in paper.authors],
            categories=paper.categories,
            announced_on=paper.announced_on,
            doi=paper.doi,
        )


class PaperPage(Schema):
    """Papers that a search found; `next` is the number of the page after this one."""

    count: int
    more: bool = Field(description="There are more than `count`.")
    next: int | None
    dropped: list[str] = Field(description="Words that no paper holds, left out.")
    suggestion: str
    items: list[PaperSchema]


class ClaimSchema(Schema):
    """A number that the paper reports, with the sentence it stands in."""

    metric: str
    value: str
    unit: str
    baseline: str
    setting: str
    hardware: str
    quote: str
    state: str = Field(description="number and unit, number only, or not found in the text.")

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """The schema of a stored claim."""
        return cls(**{name: getattr(claim, name) for name in cls.model_fields})


class WholePaper(PaperSchema):
    """A paper with its claims."""

    claims: list[ClaimSchema]


class ProfileSchema(Schema):
    """A named interest."""

    slug: str
    name: str
    categories: list[str]
    keywords: list[dict[str, Any]]
    ranking: str

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """The schema of a stored profile."""
        return cls(**{name: getattr(profile, name) for name in cls.model_fields})


class EntrySchema(Schema):
    """A paper in a digest, with the reason for its place."""

    rank: int
    score: float
    announce_type: str
    matches: list[dict[str, Any]]
    gist: str
    paper: PaperSchema

    @classmethod
    def of(cls, entry: DigestEntry) -> Self:
        """The schema of a stored entry."""
        names = ("rank", "score", "announce_type", "matches", "gist")
        stored = {name: getattr(entry, name) for name in names}
        return cls(paper=PaperSchema.of(entry.paper), **stored)


class DigestSchema(Schema):
    """A profile's day."""

    profile: str
    date: Date
    considered: int
    matched: int
    entries: list[EntrySchema]


class MethodClaim(Schema):
    """A claim of a method's source beside what was measured for it."""

    id: str
    text: str
    verdict: str | None
    reason: str
    measured: float | None
    low: float | None
    high: float | None
    unit: str
    hardware: str

    @classmethod
    def of(cls, one: Answered) -> Self:
        """The schema of a claim with its verdict."""
        figure = one.figure
        return cls(
            id=one.claim.id,
            text=one.claim.text,
            verdict=str(one.verdict.word) if one.verdict.word else None,
            reason=one.verdict.reason,
            measured=figure.value if figure else None,
            low=figure.low if figure else None,
            high=figure.high if figure else None,
            unit=one.unit,
            hardware=one.measurement.hardware if one.measurement else "",
        )


class LibraryItem(Schema):
    """A paper of your library."""

    saved: bool
    read_at: datetime | None
    not_for_me: bool
    note: str
    tags: list[str]
    paper: PaperSchema

    @classmethod
    def of(cls, paper: Paper, entry: LibraryEntry | None, saved: bool) -> Self:
        """The schema of a paper with what its reader has to do with it."""
        kept = entry or LibraryEntry()
        return cls(
            saved=saved,
            read_at=kept.read_at,
            not_for_me=kept.not_for_me,
            note=kept.note,
            tags=kept.tags,
            paper=PaperSchema.of(paper),
        )


class LibraryPage(Schema):
    """A page of your library; `next` is the number of the page after this one."""

    count: int
    next: int | None
    items: list[LibraryItem]


class LibraryChange(Schema):
    """What to change of a paper in your library; what is not named stays."""

    model_config = ConfigDict(extra="forbid")

    saved: bool | None = None
    read: bool | None = None
    not_for_me: bool = False
    note: str = Field("", max_length=MAX_NOTE)
    tags: list[Annotated[str, Field(min_length=1, max_length=MAX_TAG)]] = Field(
        [], max_length=MAX_TAGS
    )
