"""Schemas of requests and responses, as the OpenAPI document shows them.

Responses are made from rows and objects: a field is the attribute of the same name, or the result
of its `resolve_` function.
"""

from datetime import date as Date
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from methods.spec import Benchmark
from webapp.catalog.paper_methods import PaperMethod, beside, methods_of
from webapp.claims.corrections import headline_of, quotes_of
from webapp.claims.extraction.quotes import Quote
from webapp.claims.extraction.reported import Kind
from webapp.digests.models import Digest, DigestEntry
from webapp.digests.queries import digest_entries
from webapp.learning.similar import similar
from webapp.library.forms import MAX_NOTE
from webapp.library.lists import MAX_NAME
from webapp.library.models import MAX_LISTS
from webapp.papers.models import Paper
from webapp.papers.search import SearchResults
from webapp.summaries.queries import summary_view


class Problem(Schema):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = Field(
        None, description="For each parameter: name, given, allowed, reason."
    )


class ParameterSchema(Schema):
    """One parameter of a benchmark."""

    name: str
    help: str
    unit: str
    allowed: str
    presets: dict[str, Any]


class BenchmarkSchema(Schema):
    """A benchmark of a method."""

    slug: str
    title: str
    description: str
    version: int
    devices: list[str]
    parameters: list[ParameterSchema]

    @staticmethod
    def resolve_devices(benchmark: Benchmark) -> list[str]:
        """Devices by the names that a request uses."""
        return ["gpu" if device == "cuda" else "cpu" for device in benchmark.devices]

    @staticmethod
    def resolve_parameters(benchmark: Benchmark) -> list[dict[str, Any]]:
        """Each parameter with its value in every preset."""
        presets = {name: p.model_dump(mode="json") for name, p in benchmark.sized_presets().items()}
        return [
            {name: getattr(info, name) for name in ("name", "help", "unit", "allowed")}
            | {"presets": {name: values[info.name] for name, values in presets.items()}}
            for info in benchmark.parameters()
        ]


class MethodSchema(Schema):
    """A method and its benchmarks."""

    slug: str
    title: str
    description: str
    benchmarks: list[BenchmarkSchema]


class PaperSchema(Schema):
    """A paper, in its latest known version."""

    id: str = Field(alias="arxiv_id", description="arXiv's identifier, without a version.")
    version: int
    title: str
    withdrawn: bool = Field(description="By its authors or arXiv, as comment or abstract say.")
    abstract: str
    authors: list[str] = Field(alias="author_names", description="Only their names.")
    categories: list[str]
    announced_on: Date | None
    doi: str
    repository: str = Field(description="The authors' code: by abstract, comment or full text.")
    quote: str = Field(description="What its abstract reports, as a row shows it; may be empty.")

    @staticmethod
    def resolve_quote(paper: Paper) -> str:
        """The abstract's own words, with a number."""
        quote = headline_of(paper)
        return quote.text if quote else ""


class PaperPage(Schema):
    """Papers that a search found; `next` is the number of the page after this one."""

    count: int = Field(description="Papers that match the whole query.")
    some: int = Field(description="Papers after these, with some of the words.")
    some_from: int | None = Field(description="Where in `items` these begin, if they do.")
    more: bool = Field(description="Whether there are more than `count`.")
    next: int | None
    dropped: list[str] = Field(description="Words that no paper contains; they were left out.")
    suggestion: str
    items: list[PaperSchema] = Field(alias="papers")

    @staticmethod
    def resolve_next(results: SearchResults) -> int | None:
        """Return the number of the next page, or None on the last."""
        return results.page + 1 if results.has_next else None


class ComparisonSchema(Schema):
    """A ratio measured here, with all that must be known beside it."""

    mechanism: str = Field(alias="scope.mechanism")
    quantity: str
    relation: str = Field(alias="scope.relation")
    stage: str = Field(alias="scope.stage")
    comparator: str = Field(description="The baseline that it is a ratio to.")
    regime: str = Field(description="The length or size that it holds at.")
    ratio: float
    low: float
    high: float
    verdict: str = Field(alias="word")
    hardware: str
    doubts: list[str]
    run: UUID = Field(alias="measurement.run.pk")


