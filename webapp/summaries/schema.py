"""The schema of a model's answer, and how an answer that nearly matches is brought into it.

Texts and lists that are too long are cut, what is null or left out among the details is empty, and
an entry of a list that cannot be read is left out. What is missing of the whole is an error.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from assay_common.text import clean_json

# All that OpenAI documents for schemas under `strict` and that every other server knows too
# (https://platform.openai.com/docs/guides/structured-outputs); pydantic checks the rest afterwards.
_KEYWORDS = frozenset(
    {"$defs", "$ref", "type", "properties", "required", "additionalProperties", "items", "enum"}
)
_BOUNDS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})


def _text(value: Any) -> Any:
    """A value as a text, as far as it is one: models answer null, 79.66, or a list of lines."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "; ".join(value)
    return value


def _at_most(length: int, mark: str = "") -> Callable[[Any], Any]:
    """Return a validator that shortens a text between words, ending it with `mark` if given."""

    def cut(value: Any) -> Any:
        value = _text(value)
        if not isinstance(value, str) or len(value := value.strip()) <= length:
            return value
        shortened = value[: length - len(mark)]
        return (
            (shortened.rpartition(" ")[0] or shortened).rstrip(" ,;:") + mark if mark else shortened
        )

    return cut


def _listed(most: int, entry: type[BaseModel] | None = None) -> Callable[[Any], Any]:
    """Return a validator that shortens a list, without empty items and invalid entries."""

    def cut(value: Any) -> Any:
        if value is None:
            return []
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            return value
        entries = [item for item in value if item not in (None, "", [], {})]
        if entry:
            entries = [item for item in entries if _is_valid(entry, item)] or entries
        return entries[:most]

    return cut


def _is_valid(kind: type[BaseModel], item: Any) -> bool:
    try:
        kind.model_validate(item)
    except ValidationError:
        return False
    return True


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _direction(value: Any) -> Any:
    """Return the direction as models write it: "Higher", "higher is better", "↑", null."""
    text = str(value or "").lower()
    higher = any(word in text for word in ("high", "up", "increas", "larg", "max", "↑"))
    lower = any(word in text for word in ("low", "down", "decreas", "small", "min", "↓"))
    return ("higher" if higher else "lower") if higher != lower else "unknown"


def _row(value: Any) -> Any:
    """A table's row: its empty cells keep their places."""
    return value[:12] if isinstance(value, list) else value


Sentence = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=1200),
    BeforeValidator(_at_most(1200, "…")),
]
ShortText = Annotated[str, StringConstraints(max_length=300), BeforeValidator(_at_most(300, "…"))]
Sentences = Annotated[list[Sentence], Field(max_length=12), BeforeValidator(_listed(12))]
Cells = Annotated[list[ShortText], Field(max_length=12), BeforeValidator(_row)]
Quote = Annotated[str, Field(min_length=1, max_length=1000), BeforeValidator(_at_most(1000))]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    @field_validator("*", mode="before")
    @classmethod
    def _without_invisible_characters(cls, value: Any) -> Any:
        """A right-to-left override would show another number than the one that was checked."""
        return clean_json(value)


class SummaryTable(_Answer):
    """A table of the paper, cells as written there."""

    title: ShortText
    columns: Annotated[Cells, Field(min_length=1)]
    rows: Annotated[list[Cells], Field(max_length=40), BeforeValidator(_listed(40))]


class Contributions(_Answer):
    """Contributions of the paper."""

    problem: Sentences = []
    method: Sentences = []
    advantages: Sentences = []


class Experiments(_Answer):
    """Experiments."""

    data_sets: Sentences = []
    setup: Sentences = []
    metrics: Sentences = []
    baselines: Sentences = []


class Results(_Answer):
    """Results."""

    key_numbers: Sentences = []
    against_baselines: Sentences = []
    ablations: Sentences = []
    tables: Annotated[
        list[SummaryTable], Field(max_length=4), BeforeValidator(_listed(4, SummaryTable))
    ] = []


class Conclusions(_Answer):
    """Conclusions."""

    findings: Sentences = []
    limitations: Sentences = []
    future_work: Sentences = []


class ClaimedNumber(_Answer):
    """One number the paper reports, with the words it stands in."""

    metric: Annotated[
        ShortText, Field(min_length=1, max_length=200), BeforeValidator(_at_most(200))
    ]
    subject: ShortText = ""
    value: Annotated[str, Field(min_length=1, max_length=80), BeforeValidator(_text)]
    unit: Annotated[str, Field(max_length=40), BeforeValidator(_at_most(40))] = ""
    direction: Annotated[Literal["higher", "lower", "unknown"], BeforeValidator(_direction)] = (
        "unknown"
    )
    baseline: ShortText = ""
    setting: ShortText = ""
    hardware: Annotated[str, Field(max_length=200), BeforeValidator(_at_most(200))] = ""
    quote: Quote
    section: Annotated[str, Field(max_length=200), BeforeValidator(_at_most(200))] = ""


class RelatedMethod(_Answer):
    """A relation of the paper to a family of methods, with its quote."""

    method: Annotated[str, Field(min_length=1, max_length=64)]
    relation: Annotated[Literal["about", "uses", "mentions"], BeforeValidator(_lower)]
    quote: Quote


class PaperSummary(_Answer):
    """A model's whole answer."""

    gist: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=10, max_length=400),
        BeforeValidator(_at_most(400, "…")),
    ]
    contributions: Contributions
    experiments: Experiments
    results: Results
    conclusions: Conclusions
    claims: Annotated[
        list[ClaimedNumber], Field(max_length=30), BeforeValidator(_listed(30, ClaimedNumber))
    ]
    relations: Annotated[
        list[RelatedMethod], Field(max_length=20), BeforeValidator(_listed(20, RelatedMethod))
    ] = []


@cache
def strict_schema() -> dict[str, Any]:
    """The JSON schema of an answer as `strict` wants it: all required, nothing additional."""
    schema: dict[str, Any] = _strict(PaperSummary.model_json_schema())
    return schema


@cache
def bounded_schema(tokens: int) -> dict[str, Any]:
    """The same with lengths of texts and lists, so that an answer has room in so many tokens.

    A weak model writes one text or list until it is stopped, and the answer is cut off.
    """
    # A good model stops by itself; where room is short even the longest answer must fit.
    text, items = (400, 10) if tokens >= 4_000 else (max(12, tokens // 20), max(1, tokens // 1500))
    shorter = {"maxLength": text, "maxItems": items}
    schema: dict[str, Any] = _shortened(
        _strict(PaperSummary.model_json_schema(), _KEYWORDS | _BOUNDS), shorter
    )
    return schema


def _shortened(node: Any, most: dict[str, int]) -> Any:
    if isinstance(node, list):
        return [_shortened(inner, most) for inner in node]
    if not isinstance(node, dict):
        return node
    return {
        key: min(value, most[key]) if key in most else _shortened(value, most)
        for key, value in node.items()
    }


def _strict(node: Any, keywords: frozenset[str] = _KEYWORDS) -> Any:
    """A schema with some keywords, of which every server knows the first; properties stay."""
    schema = {key: value for key, value in node.items() if key in keywords}
    for named in schema.keys() & {"properties", "$defs"}:
        schema[named] = {name: _strict(inner, keywords) for name, inner in schema[named].items()}
    if "items" in schema:
        schema["items"] = _strict(schema["items"], keywords)
    if "properties" in schema:
        schema |= {"required": list(schema["properties"]), "additionalProperties": False}
    return schema
