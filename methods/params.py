"""The parameters of benchmarks and commands: declared, described for forms, read from texts."""

import json
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from .errors import ParameterError, ParameterProblem, UnknownNameError

_BOUNDS = {  # JSON Schema's words
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
}


Values = Mapping[str, Any]  # by the name of a parameter
Say = Callable[[str], str]  # English words, or a template of them, in the language of a page
# What names a folder, a file or a model: it may be empty, or must be given.
Place = Annotated[str, Field(max_length=300)]
Source = Annotated[str, Field(min_length=1, max_length=300)]


class Params(BaseModel):
    """Base of a benchmark's parameters: unknown names, NaN and infinity are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )


def parameter(
    default: Any,
    help: str,  # noqa: A002 - the field's word
    *,
    unit: str = "",
    local: bool = False,
    model: bool = False,
    **bounds: Any,
) -> Any:
    """Declare one parameter: its default, a sentence of help, its unit and bounds.

    A ``local`` parameter names something of the machine, such as a folder: the command line alone
    may set it. A ``model`` parameter takes a folder or a hub id on the command line, and elsewhere
    only a name that the operator allows in ``ASSAY_MODELS``.

    ``bounds`` are pydantic's (``ge``, ``gt``, ``le``, ``lt``, ``multiple_of``, ``min_length``,
    ``max_length``, ``pattern``). Bounds on the *elements* of a tuple go into the annotation:
    ``tuple[Annotated[int, Field(ge=1, le=65536)], ...]``. Choices are ``Literal`` annotations.
    """
    extra: dict[str, Any] = {"unit": unit, "local": local, "model": model}
    return Field(default, description=help, json_schema_extra=extra, **bounds)


class TimedParams(Params):
    """Base of the parameters of a benchmark of time: it runs whole in several fresh processes."""

    processes: int = parameter(5, "Fresh processes, at least; under 5 are flagged.", ge=2, le=100)
    seconds: int = parameter(600, "Time after which no more begin.", unit="s", ge=0, le=86_400)
    precision: float = parameter(
        0.03, "Half width of every ratio's interval at which measuring ends.", gt=0, le=1
    )
    blocks: int = parameter(5, "Interleaved blocks a process.", ge=5, le=100)
    threads: int = parameter(
        1, "Threads on the CPU, 0 for all cores; one is timed by processor time.", ge=0, le=256
    )
    max_warm_up_s: float = parameter(3.0, "Longest warm-up of a variant.", unit="s", ge=0, le=60)


class ParameterInfo:
    """One parameter for a form field or a line of help, from its JSON Schema.

    ``choices`` empty means free; ``items`` are how many there may be, where there are ``many``.
    The command line alone may set a ``local`` one, elsewhere a ``model`` is of those in
    ``ASSAY_MODELS``.
    """

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self.name = name
        self.help: str = schema.get("description", "")
        self.unit: str = schema.get("unit", "")
        self.local, self.model = bool(schema.get("local")), bool(schema.get("model"))
        self.many = schema.get("type") == "array"
        self.items: tuple[int, int | None] = (schema.get("minItems", 0), schema.get("maxItems"))
        one = schema["items"] if self.many else schema
        self.choices = tuple(one.get("enum") or [one[word] for word in ("const",) if word in one])
        kind: str = one.get("type", "")
        kind = kind if kind in ("integer", "number", "boolean") else "text"
        self.kind = "choice" if self.choices else kind
        self.bounds = {word: one[word] for word in _BOUNDS if word in one}

    def allowed(self, say: Say = str) -> str:
        """The bounds in words: ``integer from 1 to 512``; ``say`` translates a template of them."""
        choices = ", ".join(map(str, self.choices))
        kind = say("one of {}").format(choices) if choices else say(self.kind)
        rest = dict(self.bounds)
        if "minimum" in rest and "maximum" in rest:
            kind = say("{} from {} to {}").format(kind, rest.pop("minimum"), rest.pop("maximum"))
        kind = ", ".join([kind, *(say(_BOUNDS[key]).format(value) for key, value in rest.items())])
        least, most = self.items
        if not self.many:
            return kind
        if most is None:
            return say("a list of {} or more, each: {}").format(least, kind)
        return say("a list of {} to {}, each: {}").format(least, most, kind)


@cache
def described(model: type[Params]) -> tuple[ParameterInfo, ...]:
    """Every parameter as forms and help texts show it."""
    schema = model.model_json_schema()["properties"]
    return tuple(ParameterInfo(name, schema[name]) for name in model.model_fields)


def resolve(model: type[Params], settings: Values, values: Values) -> Any:
    """The parameters ``values`` with ``settings`` (texts or values) laid over them.

    Raises :class:`ParameterError` for everything that pydantic refuses, each problem with its name,
    bounds and the value given.
    """
    fields = model.model_fields
    given = {n: _from_text(fields[n], v) if n in fields else v for n, v in settings.items()}
    values = {**values, **given}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ParameterError(_problems(error, model, settings, values)) from None


def _from_text(found: FieldInfo, value: Any) -> Any:
    """Read a choice that is no text, and ``512,1024`` or ``[512, 1024]`` as a sequence.

    Pydantic reads other texts itself.
    """
    origin = typing.get_origin(found.annotation)
    if origin is typing.Literal:
        return next((one for one in typing.get_args(found.annotation) if str(one) == value), value)
    if not isinstance(value, str) or origin is not tuple:
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _problems(
    error: ValidationError, model: type[Params], settings: Values, values: Values
) -> list[ParameterProblem]:
    by_name = {info.name: info for info in described(model)}
    problems = []
    for item in error.errors(include_url=False):
        name = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "extra_forbidden":
            reason = str(UnknownNameError("parameter", name, by_name))
            problems.append(ParameterProblem(name, shown(item["input"]), "", reason))
        elif name in by_name:
            given = shown(settings.get(name, values.get(name)))
            problems.append(ParameterProblem(name, given, by_name[name].allowed(), item["msg"]))
        else:
            given = ", ".join(f"{key}={shown(value)}" for key, value in settings.items())
            reason = item["msg"].removeprefix("Value error, ")
            problems.append(ParameterProblem("parameters", given or "the preset", "", reason))
    return problems


def shown(value: Any) -> str:
    """A value that was given, as an error repeats it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
