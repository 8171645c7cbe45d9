"""Comparability: the figure of ours that may stand beside a number that a paper reports.

A figure is a ratio to a baseline of the same run, for one mechanism, quantity and stage. It stands
beside a number only if the number is a ratio too, and if all of these are known on both sides and
equal, at the length or size that the paper names. Levels are never compared, because the paper's
machine, model and data are not ours. Pages, chips, feeds, mail and the API all use this module.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext, gettext_noop

from assay_common.quantities import number
from methods import registry
from methods.protocol import Point
from methods.spec import Reported
from webapp.catalog.measured import Measurement, doubts_of
from webapp.runs.intervals import unbeaten, unmeasured
from webapp.runs.queries import benchmark_named
from webapp.runs.texts import hardware_name, translate_spec
from webapp.summaries.models import Claim
from webapp.ui.language import current_language

RATIO_UNITS = frozenset({"×", "x", "times", "fold", "-fold"})
_TIMED = re.compile(r"time an? ([a-z]+)")
_SIZES = {"better": gettext_noop("smaller"), "worse": gettext_noop("larger")}
NEAR, AFTER = 80, 30  # characters before and after a number that say what it is of
_QUANTITIES = {
    "operations": r"flops?\b|operations?\b|\bmacs?\b",
    "cache": r"\b(?:kv|key[ -]value)\b|\bcaches?\b",
    "memory": r"memory|footprint",
    "time": r"speed|fast|latenc|throughput|\btime\b|acceler|runtime|tokens/s|quick",
}
# The stage of the work that words beside a number name.
_STAGES = {
    "kernel": r"\bkernels?\b",
    "layer": r"\blayers?\b",
    "prefill": "prefill",
    "first token": r"first[ -]token|\bttft\b",
    "decode": "decod|generation",
    "training": r"\btrain|backward|fine-?tun",
    "end to end": r"end[ -]to[ -]end|wall[ -]?clock",
}
# Baselines that attend to everything, as methods and papers call them.
_DENSE = re.compile(
    r"\b(?:full|dense|standard|vanilla|exact|softmax)(?: self)?[ -]attention\b|\bdense causal\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?<![\d.])(\d+(?:,\d{3})*)([km])?(?![\d.]*\d|[a-z%×])", re.IGNORECASE)


@dataclass(frozen=True)
class Scope:
    """Scope of a number; an unknown part is ""."""

    mechanism: str  # of a method: "sparse_attention/longformer"
    quantity: str
    relation: str  # ratio, gain or level
    stage: str

    def meets(self, other: "Scope") -> bool:
        """True if every part is known and the same for both numbers."""
        is_complete = all((self.mechanism, self.quantity, self.relation, self.stage))
        return is_complete and self == other


@dataclass(frozen=True)
class Comparison:
    """A measured ratio to a baseline, with the conditions that it holds under."""

    scope: Scope
    comparator: str  # the baseline's label
    measurement: Measurement
    point: Point
    ratio: float
    low: float
    high: float
    word: str  # faster, slower, better, worse or "no difference shown"

    @property
    def regime(self) -> str:
        """The length or size it holds at: "4096 tokens"."""
        return self.measurement.series.x.at(self.point.x)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Doubts about the ratio."""
        return doubts_of(self.measurement.series, self.point)

    @property
    def is_above_controls(self) -> bool:
        """True if it beats every control of its chart, and none was left unmeasured.

        A gain that chance reaches as well says nothing about a method, and an unmeasured control
        leaves that open.
        """
        series, row = self.measurement.series, self.measurement.row
        benchmark = benchmark_named(row.method, row.benchmark)  # an old one may be gone
        return not any(ask(series, self.point, benchmark) for ask in (unbeaten, unmeasured))

    @property
    def quantity(self) -> str:
        """Description of the quantity, from its series."""
        label = translate_spec(self.measurement.series.y.label)
        return label[:1].lower() + label[1:]

    @property
    def gain(self) -> str:
        """Direction and quantity: "faster per call", "smaller", "better in right answers"."""
        label = self.measurement.series.y.label.lower()
        if label == "size" and self.word in _SIZES:
            return gettext(_SIZES[self.word])
        if current_language() == "en" and (timed := _TIMED.fullmatch(label)):
            return f"{self.word} per {timed[1]}"
        values = {"word": gettext(self.word), "quantity": self.quantity}
        return gettext("%(word)s in %(quantity)s") % values

    @property
    def shown_regime(self) -> str:
        """The regime in the language of the page."""
        return self.measurement.shown.x.at(self.point.x)

    @property
    def hardware(self) -> str:
        """Hardware that the figure holds for."""
        of = self.measurement
        return "the same on any machine" if of.counted else of.row.hardware

    @property
    def factor(self) -> float:
        """The ratio beside its word: 2 of "2× slower", whose ratio is 0.5."""
        return 1 / self.ratio if self._is_loss else self.ratio

    @property
    def interval(self) -> str:
        """The 95 % interval of the factor; a count is exact."""
        if self.low == self.high:
            return "exact"
        if not self._is_loss:
            return f"{number(self.low, 3)}–{number(self.high, 3)}"
        most = number(1 / self.low, 3) if self.low > 0 else "∞"
        return f"{number(1 / self.high, 3)}–{most}"

    @property
    def _is_loss(self) -> bool:
        return self.word in {"slower", "worse"} and self.ratio > 0

    @property
    def text(self) -> str:
        """Text of a chip: "3.5× faster per call (3.3–3.7) than dense at 4096 tokens, …"."""
        if self.word == "no difference shown":
            text = gettext(
                "%(quantity)s %(ratio)s (%(interval)s), no difference from %(comparator)s shown "
                "at %(x)s, %(hardware)s"
            )
        else:
            text = gettext(
                "%(ratio)s %(gain)s (%(interval)s) than %(comparator)s at %(x)s, %(hardware)s"
            )
        return text % {
            "ratio": f"{number(self.factor, 3)}×",
            "gain": self.gain,
            "quantity": self.quantity,
            "interval": gettext(self.interval),
            "comparator": translate_spec(self.comparator),
            "x": self.shown_regime,
            "hardware": hardware_name(self.hardware),
        }


