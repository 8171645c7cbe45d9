"""A figure of ours beside a paper's number: of the same thing, with all its fields, or none."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from assay_common.quantities import number
from methods import registry
from methods.protocol import Flag, Point
from methods.spec import Reported
from tests import factories
from webapp.catalog import chips, linking
from webapp.catalog.comparable import Comparison, ReportedNumber, Scope, best
from webapp.catalog.queries import Carried
from webapp.digests.models import Chips
from webapp.papers.models import Paper
from webapp.papers.search import search
from webapp.runs.models import StandingMeasurement
from webapp.summaries.models import Claim

pytestmark = pytest.mark.django_db
RESULTS = "benchmarks/results/sparse_attention/latency.jsonl"
LONGFORMER = "2004.05150"
# Every "Ours" of seven real days: numbers of other mechanisms, quantities and stages.
RELATED = (
    "We study block sparse attention for long contexts. Our sparse attention kernel reaches a "
    "3.1x speedup over dense attention at 4096 tokens. Decoding throughput rises 2.4x at 96K "
    "tokens, and the KV cache is 64x smaller. It lifts accuracy by 4.2 points on LongBench."
)
OWN = (
    "We propose Longformer, an attention whose kernel reaches a 3.1x speedup over dense attention "
    "at 4096 tokens. Decoding is 2.4x faster at 4096 tokens. Our kernel needs 5.5x less memory at "
    "4096 tokens. Accuracy rises by 4.2 points."
)
FIGURE = re.compile(r"\d[\d.,]*\s*×")


@pytest.fixture
def related() -> Paper:
    call_command("import_results", RESULTS, stdout=StringIO())
    made = factories.make_paper(
        1, title="Block sparse attention, faster", abstract=RELATED, announced_on=factories.DAY
    )
    return shown(made)


@pytest.fixture
def own() -> Paper:
    call_command("import_results", RESULTS, stdout=StringIO())
    made = factories.make_paper(
        2, arxiv_id=LONGFORMER, title="Longformer", abstract=OWN, announced_on=factories.DAY
    )
    return shown(made)


def shown(paper: Paper) -> Paper:
    """The paper in the digest of a day, linked, with its chips."""
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile(), [paper])
    linking.link(Paper.objects.all())
    chips.refresh()
    return paper


def words(client: Client, address: str) -> str:
    """The text of a page's main part, without tags."""
    body = client.get(address).content.decode()
    main = body[body.index("<main") : body.index("</main>")] if "<main" in body else body
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


def claim(sentence: str, value: str = "3.1", unit: str = "×", **fields: str) -> Claim:
    """A claim as a model extracts it from a sentence."""
    return Claim(quote=sentence, value=value, unit=unit, state=Claim.State.UNIT, **fields)


def test_no_figure_stands_beside_the_numbers_of_another_mechanism(
    client: Client, related: Paper
) -> None:
    page = words(client, f"/papers/{related.arxiv_id}/")
    assert "Not implemented here" in page
    figures = Carried(registry.get("sparse_attention")).comparisons
    ours = {f"{figure.factor:.3g}×" for figure in figures}
    for address in (f"/papers/{related.arxiv_id}/", "/digest/2026-03-12/", "/digest.json"):
        text = words(client, address)
        assert not {found.replace(" ", "") for found in FIGURE.findall(text)} & ours, address
        assert "EPYC" not in text, address
    assert [one.arxiv_id for one in search("has:measured").papers] == []


