"""What a method says of itself, without importing torch.

A method's ``spec.py`` binds one :class:`Method` to the name ``METHOD``. Everything heavy is named
by a string ``"module:function"`` relative to the method's folder and imported when it is run.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Literal

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from methods.errors import InputError, ParameterError, ParameterProblem, UnknownNameError

__all__ = [
    "PRESETS",
    "Answer",
    "Benchmark",
    "Case",
    "Check",
    "Claim",
    "Command",
    "Comparable",
    "Direction",
    "Family",
    "InputError",
    "Method",
    "Paper",
    "ParameterError",
    "ParameterInfo",
    "ParameterProblem",
    "Params",
    "Relation",
    "TimedParams",
    "UnknownNameError",
    "parameter",
]

Direction = Literal["lower", "higher"]
Relation = Literal["<=", ">=", "=="]

Ruling = Literal["reproduced", "partly", "not reproduced", "refuted", "inconclusive"]

PRESETS: Mapping[str, str] = {
    "smoke": "seconds on a CPU: shows that everything runs",
    "standard": "minutes on a CPU: the figures of the README",
    "full": "for a GPU: the sizes of the paper",
}
_BOUNDS = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "lt": "less than {}",
    "multiple_of": "a multiple of {}",
    "min_length": "at least {} characters",
    "max_length": "at most {} characters",
    "pattern": "matching {}",
}
_SLUG = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ENTRY = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*:[a-z][a-z0-9_]*")
_ARXIV_ID = re.compile(r"\d{4}\.\d{4,5}")


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
    return Field(
        default,
        description=help,
        json_schema_extra={"unit": unit, "local": local, "model": model},
        **bounds,
    )


class TimedParams(Params):
    """Base of the parameters of a benchmark of time: it runs whole in several fresh processes."""

    processes: int = parameter(
        5, "Fresh processes that measure, at least; fewer than 5 are flagged.", ge=2, le=100
    )
    seconds: int = parameter(
        600, "Time after which no process beyond those begins.", unit="s", ge=0, le=86_400
    )
    precision: float = parameter(
        0.03, "Half width of every ratio's interval at which measuring ends.", gt=0, le=1
    )


class Comparable(StrEnum):
    """Whether a claim of the source may meet a series of ours."""

    SAME = "same"
    RATIO_ONLY = "ratio only"
    NOT = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper the method comes from, builds on or is measured against."""

    arxiv_id: str
    title: str
    role: Literal["source", "ancestor", "baseline", "related"]

    def __post_init__(self) -> None:
        _require(_ARXIV_ID.fullmatch(self.arxiv_id), f"not an arXiv id: {self.arxiv_id!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a paper about a method is about: our code stands for a family of methods.

    ``what`` says what belongs to it, ``near`` what is next to it (such a paper uses it, compares
    with it or mentions it), ``outside`` what has only the words in common. ``phrases`` speak for
    the family and those ``against`` it, each with its weight: blanks and hyphens are alike,
    ``(a|b)`` chooses, ``[may be]``, ``*`` ends a stem, ``~`` stands for up to four words.
    """

    what: str
    near: str = ""
    outside: str = ""
    phrases: Mapping[str, float] = field(default_factory=dict)
    against: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The point of a series that answers a claim: ``benchmark``, series, variant and x.

    ``quantity`` says which number: the point's median in the series' unit, or its ratio to the
    baseline (how many times better), or to the variant ``against`` where that is named. ``x`` None
    means the series' only or largest x.
    """

    benchmark: str
    series: str
    variant: str
    x: float | str | None = None
    quantity: Literal["value", "ratio"] = "value"
    against: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """An exact number that answers a claim, from the method's definition: no hardware is named.

    ``low`` to ``high``, in the claim's unit, is one number unless it depends on the setting;
    ``without`` is what there is without the method (1 for a ratio, 2 for the exponent of dense
    attention); ``working`` says what was counted, with the figures.
    """

    low: float
    high: float
    working: str
    without: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A number or statement of the source, as it stands there, and what may be set against it.

    ``value`` is None for a statement without a number; ``upper`` closes a range such as 1.2-2.0.
    ``quote`` is the source's wording, ``section`` where it stands. ``reason`` says why a claim is
    not (or only as a ratio) comparable and what would be needed, ``finding`` what we know of it in
    a sentence. Where no machine needs to measure, ``counted`` gives the exact number, or
    ``ruling`` is the verdict of an argument: the finding, with the file of code that it rests on.
    """

    id: str
    text: str
    metric: str
    value: float | None = None
    upper: float | None = None
    unit: str = ""
    direction: Direction = "higher"
    setting: str = ""
    quote: str = ""
    section: str = ""
    comparable: Comparable = Comparable.NOT
    reason: str = ""
    finding: str = ""
    answer: Answer | None = None
    counted: Callable[[], Count] | None = None
    ruling: Ruling | None = None
    argument: str = ""

    def __post_init__(self) -> None:
        _require(_SLUG.fullmatch(self.id), f"claim id {self.id!r} is not a lower-case name")
        if self.comparable is Comparable.SAME:
            _require(self.answer, f"claim {self.id!r} is comparable: name the series answering it")
        else:
            _require(
                self.reason or self.counted,
                f"claim {self.id!r} is {self.comparable}: give the reason",
            )
        if self.ruling:
            _require(self.argument, f"claim {self.id!r} is argued: name the file it rests on")


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement against one bound, as check functions yield it.

    A bool must equal its bound, whatever the relation. NaN meets no bound.
    """

    measured: float | bool
    bound: float | bool
    relation: Relation = "<="
    label: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.measured, bool) or isinstance(self.bound, bool):
            object.__setattr__(self, "relation", "==")

    @property
    def passed(self) -> bool:
        """Whether ``measured relation bound`` holds."""
        if self.relation == "==":
            return self.measured == self.bound
        if self.relation == "<=":
            return self.measured <= self.bound
        return self.measured >= self.bound

    @property
    def strain(self) -> float:
        """How near the bound: at most 1 when passed, larger when missed; to find the worst case."""
        measured, bound = float(self.measured), float(self.bound)
        if self.passed:
            small, large = (measured, bound) if self.relation == "<=" else (bound, measured)
            return 0.0 if self.relation == "==" else min(1.0, small / large) if large > 0 else 1.0
        if math.isnan(measured):
            return math.inf
        return 1.0 + abs(measured - bound) / (abs(bound) or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A row of the method's table of checks.

    ``entry`` names a function ``(device: str) -> Iterable[Case]``, for example ``"checks:oracle"``;
    ``bound`` says in words what it holds the method to.
    """

    name: str
    title: str
    bound: str
    entry: str

    def __post_init__(self) -> None:
        _require(_SLUG.fullmatch(self.name), f"check name {self.name!r} is not a lower-case name")
        _require(_ENTRY.fullmatch(self.entry), f"entry {self.entry!r} is not 'module:function'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One thing that can be measured.

    ``entry`` names a function ``(ctx: Context, params: P) -> None`` and ``memory``, where given,
    one ``(params: P, device: str) -> int``: the estimated peak in bytes, without allocating.
    ``version`` rises when old and new results stop being comparable.
    """

    slug: str
    title: str
    description: str
    params: type[Params]
    presets: Mapping[str, Params]
    entry: str
    memory: str = ""
    version: int = 1
    devices: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")

    def __post_init__(self) -> None:
        _require(_SLUG.fullmatch(self.slug), f"benchmark slug {self.slug!r}: lower-case name")
        _require(set(self.presets) == set(PRESETS), f"{self.slug}: presets must be {list(PRESETS)}")
        for preset in self.presets.values():
            _require(isinstance(preset, self.params), f"{self.slug}: presets are {self.params}")
        for entry in (self.entry, self.memory):
            _require(not entry or _ENTRY.fullmatch(entry), f"entry {entry!r}: 'module:function'")

    def resolve(
        self,
        preset: str = "standard",
        settings: Mapping[str, Any] | None = None,
        *,
        models: Collection[str] | None = None,
    ) -> Any:
        """The parameters of ``preset`` with ``settings`` (texts or values) laid over them.

        ``models`` are the names of models that a request from outside may give; it may set no
        local parameter. None is for the command line, which may set everything.
        Raises :class:`UnknownNameError` for a preset and :class:`ParameterError` for everything
        that pydantic refuses, each problem with its name, bounds and the value given.
        """
        if preset not in self.presets:
            raise UnknownNameError("preset", preset, self.presets)
        settings = settings or {}
        fields = self.params.model_fields
        values = self.presets[preset].model_dump()
        values |= {
            name: _from_text(fields[name], value) if name in fields else value
            for name, value in settings.items()
        }
        try:
            params = self.params.model_validate(values)
        except ValidationError as error:
            raise ParameterError(_problems(error, self.parameters(), settings, values)) from None
        if models is not None and (refused := list(self._not_public(params, models))):
            raise ParameterError(refused)
        return params

    def _not_public(self, params: Params, models: Collection[str]) -> Iterator[ParameterProblem]:
        """The parameters that only this machine's command line may set to what they are."""
        for info in self.parameters():
            value = getattr(params, info.name)
            presets = [getattr(preset, info.name) for preset in self.presets.values()]
            if not (info.local or info.model) or value in presets:
                continue
            if info.model and value in models:
                continue
            reason = "only the command line may set it"
            if info.model:
                names = ", ".join(models) or "none"
                reason = f"the operator allows these models here: {names} (ASSAY_MODELS)"
            yield ParameterProblem(info.name, _shown(value), "", reason)

    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Every parameter as forms and help texts show it."""
        return tuple(_info(name, found) for name, found in self.params.model_fields.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a method does with data of one's own: ``python -m methods train METHOD``.

    ``entry`` names a function ``(params: P, device: str, tell) -> str``: ``tell(done, total,
    message)`` shows progress, the answer is printed. Its parameters are the command line's alone.
    """

    name: Literal["train", "evaluate"]
    params: type[Params]
    entry: str

    def __post_init__(self) -> None:
        _require(_ENTRY.fullmatch(self.entry), f"entry {self.entry!r} is not 'module:function'")

    def resolve(self, settings: Mapping[str, str]) -> Any:
        """The parameters of ``settings``; raises :class:`ParameterError` for what is refused."""
        fields = self.params.model_fields
        values = {n: _from_text(fields[n], v) if n in fields else v for n, v in settings.items()}
        infos = tuple(_info(name, found) for name, found in fields.items())
        try:
            return self.params.model_validate(values)
        except ValidationError as error:
            raise ParameterError(_problems(error, infos, settings, values)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method: what it is, where it comes from, what its source claims, what can be measured.

    ``example`` names a function without arguments that uses the method in seconds on a CPU, for
    example ``"example:main"``: its code is read while it runs (``python -m methods read``).
    """

    slug: str
    title: str
    description: str
    papers: tuple[Paper, ...] = ()
    aliases: tuple[str, ...] = ()
    family: Family = Family(what="")
    claims: tuple[Claim, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    checks: tuple[Check, ...] = ()
    commands: tuple[Command, ...] = ()
    example: str = ""

    def __post_init__(self) -> None:
        _require(
            not self.example or _ENTRY.fullmatch(self.example),
            f"example {self.example!r}: 'module:function'",
        )
        _require(_SLUG.fullmatch(self.slug), f"method slug {self.slug!r} is not a lower-case name")
        for names in (
            [benchmark.slug for benchmark in self.benchmarks],
            [claim.id for claim in self.claims],
            [check.name for check in self.checks],
        ):
            _require(len(names) == len(set(names)), f"{self.slug}: a name is used twice in {names}")
        for claim in self.claims:
            if claim.answer:
                self.benchmark(claim.answer.benchmark)

    def benchmark(self, slug: str) -> Benchmark:
        """The benchmark called ``slug``; raises :class:`UnknownNameError` with the nearest name."""
        for benchmark in self.benchmarks:
            if benchmark.slug == slug:
                return benchmark
        known = (benchmark.slug for benchmark in self.benchmarks)
        raise UnknownNameError(f"benchmark of {self.slug}", slug, known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterInfo:
    """One parameter for a form field or a line of help. ``choices`` empty means free."""

    name: str
    kind: Literal["integer", "number", "boolean", "text", "choice"]
    many: bool
    default: Any
    help: str
    unit: str
    choices: tuple[Any, ...] = ()
    bounds: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[int, int | None] = (0, None)  # how many, where there are many
    local: bool = False  # the command line alone may set it
    model: bool = False  # elsewhere only the names in ASSAY_MODELS

    @property
    def allowed(self) -> str:
        """The bounds in words: ``integer from 1 to 512``, ``1 to 8 integers from 16 to 4096``."""
        if self.choices:
            kind = "one of " + ", ".join(str(choice) for choice in self.choices)
        else:
            kind = self.kind
        rest = dict(self.bounds)
        if "ge" in rest and "le" in rest:
            kind += f" from {rest.pop('ge')} to {rest.pop('le')}"
        kind = ", ".join([kind, *(_BOUNDS[key].format(value) for key, value in rest.items())])
        if not self.many:
            return kind
        least, most = self.items
        count = f"{least} to {most}" if most is not None else f"{least} or more"
        return f"a list of {count}, each: {kind}"


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _is_sequence(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (tuple, list, set, frozenset)


def _from_text(found: FieldInfo, value: Any) -> Any:
    """Let ``512,1024`` or ``[512, 1024]`` stand for a sequence; other texts are pydantic's."""
    if not (isinstance(value, str) and _is_sequence(found.annotation)):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _info(name: str, found: FieldInfo) -> ParameterInfo:
    annotation, metadata = found.annotation, list(found.metadata)
    many, items = _is_sequence(annotation), (0, None)
    if many:
        length = _bounds(metadata)
        items = length.get("min_length", 0), length.get("max_length")
        annotation, metadata = typing.get_args(annotation)[0], []
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *extra = typing.get_args(annotation)
        for item in extra:
            metadata += item.metadata if isinstance(item, FieldInfo) else [item]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    choices: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        choices = tuple(member.value for member in annotation)
    kinds: dict[Any, str] = {bool: "boolean", int: "integer", float: "number"}
    extra_schema = found.json_schema_extra if isinstance(found.json_schema_extra, dict) else {}
    return ParameterInfo(
        name=name,
        kind=typing.cast(Any, "choice" if choices else kinds.get(annotation, "text")),
        many=many,
        default=found.get_default(call_default_factory=True, validated_data={}),
        help=found.description or "",
        unit=str(extra_schema.get("unit", "")),
        local=bool(extra_schema.get("local")),
        model=bool(extra_schema.get("model")),
        choices=choices,
        bounds=_bounds(metadata),
        items=items,
    )


def _bounds(metadata: list[Any]) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for item in metadata:
        if isinstance(item, annotated_types.GroupedMetadata):
            bounds |= _bounds(list(item))
            continue
        bounds |= {
            key: getattr(item, key) for key in _BOUNDS if getattr(item, key, None) is not None
        }
    return bounds


def _problems(
    error: ValidationError,
    infos: tuple[ParameterInfo, ...],
    settings: Mapping[str, Any],
    values: Mapping[str, Any],
) -> list[ParameterProblem]:
    by_name = {info.name: info for info in infos}
    problems = []
    for item in error.errors(include_url=False):
        name = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "extra_forbidden":
            reason = str(UnknownNameError("parameter", name, by_name))
            problems.append(ParameterProblem(name, _shown(item["input"]), "", reason))
        elif name in by_name:
            given = _shown(settings.get(name, values.get(name)))
            problems.append(ParameterProblem(name, given, by_name[name].allowed, item["msg"]))
        else:
            given = ", ".join(f"{key}={_shown(value)}" for key, value in settings.items())
            reason = item["msg"].removeprefix("Value error, ")
            problems.append(ParameterProblem("parameters", given or "the preset", "", reason))
    return problems


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
