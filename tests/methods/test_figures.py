"""Figures in documents are those of the committed result files: each row is read from its file."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import pytest

from methods.protocol import Line, Point, Series
from tests.processes import ROOT

METHODS, RESULTS = ROOT / "methods", ROOT / "benchmarks" / "results"


def points(results: str, series: str) -> dict[tuple[str, float | str], Point]:
    """The points of a series, by variant and x."""
    lines = (RESULTS / results).read_text(encoding="utf-8").splitlines()
    bodies = (Line.parse(line).body for line in lines)
    (kept,) = (b for b in bodies if isinstance(b, Series) and b.name == series)
    return {(point.variant, point.x): point for point in kept.points}


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
    measured = points(f"sparse_attention/{file}.jsonl", series)
    cells = row("sparse_attention/README.md", label, begin)
    for size, time, ratio in zip(sizes, cells[::2], cells[1::2], strict=True):
        point = measured[SELECTORS[table][label], size]
        assert point.ratio is not None
        assert float(time.replace(",", "")) == pytest.approx(point.value, rel=0.0051)
        low, high = point.ratio.low, point.ratio.high
        told = f"{point.ratio.value:.2f}× ({low:.2f}–{high:.2f})"
        assert ratio == told  # without its star, which `row` takes off


@pytest.mark.parametrize("tokens", [1024, 2048, 4096, 8192])
def test_windows_and_anchors_beside_dense_attention(tokens: int) -> None:
    cells = row("sparse_attention/README.md", f"{tokens:,}", "| tokens, windows and anchors")
    for series, (time, ratio) in zip(
        ("forward", "forward_backward"), (cells[:2], cells[2:]), strict=True
    ):
        point = points("sparse_attention/latency.jsonl", series)["adaptive", tokens]
        assert point.ratio is not None
        assert float(time) == pytest.approx(point.value, rel=0.0051)
        low, high = point.ratio.low, point.ratio.high
        assert ratio == f"{point.ratio.value:.2f}× ({low:.2f}–{high:.2f})"


@pytest.mark.parametrize(
    ("variant", "figures"),
    [("window_sinks", "1.91× (1.85–1.97)"), ("mean_pooled", "1.21× (1.05–1.40)")],
)
def test_a_token_on_a_gpu(variant: str, figures: str) -> None:
    ratio = points("sparse_attention/decode-h200.jsonl", "decode")[variant, 131072].ratio
    assert ratio is not None
    assert figures == f"{ratio.value:.2f}× ({ratio.low:.2f}–{ratio.high:.2f})"
    assert figures in " ".join((METHODS / "sparse_attention/README.md").read_text("utf-8").split())


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
