"""Charts hold what the series holds, can be read at 360 pixels, and keep their texts apart."""

import itertools
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from methods import charts
from methods.charts.layout import (
    Scale,
    keep_apart,
    linear_ticks,
    log_ticks,
    short,
    shorten,
    span,
    text_width,
    wrap,
)
from methods.measure.statistics import exact_point, over_seeds, point_of_runs
from methods.protocol import Axis, Limit, Series, Variant

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {
    "dense": ("dense SDPA", 1.0),
    "naive": ("naive masked", 0.25),
    "mask": ("SDPA + boolean mask", 0.55),
    "local": ("local-attention", 0.7),
    "longformer": ("HF Longformer", 0.62),
    "bigbird": ("BigBird", 0.66),
    "fixed": ("ours, w = 128", 6.25),
    "adaptive": ("ours, adaptive window", 3.48),
}
VARIANTS = tuple(
    Variant(name=name, label=label, ours=label.startswith("ours"))
    for name, (label, _) in NAMES.items()
)


def latency(**more: object) -> Series:
    """Eight variants, most of them so alike that their labels would cover each other."""
    points = []
    for n in (1024, 2048, 4096, 8192):
        dense = [n * n * 1e-5 * (1 + 0.02 * (b % 3)) for b in range(6)]
        for name, (_, times) in NAMES.items():
            if name == "naive" and n > 2048:
                continue
            runs = [seconds / times for seconds in dense]
            ratios = [] if name == "dense" else [times] * 6
            points.append(point_of_runs(name, n, runs, runs, ratios, of="processes"))
    values = {
        "name": "forward",
        "title": "Forward pass, 12 heads",
        "x": Axis(label="sequence length", unit="tokens", scale="log"),
        "y": Axis(label="time", unit="ms", scale="log"),
        "direction": "lower",
        "variants": VARIANTS,
        "baseline": "dense",
        "points": tuple(points),
        "limits": (
            Limit(
                label="FLOP limit",
                of="ratio",
                points=((1024.0, 2.37), (2048.0, 3.08), (4096.0, 5.27)),
            ),
        ),
    }
    return Series(**{**values, **more})


def recall(**more: object) -> Series:
    values = {"dense": 0.98, "local": 0.3, "adaptive": 0.42}
    chosen = tuple(variant for variant in VARIANTS if variant.name in values)
    return latency(
        name="recall",
        x=Axis(label="place", scale="category"),
        y=Axis(label="recall"),
        direction="higher",
        variants=chosen,
        points=tuple(
            over_seeds(name, place, [value, value * 1.02, value * 0.97], baseline=[0.98] * 3)
            for place in ("on an anchor", "off the anchors")
            for name, value in values.items()
        ),
        limits=(Limit(label="gate", points=(("on an anchor", 0.95),)),),
        **more,
    )


def curve() -> Series:
    return latency(
        x=Axis(label="step"),
        y=Axis(label="bits a byte"),
        points=tuple(
            exact_point(name, step, 2 + 300 / (step + 100), direction="lower")
            for name in ("dense", "fixed")
            for step in range(0, 1000, 25)
        ),
        limits=(),
    )


ALL = {
    "latency": charts.draw_all(latency()),
    "recall": charts.draw_all(recall(partial=True)),
    "curve": charts.draw_all(curve()),
}
PICTURES = [svg for pictures in ALL.values() for svg in pictures.values()]


def texts(svg: str, kind: str | None = None) -> list[str]:
    root = ET.fromstring(svg)
    found = [e for e in root.iter(f"{SVG}text") if kind is None or e.get("class") == kind]
    return ["".join(e.itertext()) for e in found]


def test_every_picture_of_a_series_is_drawn() -> None:
    assert [*ALL["latency"]] == ["forward", "forward-ratio"]
    assert [*ALL["recall"]] == ["recall", "recall-ratio"]
    assert [*ALL["curve"]] == ["forward"]
    assert charts.draw_all(latency(points=())) == {}
    with pytest.raises(ValueError, match="no value to draw"):
        charts.draw(latency(points=()))