def comparisons(measurement: Measurement) -> Iterator[Comparison]:
    """Yield every ratio of a measurement, each with its mechanism and any doubts about it."""
    series, row = measurement.series, measurement.row
    method = registry.get(row.method)
    benchmark = benchmark_named(row.method, row.benchmark)  # an old one may be gone
    measure = benchmark.measures.get(row.name) if benchmark else None
    mechanisms = {
        variant: f"{method.slug}/{mechanism.slug}"
        for mechanism in method.mechanisms
        for variant in mechanism.measured.get(row.benchmark, ())
    }
    against = series.compared_with
    for point in series.points:
        if ratio := point.ratio:
            scope = Scope(
                mechanisms.get(point.variant, ""),
                measure.quantity if measure else "",
                "ratio",
                measure.stage if measure else "",
            )
            figures = ratio.value, ratio.low, ratio.high, ratio.verdict
            yield Comparison(scope, against, measurement, point, *figures)


def best(figures: Iterable[Comparison]) -> Comparison | None:
    """Return the largest ratio shown to be better and not in doubt, for its own method's page.

    It must also beat each control of its chart. Time comes first (before a cache's bytes), exact
    counts before learned quantities (a share of right answers), and the quantity that a benchmark
    is about before others that it measures.
    """
    better = (comparison for comparison in figures if comparison.word in {"faster", "better"})
    by_weight = sorted(better, key=_weight)
    return next(
        (
            comparison
            for comparison in reversed(by_weight)
            if not comparison.doubts and comparison.is_above_controls
        ),
        None,
    )


def _weight(comparison: Comparison) -> tuple[bool, bool, bool, float]:
    of = comparison.measurement
    return comparison.word == "faster", of.counted, of.row.headline, comparison.ratio


