"""The specification of a method, without importing torch.

A method's ``spec.py`` binds one :class:`Method` to the name ``METHOD``, written there or read from
``spec.toml`` beside it (:func:`read_method`). Everything heavy is named by a string
``"module:function"`` relative to the method's folder and imported when it is run.
"""

import dataclasses
import math
import operator
import pkgutil
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from .errors import InputError, ParameterError, ParameterProblem, UnknownNameError
from .params import ParameterInfo, Params, TimedParams, described, parameter, resolve, shown

Direction = Literal["lower", "higher"]
Relation = Literal["<=", ">=", "=="]
_HOLDS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}

# What a measured ratio is of, and where it is taken: only what is equal in both is comparable.
Quantity = Literal["time", "memory", "cache", "operations"]
Stage = Literal["kernel", "layer", "prefill", "first token", "decode", "training", "end to end"]

Ruling = Literal["reproduced", "partly", "not reproduced", "refuted", "inconclusive"]

PRESETS: Mapping[str, str] = {
    "quick": "two minutes: one question, answered with an interval",
    "full": "up to half an hour, sized for the device: the figures of the README",
    "smoke": "seconds, for tests: exercises every step and measures nothing",
}
OFFERED = ("quick", "full")  # to readers
MIN_REPEATS = 5  # processes or seeds of a question's quick run
_EXACT = ConfigDict(extra="forbid")

MARGIN = 0.05  # of a claimed number

OnProgress = Callable[[float, float, str], None]  # steps done, of how many, what is under way
Slug = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Entry = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*:[a-z][a-z0-9_]*$")]