class NumberSchema(Schema):
    """A number of a quote."""

    value: str
    unit: str
    kind: Kind


class QuoteSchema(Schema):
    """A clause of the abstract that reports results, and the numbers in it."""

    quote: str = Field(alias="text")
    numbers: list[NumberSchema]


class ResultSchema(Schema):
    """A number that a model read in the paper, with the sentence that contains it."""

    metric: str = ""
    subject: str = Field("", description="Whose number it is.")
    value: str
    unit: str
    baseline: str = ""
    setting: str = ""
    hardware: str = ""
    section: str = Field("", description="The section of the paper that has the quote.")
    quote: str
    state: str = Field(description="number and unit, number only, or not found in the text.")
    assigned: bool = Field(
        True, description="One passage or cell has subject, metric, setting and value together."
    )
    not_given: dict[str, list[str]] = Field(
        {}, description="The phrases of each detail that the paper's text does not give."
    )
    contradicted_by: str = Field("", description="The paper's sentence that says otherwise.")
    measured_here: ComparisonSchema | None = Field(
        None, description="Of the same mechanism, quantity, stage and size; else null."
    )


class PaperMethodSchema(Schema):
    """A method that the paper is about, and why."""

    method: str = Field(alias="link.method")
    title: str = Field(alias="carried.method.title")
    relation: str = Field(alias="link.relation")
    score: float = Field(alias="link.score")
    evidence: list[dict[str, Any]] = Field(alias="link.evidence")
    mechanism: str = Field(
        "", alias="reported", description="The paper's own; empty where ours is only related."
    )
    best: ComparisonSchema | None = Field(None, description="Of the paper's own mechanism.")


class NamedPaper(Schema):
    """A paper by identifier and title."""

    id: str = Field(alias="arxiv_id")
    title: str


class WholePaper(PaperSchema):
    """A paper with all that its page shows of its numbers and methods."""

    quotes: list[QuoteSchema] = Field(description="What its abstract reports, in its own words.")
    results: list[ResultSchema] = Field(description="Of its newest summary, by the model.")
    methods: list[PaperMethodSchema]
    similar: list[NamedPaper]

    @staticmethod
    def resolve_quotes(paper: Paper) -> tuple[Quote, ...]:
        """Quotes in the order of the abstract."""
        return quotes_of(paper)

    @staticmethod
    def resolve_results(paper: Paper) -> list[dict[str, Any]]:
        """Results in the order of the summary."""
        fields = (
            *("value", "unit", "quote", "metric", "subject", "baseline", "setting"),
            *("hardware", "section", "state", "assigned", "not_given", "contradicted_by"),
        )
        return [
            {name: getattr(claim, name) for name in fields} | {"measured_here": measured}
            for claim, measured in beside(summary_view(paper).claims, methods_of(paper))
        ]

    @staticmethod
    def resolve_methods(paper: Paper) -> list[PaperMethod]:
        """The strongest link first."""
        return methods_of(paper)

    @staticmethod
    def resolve_similar(paper: Paper) -> list[Paper]:
        """The most similar first."""
        return similar(paper)


class TableValue(Schema):
    """A number of a table, in the words of the table."""

    row_label: list[str] = Field(description="From the outermost; empty where it is not sure.")
    head_path: list[str] = Field(description="From the outermost; empty where it is not sure.")
    text: str
    corrected_from: str | None = Field(
        description="The text in the paper's HTML, where a reader corrected the cell."
    )
    value: Decimal
    unit: str
    spread: Decimal | None
    note: str = Field(description="What stands in brackets behind it: a change, a rank.")
    own: bool = Field(description="In the row or column of the paper's own method.")
    best: bool = Field(description="The best of its column, as far as that is known.")
    row: int
    column: int
    cell: str = Field(description="The fragment of its cell on the paper's page here.")
    link: str = Field(description="Its cell on arXiv's page.")