@pytest.mark.parametrize("svg", PICTURES)
def test_a_picture_is_xml_with_a_title_and_a_description(svg: str) -> None:
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert desc is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert "is better" in (desc.text or "")


def test_every_variant_and_limit_is_labelled_and_the_baseline_left_out_of_ratios() -> None:
    value, ratio = ALL["latency"].values()
    assert {label for label, _ in NAMES.values()} <= set(texts(value, "name"))
    assert "FLOP limit" in texts(value, "limit-label")
    shown = texts(ratio, "name")
    assert len(shown) == len(NAMES) - 1
    assert "ours, w = 128 6.25×" in shown


def test_a_limit_given_as_a_ratio_becomes_a_value_by_way_of_the_baseline() -> None:
    series = latency(points=tuple(p for p in latency().points if p.variant == "dense"))
    dashed = re.search(r'class="limit" points="([^"]+)"', charts.draw(series))
    solid = re.search(r'class="line" points="([^"]+)"', charts.draw(series))
    assert dashed is not None
    assert solid is not None
    below = [
        float(limit.split(",")[1]) - float(line.split(",")[1])
        for limit, line in zip(dashed[1].split(), solid[1].split(), strict=False)
    ]
    assert len(below) == 3
    assert all(gap > 0 for gap in below)  # faster than dense: lower on the page
    assert below == sorted(below)


def test_a_limit_lies_at_the_rate_of_the_variant_that_it_names() -> None:
    plain = latency()
    rated = plain.limits[0].model_copy(update={"at": "fixed", "variant": "adaptive"})
    series = plain.model_copy(update={"limits": (rated,)})  # `naive` is slower than the baseline
    assert series.heights(rated)[1024.0] == pytest.approx(2.37 * 6.25)
    assert series.heights(rated.model_copy(update={"at": "naive"}))[1024.0] == 2.37, "none lower"
    point = {p.variant: p for p in series.points if p.x == 1024}
    assert plain.most(point["adaptive"]) == 2.37 < point["adaptive"].ratio.low  # type: ignore[union-attr]
    assert series.most(point["adaptive"]) == pytest.approx(2.37 * 6.25)
    assert series.most(point["local"]) == math.inf, "it bounds the one it names"
    heights = [
        [float(place.split(",")[1]) for place in found[1].split()]
        for one in (series, plain)
        if (found := re.search(r'class="limit" points="([^"]+)"', charts.draw(one)))
    ]
    assert all(high > low for high, low in zip(*heights, strict=True)), "faster: lower on the page"
    with pytest.raises(ValueError, match="not a variant"):
        Series(**{**series.model_dump(), "limits": (rated.model_copy(update={"at": "other"}),)})


def test_intervals_doubts_and_partial_runs_are_shown() -> None:
    assert ALL["latency"]["forward-ratio"].count('class="whisker"') == 0  # the ratio is exact here
    assert ALL["recall"]["recall"].count('class="whisker"') == 6
    assert "△ partial: the run did not end" in texts(ALL["recall"]["recall"])
    noisy = latency(
        points=tuple(p.model_copy(update={"flags": ("drift",)}) for p in latency().points)
    )
    assert charts.draw(noisy).count('class="doubt"') == len(noisy.points)
    assert any("doubtful" in text for text in texts(charts.draw(noisy)))
    assert 'class="doubt"' not in ALL["latency"]["forward"]


def test_on_a_page_the_style_is_the_sites() -> None:
    svg = charts.draw(latency(), standalone=False)
    assert "<style" not in svg
    assert " style=" not in svg
    used = set(re.findall(r'class="([^"]+)"', svg))
    for name in {part for classes in used for part in classes.split()} - {"assay-chart"}:
        assert f".{name}" in charts.STYLE, name


