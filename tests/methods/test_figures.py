"""Figures in documents are those of the committed result files: each row is read from its file."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean, median

import pytest

from methods.protocol import Line, Point, Ratio, Series
from tests.processes import ROOT

METHODS, RESULTS = ROOT / "methods", ROOT / "benchmarks" / "results"


def measured(results: str, name: str) -> Series:
    """Return a series of a result file."""
    lines = (RESULTS / results).read_text(encoding="utf-8").splitlines()
    bodies = (Line.parse(line).body for line in lines)
    (series,) = (b for b in bodies if isinstance(b, Series) and b.name == name)
    return series


def points(results: str, series: str) -> dict[tuple[str, float | str], Point]:
    """Return the points of a series, by variant and x."""
    return {(point.variant, point.x): point for point in measured(results, series).points}


def times(ratio: Ratio | None) -> str:
    """Return a ratio with its interval as tables write it."""
    assert ratio is not None
    return f"{ratio.value:.2f}× ({ratio.low:.2f}–{ratio.high:.2f})"


def row(document: str, begin: str, after: str = "") -> list[str]:
    """The cells of the first row behind some words that begins with others, without emphasis."""
    text = (METHODS / document).read_text(encoding="utf-8").partition(after)[2]
    line = next(line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")][1:]


PRUNED = {
    "chance": "random_both", "DivPrune, before the model": "divprune",
    "PyramidDrop's choice": "pyramiddrop_both", "CDPruner, before the model": "cdpruner",
    "CDPruner, both layers": "cdpruner_both", "**ours: taught heads": "ours",
    "oracle": "oracle_both",
}  # fmt: skip


@pytest.mark.parametrize("label", PRUNED)
def test_accuracy_against_tokens(label: str) -> None:
    """Mean and range of five models, at five budgets."""
    found = points("token_pruning/tradeoff.jsonl", "accuracy")
    cells = row("token_pruning/README.md", label, "### Accuracy against tokens")
    for cell, budget in zip(cells, (2.0, 4.0, 8.0, 12.0, 16.0), strict=True):
        samples = found[PRUNED[label], budget].samples
        low, high = min(samples), max(samples)
        assert cell.rstrip(" ↑") == f"{fmean(samples):.1f} ({low:.0f}–{high:.0f})"


LOSSES = {
    "chance, our schedule": "chance", "unpruned": "unpruned", "adversarial": "adversarial",
    "feature matching": "mse", "task and count only": "none", "**ours: the model's": "attention",
    "merger alone": "merger", "heads alone": "heads", "simple merger": "simple",
    "the source's scaled": "scaled", "the source's merger": "unscored", "dropped behind": "late",
}  # fmt: skip


@pytest.mark.parametrize("label", LOSSES)
def test_what_each_loss_and_ablation_ends_at(label: str) -> None:
    found = points("token_pruning/training.jsonl", "final")
    (cell,) = row("token_pruning/details.md", label, "## Adversarial, feature matching, neither")
    assert float(cell.split()[0]) == pytest.approx(
        fmean(found[LOSSES[label], "held out"].samples), abs=0.051
    )


RETRIEVED = {
    "no slimming": "whole", "random patches": "random", "LAPS-like": "laps",
    "ours, learnt score": "seps_learnt", "ours, sparse": "seps_sparse",
    "ours, dense text of each": "seps_image", "`open_source`": "open_source",
    "`paper` as": "paper", "ours, mended": "seps",
}  # fmt: skip


@pytest.mark.parametrize("label", RETRIEVED)
def test_the_sums_of_recalls(label: str) -> None:
    found = points("seps/retrieval.jsonl", "rsum")[RETRIEVED[label], "held out"].samples
    cells = row("seps/README.md", label, "run seps.retrieval --preset full")
    told = next(cell for cell in cells if re.fullmatch(r"\d+ / \d+ / \d+", cell))
    assert told == " / ".join(f"{value:.0f}" for value in found)


SELECTORS = {
    "decode": {
        "all keys": "all_keys", "window and sinks": "window_sinks", "window and every": "strided",
        "mean-pooled": "mean_pooled", "page bounds": "page_bounds", "top-p": "top_p",
        "top-k by exact": "exact",
    },
    "prefill": {
        "window and sinks": "window_sinks", "window and every": "strided",
        "mean-pooled": "mean_pooled", "antidiagonal": "antidiagonal", "vertical": "vertical_slash",
    },
    "video": {"local 3-D": "local_3d", "thinning": "radial", "block top-k": "block_top_k"},
}  # fmt: skip
SHAPES = {
    "decode": ("decode", "decode", "| a token,", (4096, 16384)),
    "prefill": ("prefill", "prefill", "| a prompt", (2048, 8192)),
    "video": ("prefill", "video", "| a video", (4096, 8192)),
}


@pytest.mark.parametrize(
    ("table", "label"), [(table, label) for table, of in SELECTORS.items() for label in of]
)
def test_selectors_beside_dense_attention(table: str, label: str) -> None:
    file, series, begin, sizes = SHAPES[table]
    found = points(f"sparse_attention/{file}.jsonl", series)
    cells = row("sparse_attention/README.md", label, begin)
    for size, time, ratio in zip(sizes, cells[::2], cells[1::2], strict=True):
        point = found[SELECTORS[table][label], size]
        assert float(time.replace(",", "")) == pytest.approx(point.value, rel=0.0051)
        assert ratio == times(point.ratio)  # without its star, which `row` takes off


@pytest.mark.parametrize("tokens", [1024, 2048, 4096, 8192])
def test_windows_and_anchors_beside_dense_attention(tokens: int) -> None:
    cells = row("sparse_attention/README.md", f"{tokens:,}", "| tokens, windows and anchors")
    for series, (time, ratio) in zip(
        ("forward", "forward_backward"), (cells[:2], cells[2:]), strict=True
    ):
        point = points("sparse_attention/latency.jsonl", series)["adaptive", tokens]
        assert float(time) == pytest.approx(point.value, rel=0.0051)
        assert ratio == times(point.ratio)


@pytest.mark.parametrize(
    ("variant", "figures"),
    [("window_sinks", "1.91× (1.85–1.97)"), ("mean_pooled", "1.21× (1.05–1.40)")],
)
def test_a_token_on_a_gpu(variant: str, figures: str) -> None:
    ratio = points("sparse_attention/decode-h200.jsonl", "decode")[variant, 131072].ratio
    assert figures == times(ratio)
    assert figures in " ".join((METHODS / "sparse_attention/README.md").read_text("utf-8").split())


CONCEPTS, COMPRESSION = "concept_lm/results.md", "concept_lm/compression.jsonl"


@pytest.mark.parametrize("every", [2, 4, 8])
@pytest.mark.parametrize("tokens", [512, 2048, 4096])
def test_decoding_with_concepts(tokens: int, every: int) -> None:
    series = measured("concept_lm/decode.jsonl", "speed")
    speed = {(point.variant, point.x): point for point in series.points}
    ours, theirs = speed[f"tokens_{every}", tokens], speed["transformers", tokens]
    (limit,) = (limit for limit in series.limits if limit.label.endswith(f"every {every}"))
    allowed = dict(limit.points)[tokens]
    assert ours.ratio is not None
    assert row(CONCEPTS, f"{tokens:,}, every {every} ", "## Decoding") == [
        f"{ours.value:.1f}",
        times(ours.ratio),
        f"{allowed:.2f}",
        f"{ours.ratio.value / allowed:.0%}".replace("%", " %"),
        f"{ours.value / theirs.value:.2f}",
    ]


@pytest.mark.parametrize("x", ["in step", "one token apart"])
def test_rows_in_step_and_apart(x: str) -> None:
    found = points("concept_lm/decode.jsonl", "rows")
    assert row(CONCEPTS, x, "## Decoding") == [
        f"{found['plain', x].value:.0f}",
        times(found["ours", x].ratio),
        times(found["waiting", x].ratio),
    ]


COMPRESSED = {
    "v1, full": "plain", "`equal`": "equal", "all middle": "dropped", "v2 as rec": "recommended",
    "v2 as the notes": "faithful", "v2, H-Net": "hnet", "v2, fixed": "stride",
    "v2 with codes": "random",
}  # fmt: skip


@pytest.mark.parametrize("label", COMPRESSED)
def test_compression(label: str) -> None:
    cells, name = row(CONCEPTS, label, "## Compression"), COMPRESSED[label]
    (point,) = (p for (v, _), p in points(COMPRESSION, "pareto").items() if v == name)
    assert isinstance(point.x, float)
    assert cells[:2] == [f"{point.x / 1000:.0f} k", f"{fmean(point.samples):.2f}"]
    if point.ratio:
        assert cells[2] == times(point.ratio).replace("×", "") + f" {point.ratio.verdict}"
    figures = zip(("shuffled", "perplexity", "dead"), ("{:.2f}", "{:.1f}", "{:.0%}"), strict=True)
    for cell, (measure, form) in zip(cells[3:], figures, strict=True):
        found = points(COMPRESSION, measure).get((name, "held out"))
        expected = form.format(fmean(found.samples)) if found else ""
        assert cell == expected.replace("-0.00", "0.00").replace("%", " %")


PLANNED = {
    "NLL of y given z": ("nll", "z*"), "given another": ("nll", "another text's z*"),
    "given nothing": ("nll", "nothing"), "given the planner's own": ("nll", "the planner's z"),
    "-S(z*)": ("price", "z*, chosen by S"), "codes in use of 64": ("codes", "type 1"),
    "second type": ("codes", "type 2"),
}  # fmt: skip


@pytest.mark.parametrize("label", PLANNED)
def test_planning(label: str) -> None:
    (series, x), cells = PLANNED[label], row(CONCEPTS, label, "## Planning")
    form = "{:.0f}" if series == "codes" else "{:.2f}"
    every, naive = (points("concept_lm/planner.jsonl", series)[of, x] for of in ("ours", "naive"))
    prompt = points("concept_lm/planner-prompt.jsonl", series)["ours", x].samples
    middle = f"{median(prompt):g}" if series == "codes" else form.format(median(prompt))
    assert cells == [
        ", ".join(map(form.format, every.samples)),
        f"{middle} ({form.format(min(prompt))}–{form.format(max(prompt))})",
        ", ".join(map(form.format, naive.samples)),
    ]


@pytest.mark.parametrize("label", list(PLANNED)[:4])
def test_planning_with_two_slots(label: str) -> None:
    series, x = PLANNED[label]
    files = ("concept_lm/planner-slots.jsonl", "concept_lm/planner-sequence.jsonl")
    every = (points(file, series)["ours", x].samples for file in files)
    cells = [", ".join(f"{value:.2f}" for value in samples) for samples in every]
    assert row(CONCEPTS, label, "## Planning with two concepts") == cells


def test_what_plans_are_worth() -> None:
    """The intervals of the gain, each row with its files, series and x."""
    text = (METHODS / CONCEPTS).read_text(encoding="utf-8")
    for file, x in (
        ("planner", "the planner's z"), ("planner-prompt", "the planner's z"),
        ("planner-slots", "z*"), ("planner-sequence", "z*"),
        ("planner-slots", "the planner's z"), ("planner-sequence", "the planner's z"),
    ):  # fmt: skip
        gain = points(f"concept_lm/{file}.jsonl", "gain")["ours", x]
        assert f"{gain.low:.1f} to {gain.high:.1f}" in text


def test_lost_concepts() -> None:
    found = points("concept_lm/dropout.jsonl", "dropout")
    cells = row(CONCEPTS, "NLL of y |", "## Losing concepts")
    shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert cells == [f"{fmean(found['ours', share].samples):.2f}" for share in shares]


def test_a_figure_that_is_not_its_file_s_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of collapse once told three numbers that stood in no file."""
    document = (METHODS / "token_pruning/details.md").read_text(encoding="utf-8")
    (tmp_path / "token_pruning").mkdir()
    wrong = document.replace("| adversarial | 27.3 ", "| adversarial | 30.0 ")
    assert wrong != document
    (tmp_path / "token_pruning" / "details.md").write_text(wrong, encoding="utf-8")
    monkeypatch.setitem(globals(), "METHODS", tmp_path)
    with pytest.raises(AssertionError):
        test_what_each_loss_and_ablation_ends_at("adversarial")