class Comparable(StrEnum):
    """Comparability of a claim of the source with a series of ours."""

    SAME = "same"
    RATIO_ONLY = "ratio only"
    NOT = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Paper:
    """A paper the method comes from, builds on or is measured against."""

    arxiv_id: Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")]
    title: str
    role: Literal["source", "ancestor", "baseline", "related"]


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Family:
    """The family of methods that our code stands for: papers about it are about the method.

    ``what`` says what belongs to it, ``near`` what is next to it (such a paper uses it, compares
    with it or mentions it), ``outside`` what has only the words in common. ``phrases`` speak for
    the family and those ``against`` it, each with its weight: blanks and hyphens are alike,
    ``(a|b)`` chooses, ``[may be]``, ``*`` ends a stem, ``~`` stands for up to four words.

    ``required`` is a phrase, written alike, without which no paper is about the family: for the
    pruning of visual tokens something visual. ``threshold`` is the probability from which one is,
    where the family ``needs_answer`` only if a model's answer says so too, since its words mislead.
    """

    what: str
    near: str = ""
    outside: str = ""
    phrases: Mapping[str, float] = field(default_factory=dict)
    against: Mapping[str, float] = field(default_factory=dict)
    required: str = ""
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    needs_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Mechanism:
    """One mechanism of the family: what a paper proposes, and what a variant measures.

    ``phrases`` are its names in papers' words ("Longformer"), ``papers`` the arXiv ids of those
    that propose it. ``measured`` names for each benchmark the variants that are this mechanism,
    the one that speaks for it first. A figure is comparable with a paper's only where both are
    of one mechanism: a family is too wide.
    """

    slug: Slug
    title: str
    phrases: tuple[str, ...] = ()
    papers: tuple[Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")], ...] = ()
    measured: Mapping[Slug, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Reported:
    """A ratio that a paper reports of a mechanism it proposes, as a person read it.

    These are the fields by which a figure of ours is comparable with it: ``value`` times better in
    ``quantity`` at ``stage``, over ``baseline`` (the name of our variant that is the same thing),
    at ``size`` (a length or budget; None where the paper names none). ``setting`` is what else it
    depends on, such as the machine.
    """

    paper: Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")]
    mechanism: Slug
    value: Annotated[float, Field(gt=0)]
    quantity: Quantity
    stage: Stage
    quote: str
    baseline: str = ""
    size: Annotated[float, Field(gt=0)] | None = None
    setting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Measure:
    """Quantity of a series and the stage of the work that it was taken at."""

    quantity: Quantity
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Answer:
    """The point of a series that answers a claim: ``benchmark``, series, variant and x.

    ``quantity`` says which number: the point's estimate in the series' unit, or its ratio to the
    baseline (how many times better), or to the variant ``against`` where that is named. ``x`` None
    means the series' only or largest x.
    """

    benchmark: str
    series: str
    variant: str
    x: float | str | None = None
    quantity: Literal["value", "ratio"] = "value"
    against: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
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


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Claim:
    """A number or statement of the source, as it stands there, and what may be set against it.

    ``value`` is None for a statement without a number; ``upper`` closes a range such as 1.2-2.0.
    ``quote`` is the source's wording, ``section`` where it stands. ``reason`` says why a claim is
    not (or only as a ratio) comparable and what would be needed, ``finding`` what we know of it in
    a sentence, ``decides`` the run that would settle an inconclusive claim or why none can. Where
    no machine needs to measure, ``counted`` gives the exact number, or
    ``ruling`` is the verdict of an argument, and ``argument`` where it is written: a document
    of the method's folder and a heading in it, ``README.md#quality``.
    """

    id: Slug
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
    decides: str = ""
    answer: Answer | None = None
    counted: Callable[[], Count] | None = None
    ruling: Ruling | None = None
    argument: str = ""

    def __post_init__(self) -> None:
        if self.comparable is Comparable.SAME:
            _require(self.answer, f"claim {self.id!r} is comparable: name the series answering it")
        else:
            known = self.reason or self.counted
            _require(known, f"claim {self.id!r} is {self.comparable}: give the reason")
        if self.ruling:
            _require("#" in self.argument, f"claim {self.id!r} is argued: name document#heading")

    @property
    def bound(self) -> float:
        """The measured number from which on the claim holds: its value less its margin.

        The margin of a ratio is 5 % of it, as a figure of two digits is no more exact, and at most
        a quarter of the gain that it claims: 1.425 answers a claim of 1.5, 1.075 one of 1.1. That
        of any other value is 5 %.
        """
        value = float(self.value or 0.0)
        if self.answer is not None and self.answer.quantity == "ratio":
            return value - max(0.0, min(MARGIN * value, (value - 1) / 4))
        return value / (1 - MARGIN) if self.direction == "lower" else value * (1 - MARGIN)

    def holds(self, low: float, high: float) -> bool | None:
        """Return True if an interval shows the claim, False if it refutes it, None if neither.

        A test of equivalence in the direction that matters: it holds if the whole interval reaches
        the bound, it does not if none of it does.
        """
        ratio = self.answer is not None and self.answer.quantity == "ratio"
        if self.direction == "lower" and not ratio:
            low, high, bound = -high, -low, -self.bound
        else:
            bound = self.bound
        return True if low >= bound else False if high < bound else None

    @property
    def counting_file(self) -> str:
        """The file of the method's folder that counts the answer, or none."""
        counts = self.counted.func if isinstance(self.counted, partial) else self.counted
        return f"{counts.__module__.rpartition('.')[2]}.py" if counts else ""


@dataclasses.dataclass(frozen=True, slots=True)
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
        """True if ``measured relation bound`` holds."""
        return bool(_HOLDS[self.relation](self.measured, self.bound))

    @property
    def strain(self) -> float:
        """Distance from the bound: at most 1 when passed, larger when missed; ranks cases."""
        measured, bound = float(self.measured), float(self.bound)
        if self.passed:
            small, large = (measured, bound) if self.relation == "<=" else (bound, measured)
            return 0.0 if self.relation == "==" else min(1.0, small / large) if large > 0 else 1.0
        if math.isnan(measured):
            return math.inf
        return 1.0 + abs(measured - bound) / (abs(bound) or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Check:
    """A row of the method's table of checks.

    ``entry`` names a function ``(device: str) -> Iterable[Case]``, for example ``"checks:oracle"``;
    ``bound`` describes the bound for people.
    """

    name: Slug
    title: str
    bound: str
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Sizes:
    """The lengths or budgets that a quick run of a benchmark can measure in two minutes.

    ``parameter`` is the name of the benchmark's parameter that lists them; a run asked for by a
    paper takes the one of ``quick`` nearest to the paper's own.
    """

    parameter: Slug
    quick: tuple[Annotated[int, Field(ge=1)], ...]


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Question:
    """The question that Run answers on a method's page: the one its source claims to answer.

    The quick run of ``benchmark`` measures ``variant`` in ``series`` beside its baseline and the
    ``control``, over at least five processes or seeds, within two minutes of two quiet cores. The
    first sentence of the run's page is the variant's point at ``x``, or at the largest x.
    ``text`` puts the question to a reader; ``claim`` names the source's claim that it tests.
    """

    text: str
    benchmark: Slug
    series: str
    variant: str
    control: str
    x: float | str | None = None
    claim: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Benchmark:
    """One thing that can be measured.

    ``entry`` names a function ``(ctx: Context, params: P) -> None`` and ``memory``, where given,
    one ``(params: P, device: str) -> int``: the estimated peak in bytes, without allocating.
    ``presets`` are those of :data:`PRESETS`; ``quick`` only where two minutes answer a question.
    ``gpu`` are the sizes of ``full`` on a GPU, where they differ. A benchmark of several mechanisms
    that can measure some of them alone has a parameter ``only``: the variants to measure beside the
    baseline and the controls. ``sizes`` are those that a quick run can choose from.
    ``version`` rises when old and new results stop being comparable. ``measures`` says of each
    series that may stand beside numbers of other papers what it is of; one that it leaves out
    never does. ``controls`` are the variants that leave the mechanism out or choose by chance: a
    figure that one of them reaches, too, says nothing for the mechanism.
    """

    slug: Slug
    title: str
    description: str
    params: type[Params]
    presets: Mapping[str, Params]
    entry: Entry
    memory: Entry | Literal[""] = ""
    version: int = 1
    devices: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")
    measures: Mapping[str, Measure] = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    gpu: Params | None = None
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        named, needed = set(self.presets), set(PRESETS) - {"quick"}
        _require(needed <= named <= set(PRESETS), f"{self.slug}: presets must be {list(PRESETS)}")
        for preset in self.sized_presets().values():
            _require(isinstance(preset, self.params), f"{self.slug}: presets are {self.params}")
        if self.sizes:
            name = self.sizes.parameter
            _require(name in self.params.model_fields, f"{self.slug}: no parameter {name!r}")

    def sized_presets(self) -> dict[str, Params]:
        """Every preset by name, and ``full on a GPU`` where its sizes differ."""
        return dict(self.presets) | ({"full on a GPU": self.gpu} if self.gpu else {})

    def preset(self, name: str, device: str = "cpu") -> Params:
        """The parameters of a preset on a device; raises :class:`UnknownNameError`."""
        if name not in self.presets:
            raise UnknownNameError("preset", name, self.presets)
        if name == "full" and device in ("cuda", "gpu") and self.gpu:
            return self.gpu
        return self.presets[name]

    def resolve(
        self,
        preset: str = "full",
        settings: Mapping[str, Any] | None = None,
        *,
        models: Collection[str] | None = None,
        device: str = "cpu",
    ) -> Any:
        """The parameters of ``preset`` with ``settings`` (texts or values) laid over them.

        ``models`` are the names of models that a request from outside may give; it may set no
        local parameter. None is for the command line, which may set everything.
        Raises :class:`UnknownNameError` for a preset and :class:`ParameterError` for everything
        that pydantic refuses, each problem with its name, bounds and the value given.
        """
        sizes = self.preset(preset, device).model_dump()
        params = resolve(self.params, settings or {}, sizes)
        if models is not None and (refused := list(self._not_public(params, models))):
            raise ParameterError(refused)
        return params

    def _not_public(self, params: Params, models: Collection[str]) -> Iterator[ParameterProblem]:
        """The parameters that only this machine's command line may set to what they are."""
        for info in self.parameters():
            value = getattr(params, info.name)
            presets = [getattr(preset, info.name) for preset in self.sized_presets().values()]
            everyones = not (info.local or info.model) or value in presets
            if everyones or (info.model and value in models):
                continue
            reason = "only the command line may set it"
            if info.model:
                names = ", ".join(models) or "none"
                reason = f"the operator allows these models here: {names} (ASSAY_MODELS)"
            yield ParameterProblem(info.name, shown(value), "", reason)

    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Every parameter as forms and help texts show it."""
        return described(self.params)


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Command:
    """A command over one's own data: ``python -m methods train METHOD``.

    ``entry`` names a function ``(params: P, device: str, on_progress: OnProgress) -> str``, whose
    answer is printed. Its parameters are the command line's alone.
    """

    name: Literal["train", "evaluate", "generate"]
    params: type[Params]
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True, config=_EXACT)
class Method:
    """A method: what it is, where it comes from, what its source claims, what can be measured.

    ``example`` names a function without arguments that uses the method in seconds on a CPU, for
    example ``"example:main"``: its code is read while it runs (``python -m methods read``).
    ``question`` is what Run answers unless a reader or a paper asks for something else;
    ``reported`` are the papers' own numbers that figures of ours may stand beside.
    """

    slug: Slug
    title: str
    description: str
    papers: tuple[Paper, ...] = ()
    family: Family = Family(what="")
    mechanisms: tuple[Mechanism, ...] = ()
    claims: tuple[Claim, ...] = ()
    benchmarks: tuple[Benchmark, ...] = ()
    checks: tuple[Check, ...] = ()
    commands: tuple[Command, ...] = ()
    example: Entry | Literal[""] = ""
    question: Question | None = None
    reported: tuple[Reported, ...] = ()

    def __post_init__(self) -> None:
        for names in (
            [benchmark.slug for benchmark in self.benchmarks],
            [claim.id for claim in self.claims],
            [check.name for check in self.checks],
            [mechanism.slug for mechanism in self.mechanisms],
            [arxiv_id for mechanism in self.mechanisms for arxiv_id in mechanism.papers],
        ):
            _require(len(names) == len(set(names)), f"{self.slug}: a name is used twice in {names}")
        for claim in self.claims:
            if claim.answer:
                self.benchmark(claim.answer.benchmark)
        for mechanism in self.mechanisms:
            for benchmark in mechanism.measured:
                self.benchmark(benchmark)
        slugs = {mechanism.slug for mechanism in self.mechanisms}
        for number in self.reported:
            _require(number.mechanism in slugs, f"{self.slug}: no mechanism {number.mechanism!r}")
        if self.question:
            self._check_question(self.question)

    def _check_question(self, question: Question) -> None:
        """Refuse a question that its quick run cannot answer."""
        benchmark = self.benchmark(question.benchmark)
        place = f"{self.slug}: the question's"
        _require("quick" in benchmark.presets, f"{place} benchmark has no quick preset")
        _require(
            question.control in benchmark.controls,
            f"{place} control {question.control!r} is none of the benchmark's",
        )
        quick = benchmark.presets["quick"]
        repeats: int = getattr(quick, "processes", 0) or getattr(quick, "seeds", 0)
        _require(
            repeats >= MIN_REPEATS,
            f"{place} quick run has {repeats} processes or seeds: {MIN_REPEATS} are needed",
        )
        claims = {claim.id for claim in self.claims}
        _require(question.claim in {"", *claims}, f"{place} claim {question.claim!r} is not there")

    def benchmark(self, slug: str) -> Benchmark:
        """The benchmark called ``slug``; raises :class:`UnknownNameError` with the nearest name."""
        known = {benchmark.slug: benchmark for benchmark in self.benchmarks}
        if slug not in known:
            raise UnknownNameError(f"benchmark of {self.slug}", slug, known)
        return known[slug]

    def proposed_by(self, arxiv_id: str) -> Mechanism | None:
        """The mechanism that the paper with this identifier proposes, or none of these."""
        return next((one for one in self.mechanisms if arxiv_id in one.papers), None)


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def read_method(spec: str) -> Method:
    """The method that ``spec.toml`` declares, beside the module called ``spec``.

    It names code as ``"module:name"``, too: the ``params`` of benchmarks and commands, and what has
    ``counted`` a claim. A preset that is not declared has the models' defaults, and ``gpu`` the
    sizes of ``full`` on a GPU; a check that names no entry is the function of its name in
    ``checks``.
    """

    def named(place: str) -> Any:
        return pkgutil.resolve_name(f"{spec.rpartition('.')[0]}.{place}")

    file = Path(str(sys.modules[spec].__file__))
    declared = tomllib.loads(file.with_name("spec.toml").read_text("utf-8"))
    for one in declared["claims"]:
        one["counted"] = named(one["counted"]) if "counted" in one else None
    declared["checks"] = [
        {"name": name, "entry": f"checks:{name}"} | one for name, one in declared["checks"].items()
    ]
    declared["commands"] = [
        one | {"name": name, "params": named(one["params"])}
        for name, one in declared.get("commands", {}).items()
    ]
    for slug, one in declared["benchmarks"].items():
        model = named(one["params"])
        given = one.get("presets", {})
        gpu = one.pop("gpu", None)
        one["gpu"] = None if gpu is None else model.model_validate(gpu)
        offered = [name for name in PRESETS if name != "quick" or name in given]
        sizes = {name: model.model_validate(given.get(name, {})) for name in offered}
        one |= {"slug": slug, "params": model, "presets": sizes}
    declared["benchmarks"] = list(declared["benchmarks"].values())
    return Method(**declared)