class TableSchema(Schema):
    """A table of a paper as its page shows it: the main results first."""

    position: int = Field(description="Its place on arXiv's page, from 0.")
    number: str = Field(description="As the paper calls it: Table 3.")
    caption: str
    main: bool = Field(description="The paper's main results.")
    own_found: bool = Field(description="Whether the paper's own row or column is known.")
    link: str = Field(description="The table on arXiv's page.")
    markdown: str
    values: list[TableValue]


class PaperTables(Schema):
    """The tables of a paper's newest version that was read, or why there are none."""

    paper: str = Field(description="arXiv's identifier.")
    version: int | None = Field(description="The version that was read; null before any was.")
    reason: str = Field(description="Why there are no tables.")
    tables: list[TableSchema]


class ListPage(Schema):
    """A page of a list; `next` is the number of the page after this one."""

    count: int
    next: int | None


class ProfileSchema(Schema):
    """A feed: the categories and keywords that a reader follows."""

    slug: str
    name: str
    categories: list[str]
    keywords: list[dict[str, Any]]
    ranking: str


class ProfilePage(Schema):
    """Feeds, the site's own first; `next` is the number of the page after this one."""

    count: int
    next: int | None
    items: list[ProfileSchema]


class EntrySchema(Schema):
    """A paper in a digest, with the reasons for its rank."""

    rank: int
    score: float
    also_mentioned: bool = Field(
        description="It is folded behind the list: a lower match, or the nearest of the rest."
    )
    announce_type: str
    matches: list[dict[str, Any]]
    gist: str
    sentence: str = Field(description="The gist, else what its abstract says is proposed or found.")
    quote: str = Field(
        description="A clause of its abstract with a number that the sentence lacks."
    )
    paper: PaperSchema

    @staticmethod
    def resolve_quote(entry: DigestEntry) -> str:
        """The quote in the paper's row, or ""."""
        return entry.quote.text if entry.quote else ""


class DigestSchema(Schema):
    """A feed's day."""

    feed: str = Field(alias="profile.slug")
    profile: str = Field(alias="profile.slug", deprecated=True, description="As `feed`.")
    date: Date
    considered: int
    matched: int
    entries: list[EntrySchema]

    @staticmethod
    def resolve_entries(digest: Digest) -> list[DigestEntry]:
        """Entries with their papers, by one query."""
        return digest_entries(digest)


class MethodResult(Schema):
    """A result that a method's source reports, with the matching measurement."""

    id: str = Field(alias="claim.id")
    text: str = Field(alias="claim.text")
    verdict: str | None = Field(alias="verdict.word")
    reason: str = Field(alias="verdict.reason")
    measured: float | None = Field(None, alias="figure.value")
    low: float | None = Field(None, alias="figure.low")
    high: float | None = Field(None, alias="figure.high")
    unit: str
    hardware: str = Field("", alias="measurement.row.hardware")
    run: UUID | None = Field(None, alias="measurement.run.pk", description="Where it was measured.")
    setting: str = Field("", alias="claim.setting")
    quote: str = Field("", alias="claim.quote", description="The source's own words.")
    finding: str = Field("", alias="claim.finding", description="What we found of it.")


class LibraryItem(Schema):
    """A paper of your library."""

    saved: bool
    read_at: datetime | None
    not_for_me: bool
    note: str
    lists: list[str] = Field(description="The names of your lists that it is on.")
    paper: PaperSchema


class LibraryPage(ListPage):
    """A page of your library."""

    items: list[LibraryItem]


class LibraryChange(Schema):
    """Changes to a paper in your library; omitted fields stay as they are."""

    model_config = ConfigDict(extra="forbid")

    saved: bool | None = None
    read: bool | None = None
    not_for_me: bool = False
    note: str = Field("", max_length=MAX_NOTE)
    lists: list[Annotated[str, Field(max_length=MAX_NAME)]] = Field(
        [], max_length=MAX_LISTS, description="All lists that it is to be on; new names create one."
    )
