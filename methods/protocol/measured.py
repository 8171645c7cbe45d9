"""Measurements and their machine: points, series, environment."""

import math
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import Count, Label, Measured, Name, Sentence, Strict, Where


class Flag(StrEnum):
    """Why a number deserves less trust."""

    VARIATION = "variation"  # blocks of one variant differ by more than a tenth
    DRIFT = "drift"  # the second half differs from the first
    THROTTLED = "throttled"  # the clock fell, or the device reports throttling
    SHARED = "shared"  # other processes kept the device busy
    BUSY = "busy machine"  # others used more than a tenth of its processors meanwhile
    STOLEN = "stolen time"  # the hypervisor gave more than a hundredth of the time to others
    UNSTEADY = "unsteady warm-up"  # a variant never ran five times alike before it was measured
    ONE_PROCESS = "one process"  # what another process would measure is not known
    FEW = "insufficient data"  # fewer processes or seeds than an interval needs


Verdict = Literal["faster", "slower", "better", "worse", "no difference shown", "insufficient data"]


class Ratio(Strict):
    """Ratio to the baseline (above 1 is better), with its 95 % interval."""

    value: Annotated[float, Field(gt=0)]
    low: Annotated[float, Field(gt=0)]
    high: Annotated[float, Field(gt=0)]
    verdict: Verdict
    runs: tuple[Annotated[float, Field(gt=0)], ...] = ()  # of each process or seed

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("an interval runs from low to high")
        return self


class Point(Strict):
    """One variant at one x: the estimate with its interval, all samples and their quartiles.

    ``value`` is the estimate that ``low`` and ``high`` bound: the geometric mean over processes or
    the mean over seeds, whose own values are ``runs``. Results of earlier versions have none: their
    estimate is the samples' median.
    """

    variant: Name
    x: Where
    samples: Annotated[tuple[Measured, ...], Field(min_length=1, max_length=5_000)]
    median: float
    q1: float
    q3: float
    low: float
    high: float
    ratio: Ratio | None = None
    flags: tuple[Flag, ...] = ()
    value: float | None = None
    runs: Annotated[tuple[float, ...], Field(max_length=200)] = ()
    of: Literal["", "processes", "seeds"] = ""  # what the runs are; "" where it is counted

    @property
    def estimate(self) -> float:
        """The one number that stands for the point, wherever one is shown."""
        return self.median if self.value is None else self.value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not (self.q1 <= self.median <= self.q3 and self.low <= self.high):
            raise ValueError("quartiles and interval run from low to high")
        return self


class Axis(Strict):
    """Quantity of an axis. ``category`` axes hold words, the others numbers."""

    label: Label
    unit: Label = ""
    scale: Literal["linear", "log", "category"] = "linear"
    least: float | None = None  # what the quantity can be: 0 of a share, 100 of a percentage
    most: float | None = None

    @property
    def title(self) -> str:
        """The label with its unit, where the unit adds anything."""
        return f"{self.label} ({self.unit})" if self.unit not in ("", self.label) else self.label

    def at(self, x: float | str) -> str:
        """A place on the axis in words: "4096 tokens", "1 row", or "share kept = 0.2"."""
        if isinstance(x, str):
            return x
        plural = len(self.unit) > 2 and self.unit.endswith("s")  # not "s" and "ms"
        unit = self.unit[:-1] if x == 1 and plural else self.unit
        return f"{x:g} {unit}" if unit else f"{self.label} = {x:g}"


class Variant(Strict):
    """One thing compared: its name in the points, its label for people, whether it is ours."""

    name: Name
    label: Label
    ours: bool = False


class Limit(Strict):
    """A bound drawn as a dashed line: in the series' unit, or as a ratio to the baseline.

    A count of operations bounds a ratio of times at one rate of operations. Ours may run at a
    higher rate than the baseline: ``at`` names the variant that does the baseline's work at that
    rate, and where it is faster than the baseline the bound lies as much higher. ``variant`` names
    the one that it bounds, if not all.
    """

    label: Label
    points: Annotated[tuple[tuple[Where, Measured], ...], Field(min_length=1, max_length=500)]
    of: Literal["value", "ratio"] = "value"
    at: Name | None = None
    variant: Name | None = None


