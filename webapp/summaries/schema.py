"""The schema of a model's answer. An answer that does not match is not shown."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from assay_common.text import clean_json

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1200)]
ShortText = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]
Sentences = Annotated[list[Sentence], Field(max_length=12)]
# Some models answer 79.66 where the schema has "79.66".
Cell = Annotated[ShortText, Field(coerce_numbers_to_str=True)]
Row = Annotated[list[Cell], Field(max_length=12)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _without_invisible_characters(cls, value: Any) -> Any:
        """A right-to-left override would show another number than the one that was checked."""
        return clean_json(value)


class Table(_Strict):
    """A table of the paper, cells as written there."""

    title: ShortText
    columns: Annotated[list[ShortText], Field(min_length=1, max_length=12)]
    rows: Annotated[list[Row], Field(max_length=40)]


class Contributions(_Strict):
    """What the paper adds."""

    problem: Sentences
    method: Sentences
    advantages: Sentences


class Experiments(_Strict):
    """How it was tested."""

    data_sets: Sentences
    setup: Sentences
    metrics: Sentences
    baselines: Sentences


class Results(_Strict):
    """What came out."""

    key_numbers: Sentences
    against_baselines: Sentences
    ablations: Sentences
    tables: Annotated[list[Table], Field(max_length=4)]


class Conclusions(_Strict):
    """What follows."""

    findings: Sentences
    limitations: Sentences
    future_work: Sentences


class ClaimedNumber(_Strict):
    """One number the paper reports, with the words it stands in."""

    metric: Annotated[ShortText, Field(min_length=1, max_length=200)]
    value: Annotated[str, Field(coerce_numbers_to_str=True, min_length=1, max_length=80)]
    unit: Annotated[str, Field(max_length=40)]
    direction: Literal["higher", "lower", "unknown"]
    baseline: ShortText
    setting: ShortText
    hardware: Annotated[str, Field(max_length=200)]
    quote: Annotated[str, Field(min_length=1, max_length=1000)]
    section: Annotated[str, Field(max_length=200)]


class RelatedMethod(_Strict):
    """How the paper is related to a family of methods, with the words that show it."""

    method: Annotated[str, Field(min_length=1, max_length=64)]
    relation: Literal["about", "uses", "mentions"]
    quote: Annotated[str, Field(min_length=1, max_length=1000)]


class PaperSummary(_Strict):
    """A model's whole answer."""

    gist: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=400)]
    contributions: Contributions
    experiments: Experiments
    results: Results
    conclusions: Conclusions
    claims: Annotated[list[ClaimedNumber], Field(max_length=30)]
    relations: Annotated[list[RelatedMethod], Field(max_length=20)] = []  # some leave it out
