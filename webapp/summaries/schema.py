"""The shape of a model's answer. Whatever does not fit it is not shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
)

from .numbers import visible

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1200)]
Short = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]
Lines = Annotated[list[Line], Field(max_length=12)]


def _written(value: object) -> object:
    """A value as text: models answer 79.66 where "79.66" was asked for."""
    if isinstance(value, bool):
        return value
    return str(value) if isinstance(value, int | float) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _without_invisible_characters(cls, value: object) -> object:
        """A right-to-left override would show another number than the one that was checked."""
        if isinstance(value, str):
            return visible(value)
        if isinstance(value, list):
            return [visible(item) if isinstance(item, str) else item for item in value]
        return value


class Table(_Strict):
    """A table of the paper, cells as written there."""

    title: Short
    columns: Annotated[list[Short], Field(min_length=1, max_length=12)]
    rows: Annotated[
        list[Annotated[list[Annotated[Short, BeforeValidator(_written)]], Field(max_length=12)]],
        Field(max_length=40),
    ]


class Contributions(_Strict):
    """What the paper adds."""

    problem: Lines
    method: Lines
    advantages: Lines


class Experiments(_Strict):
    """How it was tested."""

    data_sets: Lines
    setup: Lines
    metrics: Lines
    baselines: Lines


class Results(_Strict):
    """What came out."""

    key_numbers: Lines
    against_baselines: Lines
    ablations: Lines
    tables: Annotated[list[Table], Field(max_length=4)]


class Conclusions(_Strict):
    """What follows."""

    findings: Lines
    limitations: Lines
    future_work: Lines


class ClaimedNumber(_Strict):
    """One number the paper reports, with the words it stands in."""

    metric: Annotated[Short, Field(min_length=1, max_length=200)]
    value: Annotated[str, BeforeValidator(_written), Field(min_length=1, max_length=80)]
    unit: Annotated[str, Field(max_length=40)]
    direction: Literal["higher", "lower", "unknown"]
    baseline: Short
    setting: Short
    hardware: Annotated[str, Field(max_length=200)]
    quote: Annotated[str, Field(min_length=1, max_length=1000)]
    section: Annotated[str, Field(max_length=200)]


class PaperSummary(_Strict):
    """A model's whole answer."""

    gist: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=400)]
    contributions: Contributions
    experiments: Experiments
    results: Results
    conclusions: Conclusions
    claims: Annotated[list[ClaimedNumber], Field(max_length=30)]
