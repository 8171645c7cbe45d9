"""Testability of a paper here: its method and mechanism, our figure for it, the run to start.

There are three answers. Comparable: a number that the paper reports meets a figure of ours.
Measured: its mechanism is implemented, and our own figure stands apart, with the reason why the two
are not comparable. Neither: it is not implemented here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext

from methods import charts, registry
from methods.spec import Benchmark, Mechanism
from webapp.catalog import mechanisms
from webapp.catalog.comparable import Comparison, ReportedNumber
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.claims.corrections import Kind, corrected, headline_of
from webapp.claims.extraction.quotes import Quote
from webapp.papers.models import Paper
from webapp.runs.models import Device, Run
from webapp.runs.submit import RunRequest
from webapp.runs.texts import in_language, translate_spec
from webapp.summaries.models import Claim


@dataclass(frozen=True)
class Experiment:
    """The run that answers a paper: nearest to its claim in stage and size, with its control."""

    method: str
    benchmark: Benchmark
    mechanism: Mechanism
    preset: str
    settings: dict[str, Any]

    @property
    def request(self) -> RunRequest:
        """The run to queue."""
        device = Device.CPU if "cpu" in self.benchmark.devices else Device.GPU
        return RunRequest.model_validate(
            {
                "method": self.method,
                "benchmark": self.benchmark.slug,
                "preset": self.preset,
                "params": self.settings,
                "device": device.value,
            }
        )


@dataclass(frozen=True)
class PaperMethod:
    """A method that a paper is about, why, and the mechanism of it that the paper proposes."""

    link: MethodLink
    carried: Carried
    claims: Sequence[Claim] | None = None  # what a model read; None: look it up

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The one that a person named, that has the paper's number, or that its words name."""
        method, paper = self.carried.method, self.link.paper
        if self.link.mechanism is not None:
            mechanisms_by_slug = {mechanism.slug: mechanism for mechanism in method.mechanisms}
            return mechanisms_by_slug.get(self.link.mechanism)
        proposed = method.proposed_by(paper.arxiv_id)
        return proposed or mechanisms.named(method, paper.title, paper.abstract)

    @property
    def reported(self) -> str:
        """The name under which the paper's own numbers are looked up."""
        return f"{self.link.method}/{self.mechanism.slug}" if self.mechanism else ""

    @cached_property
    def numbers(self) -> list[ReportedNumber]:
        """The ratios that the paper reports of its mechanism: a person's reading goes first."""
        paper, mechanism = self.link.paper, self.mechanism
        if mechanism is None:
            return []
        by_person = [
            number
            for number in self.carried.method.reported
            if (number.paper, number.mechanism) == (paper.arxiv_id, mechanism.slug)
        ]
        read = self.claims
        if read is None:
            latest = Claim.objects.filter(summary__paper=paper, summary__version=paper.version)
            hidden = corrected(paper, Kind.CLAIM)
            read = [
                claim
                for claim in latest.order_by("summary_id", "position")
                if claim.key not in hidden
            ]
        by_model = [claim for claim in read if claim.verified]
        numbers = [ReportedNumber(claim, self.reported) for claim in by_person]
        numbers += [ReportedNumber(claim, self.reported) for claim in by_model]
        return [number for number in numbers if number.scope.relation == "ratio"]

    @cached_property
    def figures(self) -> list[Comparison]:
        """Everything that was measured of the mechanism, in quick runs too."""
        if self.mechanism is None:
            return []
        return [
            figure
            for figure in self.carried.figures_of(self.mechanism)
            if figure.word != "insufficient data"
        ]

    @cached_property
    def comparable(self) -> tuple[ReportedNumber, Comparison] | None:
        """The first number of the paper that a figure of ours may stand beside, and that figure."""
        for number in self.numbers:
            if figures := number.matches(self.figures):
                return number, max(figures, key=self._nearness)
        return None

    @cached_property
    def number(self) -> ReportedNumber | None:
        """The paper's number that a run answers: one whose quantity and stage are known."""
        scoped = (n for n in self.numbers if n.scope.quantity and n.scope.stage)
        return next(scoped, next(iter(self.numbers), None))

    @property
    def quote(self) -> Quote | None:
        """The first clause of the abstract with a number, where no number's fields are known."""
        return headline_of(self.link.paper) if self.number is None else None

    @cached_property
    def figure(self) -> Comparison | None:
        """Our figure of the mechanism that is nearest to the paper's number."""
        if self.comparable:
            return self.comparable[1]
        return max(self.figures, key=self._nearness, default=None)

    def _nearness(self, figure: Comparison) -> tuple[Any, ...]:
        """Asked for by this paper, of its stage and quantity, without doubt, of its size, full."""
        number, run = self.number, figure.measurement.run
        size = min(number.sizes, default=0.0) if number else 0.0
        x = figure.point.x
        apart = abs(math.log(x / size)) if size and isinstance(x, float) and x > 0 else 0.0
        benchmarks = list(self.mechanism.measured) if self.mechanism else []
        return (
            run.paper_id == self.link.paper_id,
            number is not None and number.scope.stage == figure.scope.stage,
            number is not None and number.scope.quantity == figure.scope.quantity,
            -benchmarks.index(run.benchmark) if run.benchmark in benchmarks else -len(benchmarks),
            figure.measurement.row.headline,
            not figure.doubts,
            -apart,
            not figure.measurement.row.quick,
            figure.measurement.row.measured_at,
            x if isinstance(x, float) else 0.0,
        )

    @property
    def chart(self) -> str:
        """The figure beside its baseline and controls, at its own length or budget."""
        figure = self.figure
        if figure is None:
            return ""
        series = in_language(figure.measurement.series)
        benchmark = self.carried.method.benchmark(figure.measurement.run.benchmark)
        shown = {figure.point.variant, series.baseline, *benchmark.controls}
        points = [p for p in series.points if p.x == figure.point.x and p.variant in shown]
        small = series.model_copy(
            update={
                "points": tuple(points),
                "variants": tuple(v for v in series.variants if v.name in shown),
                "limits": (),
            }
        )
        return charts.draw(
            small, "ratio", standalone=False, ident=f"paper-{series.name}", say=translate_spec
        )

    @property
    def difference(self) -> str:
        """Short reason why the paper's number and our figure are not comparable."""
        number, figure = self.number, self.figure
        if figure is None:
            return ""
        run = figure.measurement.run
        ours = [run.get_device_display(), gettext(figure.scope.stage), figure.shown_regime]
        theirs = [number.hardware, gettext(number.scope.stage), number.size_text] if number else []
        if not any(theirs):
            return gettext("the paper’s stage and length are unknown")
        descriptions = {name: " ".join(filter(None, parts)) for name, parts in
                 (("theirs", theirs), ("ours", ours))}  # fmt: skip
        return gettext("%(theirs)s; here %(ours)s") % descriptions

    @cached_property
    def experiment(self) -> Experiment | None:
        """The run that the paper's page starts; None if no benchmark measures the mechanism."""
        mechanism, number = self.mechanism, self.number
        if mechanism is None or not mechanism.measured:
            return None
        method = self.carried.method
        stage = number.scope.stage if number else ""

        def fit(slug: str) -> tuple[bool, bool]:
            benchmark = method.benchmark(slug)
            stages = {measure.stage for measure in benchmark.measures.values()}
            return stage in stages, "quick" in benchmark.presets

        slug = max(mechanism.measured, key=fit)
        benchmark = method.benchmark(slug)
        preset = "quick" if "quick" in benchmark.presets else "full"
        settings: dict[str, Any] = {}
        variant, fields = mechanism.measured[slug][0], benchmark.params.model_fields
        if "only" in fields:
            settings["only"] = [variant]
        elif variant in fields:  # a part of the benchmark that a preset may leave out
            settings[variant] = True
        size = min(number.sizes, default=0.0) if number else 0.0
        if preset == "quick" and benchmark.sizes and size:
            nearest = min(benchmark.sizes.quick, key=lambda quick: abs(math.log(quick / size)))
            settings[benchmark.sizes.parameter] = [nearest]
        return Experiment(method.slug, benchmark, mechanism, preset, settings)


