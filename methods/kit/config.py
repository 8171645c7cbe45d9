"""Configurations that are checked when they are made, by pydantic, with errors in words."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from ..errors import InputError

C = TypeVar("C")
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]


@dataclass_transform(frozen_default=True)
def configuration(plain: type[C]) -> type[C]:
    """Make a frozen dataclass whose fields pydantic checks; what it refuses is an InputError.

    Bounds stand in the annotations (`Annotated[int, Field(ge=1)]`, `Literal["a", "b"]`), what
    concerns several fields in `__post_init__`, which may raise any `ValueError`.
    """

    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    built: Any = dataclass(frozen=True, config=config)(plain)
    checked = built.__init__

    def initialise(self: Any, *args: Any, **values: Any) -> None:
        try:
            checked(self, *args, **values)
        except ValidationError as refused:
            names = [field.name for field in dataclasses.fields(self)]
            raise InputError(in_words(refused, names)) from None

    built.__init__ = initialise
    return built  # type: ignore[no-any-return]


def in_words(refused: ValidationError, names: Sequence[str] = ()) -> str:
    """Every problem with its field and the value given, one to a line.

    `names` are those of the fields in their order: a value given by its place has only that.
    """
    lines = []
    for item in refused.errors(include_url=False):
        first, *rest = item["loc"] or ("",)
        field = names[first] if isinstance(first, int) else first
        name = ".".join(map(str, (field, *rest)))
        message = item["msg"].removeprefix("Value error, ")
        given = "" if item["type"] in ("value_error", "missing") else f", not {item['input']!r}"
        lines.append(f"{name}: {message}{given}"[:300] if name else message)
    return "\n".join(lines)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file; raises InputError where there is no such file or no mapping."""
    import yaml  # noqa: PLC0415 - the site knows configurations, and is installed without YAML

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"the configuration {path} cannot be read: {problem}") from problem
    except yaml.YAMLError as problem:
        raise InputError(f"{path} is no YAML: {problem}") from problem
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no mapping of names to values")
    return values