def test_the_own_mechanism_stands_with_all_its_fields(client: Client, own: Paper) -> None:
    summary = factories.summarise(own)
    for position, read in enumerate(
        (
            claim(OWN, metric="kernel latency", setting="4096 tokens"),
            claim("Decoding is 2.4x faster at 4096 tokens.", "2.4", metric="decoding latency"),
            claim("Our kernel needs 5.5x less memory at 4096 tokens.", "5.5", metric="memory"),
        )
    ):
        read.summary, read.position = summary, position
        read.save()
    page = words(client, f"/papers/{own.arxiv_id}/")
    beside = page[page.index("Measured here, the same mechanism") :]
    (point,) = [
        one
        for one in Carried(registry.get("sparse_attention")).comparisons
        if one.scope.mechanism == "sparse_attention/longformer"
        and one.regime == "4096 tokens"
        and one.scope.stage == "kernel"
    ]
    for field in (
        f"{point.word} per call",
        f"({point.interval})",
        "than Dense causal (SDPA)",
        "at 4096 tokens",
        "AMD EPYC, 2 cores",
        *point.doubts,
    ):
        assert field in beside[:600], field
    assert page.count("Measured here, the same mechanism") == 1, (
        "decoding and memory were not measured of it"
    )
    assert [one.arxiv_id for one in search("has:measured").papers] == [LONGFORMER]
    StandingMeasurement.objects.all().delete()
    page = words(client, f"/papers/{own.arxiv_id}/")
    assert "Measured here, the same mechanism" not in page
    assert "Not measured here yet." in page


def test_a_loss_is_a_factor_above_one() -> None:
    """As 0.4× slower it would read as a small one."""
    call_command("import_results", RESULTS, stdout=StringIO())
    figures = Carried(registry.get("sparse_attention")).comparisons
    slower = [figure for figure in figures if figure.word == "slower"]
    assert slower
    for figure in slower:
        text = f"{number(1 / figure.ratio, 3)}× slower"
        interval = f"({number(1 / figure.high, 3)}–{number(1 / figure.low, 3)})"
        assert figure.text.startswith(text)
        assert interval in figure.text


@pytest.mark.parametrize(
    ("word", "measured", "factor", "interval"),
    [
        ("faster", (4.0, 3.0, 5.0), 4.0, "3–5"),
        ("slower", (0.25, 0.2, 0.5), 4.0, "2–5"),
        ("worse", (0.5, 0.0, 0.8), 2.0, "1.25–∞"),
        ("better", (64.0, 64.0, 64.0), 64.0, "exact"),
        ("worse", (0.0, 0.0, 0.0), 0.0, "exact"),
    ],
)
def test_factor_and_interval_of_a_ratio(
    word: str, measured: tuple[float, float, float], factor: float, interval: str
) -> None:
    unread: Any = None  # the series and its point
    figure = Comparison(Scope("", "", "", ""), "dense", unread, unread, *measured, word)
    assert (figure.factor, figure.interval) == (factor, interval)


def test_a_number_holds_for_the_machine_that_a_model_or_a_person_read() -> None:
    read = Claim(value="3.1", unit="×", hardware="H100", setting="4096 tokens")
    assert ReportedNumber(read, "m/x").hardware == "H100"
    by_hand = Reported(
        paper="2603.00001", mechanism="x", value=3.1, quantity="time", stage="kernel",
        quote="3.1x", size=4096, setting="an A100",
    )  # fmt: skip
    number_of_person = ReportedNumber(by_hand, "m/x")
    assert (number_of_person.hardware, number_of_person.sizes) == ("an A100", {4096})
    assert number_of_person.size_text == "4K"
    assert ReportedNumber(replace(by_hand, size=1000), "m/x").size_text == "1000"