def methods_of(paper: Paper, claims: Sequence[Claim] | None = None) -> list[PaperMethod]:
    """The methods a paper is about, each with why and with what was measured."""
    slugs = registry.slugs()
    links = MethodLink.objects.filter(MethodLink.counting(), paper=paper).select_related("paper")
    methods = [
        PaperMethod(link, Carried(registry.get(link.method)), claims)
        for link in links.order_by("-score", "method")
        if link.method in slugs
    ]
    return sorted(methods, key=lambda method: (method.comparable is None, method.mechanism is None))


def asked_by(run: Run) -> PaperMethod | None:
    """The paper that asked for a run, with its method and mechanism."""
    if run.paper_id is None:
        return None
    links = MethodLink.objects.filter(paper=run.paper_id, method=run.method)
    link = links.select_related("paper").first()
    return PaperMethod(link, Carried(registry.get(run.method))) if link else None


def beside(
    claims: Sequence[Claim], methods: Sequence[PaperMethod]
) -> list[tuple[Claim, Comparison | None]]:
    """Each number that a paper reports, with the figure of ours that may stand beside it."""
    proposing = [method for method in methods if method.mechanism]
    measured = [figure for method in proposing for figure in method.figures]
    answers: list[tuple[Claim, Comparison | None]] = []
    for claim in claims:
        names = [method.reported for method in proposing] if claim.verified else []
        ours = (ReportedNumber(claim, name).beside(measured) for name in names)
        answers.append((claim, next(filter(None, ours), None)))
    return answers
