"""Parts of every message: clean texts, names, strict models, canonical JSON."""

import json
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from assay_common.text import clean, one_line


class ProtocolError(ValueError):
    """A message is malformed, too large, of another version or not signed by the expected key."""


SMALLEST, LARGEST = 1e-60, 1e60  # of what a measurement can be


def _plausible(number: float) -> float:
    """A number whose ratios, squares and logarithms stay numbers; ValueError for another."""
    if number and not SMALLEST <= abs(number) <= LARGEST:
        raise ValueError(f"{number:g} is no number that was measured")
    return number


Version = Annotated[int, Field(ge=1, le=1)]  # unlike Literal[1], not True
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
WorkerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}$")]
Label = Annotated[str, Field(max_length=200), AfterValidator(one_line)]
Sentence = Annotated[str, Field(max_length=2_000), AfterValidator(clean)]
Page = Annotated[str, Field(max_length=20_000), AfterValidator(clean)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Field(ge=0, le=4e9)]  # a duration, or Unix time until 2096
Measured = Annotated[float, AfterValidator(_plausible)]
Where = float | Annotated[str, Field(min_length=1, max_length=100), AfterValidator(one_line)]


class Strict(BaseModel):
    """Immutable, no unknown fields, no coercion, numbers that a measurement can have only."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _measured(self) -> Self:
        for _, value in self:
            if isinstance(value, float):
                _plausible(value)
        return self


M = TypeVar("M", bound=Strict)


def canonical(value: object) -> bytes:
    """JSON with sorted keys, no spaces, ASCII only; raises ProtocolError for NaN and non-JSON."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None


def parse(model: type[M], data: str | bytes, limit: int) -> M:
    """The model in JSON text of at most ``limit`` bytes; raises :class:`ProtocolError`."""
    if len(data) > limit:
        raise ProtocolError(f"a {model.__name__} is at most {limit} bytes")
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise ProtocolError(in_words(error)) from None


def in_words(error: ValidationError) -> str:
    """The first thing pydantic refused, with its place, without the hostile input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "message"
    return f"{place}: {first['msg']}"[:500]