@pytest.mark.parametrize(
    ("sentence", "fields", "stands"),
    [
        ("The kernel is 3.1x faster at 4096 tokens.", {}, True),
        ("The kernel is 3.1x faster at 4,096 tokens.", {}, True),
        ("The kernel is 3.1x faster.", {"setting": "4K tokens"}, True),
        ("The kernel is 3.1x faster at 96K tokens.", {}, False),
        ("The kernel is 3.1x faster at 4096 tokens.", {"baseline": "full attention"}, True),
        ("The kernel is 3.1x faster at 4096 tokens.", {"baseline": "dense self-attention"}, True),
        ("The kernel is 3.1x faster at 4096 tokens.", {"baseline": "FlashAttention-2"}, False),
        ("The kernel and 3.1x, at 4096 tokens.", {}, False),  # of what?
        ("The kernel is 3.1x faster.", {}, False),  # which of five lengths?
        ("It is 3.1x faster at 4096 tokens.", {}, False),  # which stage?
        ("Decoding is 3.1x faster at 4096 tokens.", {}, False),
        ("The decoding kernel is 3.1x faster at 4096 tokens.", {}, False),
        ("The kernel takes 3.1 ms at 4096 tokens.", {"unit": "ms"}, False),
        ("The kernel is 3.1% faster at 4096 tokens.", {"unit": "%"}, False),
        ("The kernel needs 3.1x less memory at 4096 tokens.", {"metric": "memory"}, False),
        ("The kernel needs 3.1x fewer FLOPs at 4096 tokens.", {"metric": "FLOPs"}, False),
    ],
)
def test_mechanism_quantity_relation_stage_and_size_are_known_and_equal(
    own: Paper, sentence: str, fields: dict[str, str], stands: bool
) -> None:
    carried = Carried(registry.get("sparse_attention"))
    number = ReportedNumber(claim(sentence, **fields), "sparse_attention/longformer")
    figure = number.beside(carried.comparisons)
    assert (figure is not None) == stands
    if figure:
        assert figure.regime == "4096 tokens"
        assert figure.scope.mechanism == "sparse_attention/longformer"


def test_the_same_words_of_a_paper_on_something_else_meet_nothing(own: Paper) -> None:
    carried = Carried(registry.get("sparse_attention"))
    read = claim("The kernel is 3.1x faster at 4096 tokens.")
    for mechanism in ("", "sparse_attention", "sparse_attention/moba"):
        assert ReportedNumber(read, mechanism).beside(carried.comparisons) is None


def test_no_figure_stands_beside_an_abstract_that_no_model_read(client: Client, own: Paper) -> None:
    assert "Measured here, the same mechanism" not in words(client, f"/papers/{own.arxiv_id}/")


def test_a_chip_names_quantity_baseline_and_interval_or_shows_no_figure(
    client: Client, related: Paper
) -> None:
    own = factories.make_paper(2, arxiv_id=LONGFORMER, title="Longformer", abstract=OWN)
    factories.make_digest(factories.make_profile("two"), [own, related])
    linking.link(Paper.objects.all())
    chips.refresh()
    figures = {one.paper.arxiv_id: one.chips for one in Chips.objects.all()}
    assert related.arxiv_id not in figures, "its mechanism cannot be run here"
    for chip in figures[LONGFORMER]:
        assert chip["figure"] == "" or re.fullmatch(
            r"[\d.]+× faster per call \([\d.]+–[\d.]+\) than Dense causal \(SDPA\) "
            r"at \d+ tokens, AMD EPYC, 2 cores",
            chip["figure"],
        )


def test_every_mechanism_names_variants_that_results_have() -> None:
    """A name that no result has would be a mechanism that is never measured."""
    call_command("import_results", stdout=StringIO())
    for method in registry.all_methods():
        carried = Carried(method)
        known = {
            (one.row.benchmark, variant.name)
            for one in carried.measurements
            for variant in one.series.variants
        }
        series = {(one.row.benchmark, one.row.name) for one in carried.measurements}
        published = {benchmark for benchmark, _ in series}  # others have no result to compare with
        declared = {benchmark.slug for benchmark in method.benchmarks}
        for mechanism in method.mechanisms:
            for benchmark, variants in mechanism.measured.items():
                assert benchmark in declared, mechanism.slug
                if benchmark in published:
                    assert {(benchmark, one) for one in variants} <= known, mechanism.slug
        for benchmark in method.benchmarks:
            if benchmark.slug not in published:
                continue
            assert {(benchmark.slug, name) for name in benchmark.measures} <= series