@given(st.text(max_size=150))
def test_any_text_is_escaped(title: str) -> None:
    hostile = "<script>alert(1)</script>&\"'" + title
    series = recall(title=hostile)
    variants = tuple(v.model_copy(update={"label": hostile}) for v in series.variants)
    root = ET.fromstring(charts.draw(series.model_copy(update={"variants": variants})))
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg", "title", "desc", "style", "rect", "g", "text", "line", "path", "polyline", "tspan",
    }  # fmt: skip


# --- In a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    tab = browser.new_context().new_page()
    yield tab
    tab.close()


BOXES = """() => [...document.querySelectorAll('svg text')].map(e => {
  const b = e.getBoundingClientRect();
  return [e.textContent, b.left, b.top, b.right, b.bottom, parseFloat(getComputedStyle(e).fontSize)
          * e.ownerSVGElement.getBoundingClientRect().width / 480];
})"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 800])
@pytest.mark.parametrize("svg", PICTURES)
def test_no_text_covers_another_or_leaves_the_picture(page: Page, svg: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(f'<body style="margin:0">{svg}')
    boxes = page.evaluate(BOXES)
    assert len(boxes) > 5
    right = min(width, 720)
    for text, x1, y1, x2, y2, size in boxes:
        assert x1 >= -0.5, text
        assert x2 <= right + 0.5, text
        assert y1 >= 0, text
        assert y2 <= page.evaluate("document.querySelector('svg').getBoundingClientRect().bottom")
        assert size >= 9 * min(1, width / 360), text
    for a, b in itertools.combinations(boxes, 2):
        overlap = min(a[3], b[3]) - max(a[1], b[1])
        height = min(a[4], b[4]) - max(a[2], b[2])
        size = min(a[5], b[5])
        assert overlap <= 0 or height <= 0.45 * size, (a[0], b[0])  # line boxes, not the ink


@pytest.mark.browser
@pytest.mark.parametrize(
    ("scheme", "theme", "dark"),
    [
        ("light", None, False),
        ("dark", None, True),
        ("light", "dark", True),
        ("dark", "light", False),
    ],
)
def test_the_theme_is_the_readers_or_the_sites(
    page: Page, scheme: str, theme: str | None, dark: bool
) -> None:
    page.emulate_media(color_scheme=scheme)
    attribute = f' data-theme="{theme}"' if theme else ""
    page.set_content(f"<html{attribute}><body>{PICTURES[0]}")
    paper = page.evaluate("getComputedStyle(document.querySelector('.sheet')).fill")
    red = int(re.findall(r"\d+", paper)[0])
    assert (red < 64) is dark
    page.emulate_media(color_scheme="light")


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_colour_of_text_has_contrast() -> None:
    from methods.charts import style

    for colours in style.COLOURS.values():
        paper = luminance(colours["paper"])
        for name in set(colours) - {"paper", "rule", "axis"}:
            ink = luminance(colours[name])
            contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
            assert contrast >= 4.5, (name, contrast)


# --- Layout --------------------------------------------------------------------------------------

places = st.lists(st.floats(0, 300), min_size=1, max_size=12)


@given(places)
def test_labels_are_kept_apart_in_order_and_within_bounds(wanted: list[float]) -> None:
    moved = keep_apart(wanted, 16, 0, 300)
    assert all(-1e-6 <= place <= 300 + 1e-6 for place in moved)
    ordered = [place for _, place in sorted(zip(wanted, moved, strict=True))]
    assert all(b - a >= 16 - 1e-6 for a, b in itertools.pairwise(sorted(ordered)))


def test_labels_that_have_room_stay_where_they_are() -> None:
    assert keep_apart([10, 100, 50], 16, 0, 300) == [10, 100, 50]
    assert keep_apart([100, 100], 16, 0, 300) == [92, 108]
    assert keep_apart([0, 0, 0], 16, 0, 300) == [0, 16, 32]
    assert keep_apart([1.0] * 5, 16, 0, 32) == [0, 8, 16, 24, 32]
    assert keep_apart([], 16, 0, 32) == []


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e9))
def test_ticks_are_inside_and_never_too_many(low: float, factor: float) -> None:
    high = low * factor
    for ticks in (log_ticks(low, high, 6), linear_ticks(low, high, 6)):
        assert len(ticks) <= 10
        slack = 1e-6 * (high - low) + 1e-11
        assert all(low - slack <= tick <= high + slack for tick in ticks)
        assert ticks == sorted(set(ticks))


def test_scales_hold_their_values() -> None:
    low, high = span([1, 1000], "log")
    assert low < 1
    assert high > 1000
    scale = Scale(1, 100, 0, 200, "log")
    assert [scale(v) for v in (1, 10, 100, 0, 1e9)] == [0, 100, 200, 0, 200]
    assert span([5, 5], "linear") == (2.5, 7.5)
    assert span([1, 2], "linear", zero=True)[0] == 0
    assert span([], "log")[0] < 1 < span([], "log")[1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"), (1024, "1k"), (16384, "16k"), (20000, "20k"), (1500, "1500"), (0.05, "0.05"),
        (2_000_000, "2M"), (1 / 3, "0.3333"), (-50_000, "-50k"),
    ],
)  # fmt: skip
def test_ticks_are_short(value: float, said: str) -> None:
    assert short(value) == said


def test_texts_are_fitted_to_their_room() -> None:
    assert shorten("short", 12, 100) == "short"
    assert shorten("a" * 100, 12, 60).endswith("…")
    assert text_width(shorten("a" * 100, 12, 60), 12) <= 60
    assert all(text_width(line, 12) <= 90 for line in wrap("many words in a row " * 5, 12, 90))
    # Chinese has no blanks: it breaks between characters, and no line begins with a comma.
    chinese = "合并器在语言模型之前把 token 减半，了解问题的头再丢掉一些。" * 2
    lines = wrap(chinese, 12, 90)
    assert "".join(lines).replace(" ", "") == chinese.replace(" ", "")
    assert all(text_width(line, 12) <= 90 + 12 for line in lines)
    assert not [line for line in lines if line[0] in "，。 "]
    assert text_width("字", 12) > text_width("i", 12)


def test_a_long_name_is_whole_on_several_lines() -> None:
    labels = {n: f"ours, a concept of the text at every {n} tokens" for n in (2, 4, 8)}
    for x in (Axis(label="step"), Axis(label="where", scale="category")):
        places: tuple[float | str, ...] = (1, 2) if x.scale == "linear" else ("here", "there")
        drawn = charts.draw(
            latency(
                x=x,
                variants=tuple(Variant(name=f"n{n}", label=labels[n], ours=True) for n in labels),
                points=tuple(
                    exact_point(f"n{n}", place, n + 1, direction="lower")
                    for n in labels
                    for place in places
                ),
                limits=(),
                baseline=None,
            )
        )
        assert set(texts(drawn, "name")) == set(labels.values())
        rows = sorted(
            (float(text.get("y") or 0), len(list(text)))
            for text in ET.fromstring(drawn).iter(f"{SVG}text")
            if text.get("class") == "name"
        )
        for (y, more), (following, _) in pairwise(rows):
            assert following - y >= 14 * (more + 1) - 1  # lines of two names do not meet


def test_a_chart_has_eight_variants_and_the_others_one_of_their_own() -> None:
    names = ["base", *(f"v{i}" for i in range(10)), "ours"]
    variants = tuple(Variant(name=n, label=f"the {n}", ours=n == "ours") for n in names)
    points = tuple(
        exact_point(n, step, 2, direction="lower", baseline=4) for n in names for step in (1, 2)
    )
    whole = latency(variants=variants, points=points, limits=(), baseline="base")
    first, second = charts.parts(whole)
    drawn = [{point.variant for point in part.points} for part in (first, second)]
    assert drawn[0] == {"base", "ours", *(f"v{i}" for i in range(6))}
    assert drawn[1] == {"base", *(f"v{i}" for i in range(6, 10))}
    assert [*charts.draw_all(whole)] == [
        "forward", "forward-ratio", "forward-2", "forward-2-ratio"
    ]  # fmt: skip
    assert charts.parts(latency()) == [latency()]