def is_ours(comparison: Comparison) -> bool:
    """True if the figure belongs to the first variant that its series marks as ours."""
    ours = (variant.name for variant in comparison.measurement.series.variants if variant.ours)
    return comparison.point.variant == next(ours, None)


@dataclass(frozen=True)
class ReportedNumber:
    """A number that a person or a model read in a paper, for the mechanism it proposes."""

    claim: Claim | Reported
    mechanism: str

    @property
    def text(self) -> str:
        """The number as it is shown: `2.1×`."""
        claim = self.claim
        return f"{number(float(claim.value), 3) if isinstance(claim, Reported) else claim.value}×"

    @property
    def hardware(self) -> str:
        """The machine, or what else a person found that it depends on."""
        return self.claim.setting if isinstance(self.claim, Reported) else self.claim.hardware

    @property
    def size_text(self) -> str:
        """Largest length that it holds at: `96K`."""
        size = int(max(self.sizes, default=0))
        return f"{size // 1024}K" if size and size % 1024 == 0 else str(size or "")

    @cached_property
    def _context(self) -> str:
        """Words of the quote around the number."""
        value = re.escape(str(self.claim.value).split(" ")[0].split("-")[0])
        match = re.search(rf"(?<![\d.]){value}(?![\d.]*\d)", self.claim.quote)
        if match is None:
            return ""
        return self.claim.quote[max(0, match.start() - NEAR) : match.end() + AFTER]

    @property
    def scope(self) -> Scope:
        """Scope of the claim, as far as its text states it."""
        claim = self.claim
        if isinstance(claim, Reported):
            return Scope(self.mechanism, claim.quantity, "ratio", claim.stage)
        quantity = _single_kind(_QUANTITIES, claim.metric) or _single_kind(
            _QUANTITIES, self._context
        )
        stage = _single_kind(_STAGES, f"{claim.metric} {self._context}")
        relation = "ratio" if claim.unit in RATIO_UNITS else ""
        # A cache of keys is what decoding reads.
        return Scope(
            self.mechanism, quantity, relation, stage or ("decode" if quantity == "cache" else "")
        )

    @property
    def sizes(self) -> set[float]:
        """Lengths and sizes that it holds at."""
        if isinstance(self.claim, Reported):
            return {self.claim.size} if self.claim.size else set()
        scale = {"": 1, "k": 1024, "m": 1024 * 1024}
        written = _SIZE.findall(f"{self.claim.setting} {self._context}")
        return {float(n.replace(",", "")) * scale[unit.lower()] for n, unit in written}

    def _is_against(self, comparison: Comparison) -> bool:
        """True if it names no baseline, or the baseline of a comparison."""
        if isinstance(self.claim, Reported):
            return self.claim.baseline in {"", comparison.measurement.series.baseline}
        named, label = self.claim.baseline, comparison.comparator
        is_same = named.casefold() == label.casefold()
        return not named or is_same or bool(_DENSE.search(named) and _DENSE.search(label))

    def matches(self, measured: Iterable[Comparison]) -> list[Comparison]:
        """Return the comparisons that may stand beside it: same scope, at the size it names.

        The largest over all sizes is never used: if no size is named, only series with one size
        qualify.
        """
        same = [
            comparison
            for comparison in measured
            if comparison.scope.meets(self.scope) and self._is_against(comparison)
        ]
        if len({comparison.regime for comparison in same}) > 1:
            same = [comparison for comparison in same if comparison.point.x in self.sizes]
        return same

    def beside(self, measured: Iterable[Comparison]) -> Comparison | None:
        """Return the first of the comparisons that may stand beside it, or None."""
        return next(iter(self.matches(measured)), None)


def _single_kind(kinds: dict[str, str], text: str) -> str:
    """Return the only kind that a text names, or "" if it names none or several.

    A cache takes up memory, so a text that names both refers to the cache.
    """
    named = [name for name, pattern in kinds.items() if re.search(pattern, text, re.IGNORECASE)]
    if named == ["cache", "memory"]:
        return "cache"
    return named[0] if len(named) == 1 else ""