def test_a_claim_of_no_ratio_has_no_scope_that_meets() -> None:
    read = claim("The kernel takes 3.1 ms", unit="ms", metric="latency")
    scope = ReportedNumber(read, "m/x").scope
    assert not scope.meets(scope), "what is not known meets nothing, not even itself"


def test_a_variant_of_no_mechanism_has_none(own: Paper) -> None:
    method = registry.get("sparse_attention")
    named = {
        (benchmark, variant)
        for mechanism in method.mechanisms
        for benchmark, variants in mechanism.measured.items()
        for variant in variants
    }
    others = [
        one
        for one in Carried(method).comparisons
        if (one.measurement.row.benchmark, one.point.variant) not in named
    ]
    assert others
    assert {one.scope.mechanism for one in others} == {""}


def test_the_best_is_better_beyond_doubt_and_beyond_a_control(own: Paper) -> None:
    """Of a figure that stands, the same with a doubt, level with a control, and without one."""
    sure, controls = next(
        (figure, controls)
        for figure in Carried(registry.get("sparse_attention")).comparisons
        if best([figure]) is figure and (controls := measured_controls(figure))
    )
    series, point = sure.measurement.series, sure.point

    def among(points: list[Point]) -> Comparison:
        changed = series.model_copy(update={"points": tuple(points)})
        return replace(sure, measurement=replace(sure.measurement, series=changed))

    others = [other for other in series.points if other.variant not in controls]
    level = [point.model_copy(update={"variant": name}) for name in controls]
    assert best([among([*others, *level])]) is None
    assert best([among(others)]) is None
    doubted = point.model_copy(update={"flags": (Flag.FEW,)})
    assert best([replace(sure, point=doubted)]) is None
    assert best([replace(sure, word="slower")]) is None


def measured_controls(figure: Comparison) -> set[str]:
    """Return the variants of a figure's chart that leave its mechanism out."""
    row = figure.measurement.row
    names = registry.find(f"{row.method}.{row.benchmark}")[1].controls
    variants = {variant.name for variant in figure.measurement.series.variants}
    return variants & {*names} - {figure.point.variant}


@pytest.mark.parametrize(
    ("metric", "setting", "quantity", "stage", "sizes"),
    [
        ("kernel latency", "4K tokens", "time", "kernel", {4096}),
        ("latency", "", "time", "", set()),
        ("latency and FLOPs", "", "", "", set()),
        ("KV cache memory", "", "cache", "decode", set()),
        ("", "", "", "", set()),
    ],
)
def test_a_number_is_of_what_its_metric_and_setting_name(
    metric: str, setting: str, quantity: str, stage: str, sizes: set[float]
) -> None:
    number = ReportedNumber(claim("It gains 3.1x.", metric=metric, setting=setting), "m/x")
    assert (number.scope.quantity, number.scope.stage, number.sizes) == (quantity, stage, sizes)


@pytest.mark.parametrize(
    ("before", "after", "quantity"),
    [
        ("", "", "time"),
        (f"Memory is another matter. {'x ' * 35}", "", "time"),  # more than 80 characters before
        ("Memory is another matter. ", "", ""),
        ("", f" {'x ' * 50}", "time"),
        ("", f" {'x ' * 15} Memory is another matter.", "time"),  # more than 30 after
        ("", ", of memory", ""),
    ],
)
def test_words_near_a_number_say_what_it_is_of(before: str, after: str, quantity: str) -> None:
    read = claim(f"{before}It is faster by 3.1x{after}.")
    assert ReportedNumber(read, "m/x").scope.quantity == quantity


def test_a_share_that_a_model_read_is_no_ratio() -> None:
    quote = "The kernel is 31% faster at 4096 tokens."
    relations = [
        ReportedNumber(Claim(metric="latency", value="31", unit=unit, quote=quote), "m/x").scope
        for unit in ("%", "×")
    ]
    assert [scope.relation for scope in relations] == ["", "ratio"]