class Series(Strict):
    """One quantity, measured for several variants over x; the same for page, file and chart."""

    name: Name
    title: Label
    x: Axis
    y: Axis
    direction: Literal["lower", "higher"]
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=40)]
    points: Annotated[tuple[Point, ...], Field(max_length=2_000)] = ()
    baseline: Name | None = None
    limits: Annotated[tuple[Limit, ...], Field(max_length=10)] = ()
    caption: Sentence = ""
    partial: bool = False
    estimator: Label = ""  # how values and intervals were found, for people

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = {variant.name for variant in self.variants}
        if len(names) < len(self.variants):
            raise ValueError("two variants have one name")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(f"the baseline {self.baseline!r} is not a variant")
        for limit in self.limits:
            if not {limit.at, limit.variant} <= names | {None}:
                raise ValueError(f"the limit {limit.label!r} names what is not a variant")
        kind = str if self.x.scale == "category" else float
        places = set()
        for point in self.points:
            if point.variant not in names:
                raise ValueError(f"{point.variant!r} is not a variant")
            if not isinstance(point.x, kind):
                raise ValueError(f"x {point.x!r} does not fit a {self.x.scale} axis")
            if self.x.scale == "log" and float(point.x) <= 0:
                raise ValueError("a log axis holds positive numbers")
            places.add((point.variant, point.x))
        if len(places) < len(self.points):
            raise ValueError("a variant has two points at one x")
        return self

    @property
    def rows(self) -> list[tuple[Point, Variant]]:
        """The points with what they were measured for, in their order."""
        variants = {variant.name: variant for variant in self.variants}
        return [(point, variants[point.variant]) for point in self.points]

    @property
    def compared_with(self) -> str:
        """The label of the baseline that points are compared with; "" where none is."""
        labels = {variant.name: variant.label for variant in self.variants}
        compared = any(point.ratio for point in self.points)
        return labels[self.baseline] if self.baseline is not None and compared else ""

    def point_of(self, variant: str, x: float | str | None) -> Point | None:
        """Return a variant's point at x; without an x the one at its largest, or its only one."""
        points = [p for p in self.points if p.variant == variant and x in (None, p.x)]
        if self.x.scale == "category":
            return points[-1] if points else None
        return max(points, key=lambda point: float(point.x), default=None)

    def heights(self, limit: Limit) -> dict[float | str, float]:
        """Return the limit at each x, at the rate of the variant that it names."""
        rates = {p.x: p.ratio.value for p in self.points if p.variant == limit.at and p.ratio}
        return {x: y * max(1.0, rates.get(x, 1.0)) for x, y in limit.points}

    def most(self, point: Point) -> float:
        """The largest ratio that any limit allows where this point stands."""
        own = [one for one in self.limits if one.variant in (None, point.variant)]
        heights = [self.heights(one).get(point.x, 0) for one in own if one.of == "ratio"]
        return max(heights, default=0) or math.inf


class MachineState(Strict):
    """State that changes while measuring: clocks, temperatures, load. None: cannot be read."""

    cpu_mhz: float | None = None
    load: float | None = None
    cpu_elsewhere: float | None = None  # share of our processors' time that others used meanwhile
    cpu_stolen: float | None = None  # share that the hypervisor gave to other machines
    cpu_throttled_s: float | None = None  # seconds that a quota held us back
    gpu_mhz: float | None = None
    gpu_memory_mhz: float | None = None
    gpu_celsius: float | None = None
    gpu_watts: float | None = None
    gpu_throttled: bool | None = None
    gpu_other_processes: Count | None = None


class Gpu(Strict):
    """The GPU measured on."""

    name: Label
    memory_bytes: Count
    driver: Label = ""
    power_limit_watts: float | None = None
    capability: Label = ""
    l2_bytes: Count | None = None


class Environment(Strict):
    """The machine and the software a number belongs to. Empty or None: could not be found out."""

    # The class results are compared within: "NVIDIA H200", "AMD EPYC 9B14, 2 cores".
    hardware: Label
    processor: Label
    cores: Count
    threads: Count
    memory_bytes: Count
    gpu: Gpu | None = None
    platform: Label
    versions: dict[Annotated[str, Field(max_length=64)], Label]
    commit: Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")] = ""
    dirty: bool | None = None
    lock_sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    before: MachineState = MachineState()
