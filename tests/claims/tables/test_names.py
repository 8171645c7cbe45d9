"""A value is given a subject, a benchmark and a metric only where the table names all three."""

from __future__ import annotations

import pytest

from tests.claims.tables.test_reading import FORMS, tables_of
from webapp.claims.tables.names import (
    benchmark,
    is_difference,
    is_own,
    is_own_head,
    metric,
    names_of,
    reported,
)


def row(*cells: str) -> str:
    return "<tr class='ltx_tr'>" + "".join(f"<td class='ltx_td'>{c}</td>" for c in cells) + "</tr>"


def told(caption: str, *rows: str) -> list[tuple[str, str, str, str, str]]:
    page = (
        "<figure class='ltx_table'><figcaption class='ltx_caption'>Table 1: "
        f"{caption}</figcaption><table class='ltx_tabular'>{''.join(rows)}</table></figure>"
    )
    (table,) = tables_of(page)
    return [
        (r.subject, r.benchmark, r.metric.name, r.setting, r.value.cell.text)
        for r in reported(table)
    ]


def test_a_metric_of_the_caption_and_benchmarks_over_the_columns() -> None:
    results = reported(FORMS[0])
    assert [(r.subject, r.benchmark, r.metric.name, r.setting) for r in results[-2:]] == [
        ("Heron (ours)", "GSM8K", "accuracy", "with a chosen budget, 8-shot"),
        ("Heron (ours)", "MATH", "accuracy", "with a chosen budget, 0-shot"),
    ]


def test_a_benchmark_over_metrics() -> None:
    rows = row("Method", "PPL ↓", "Acc. (%)"), row("Wren", "5.1", "61"), row("Tit", "5.2", "60")
    assert told("Results on WikiText-2.", *rows)[:2] == [
        ("Wren", "WikiText-2", "perplexity", "", "5.1"),
        ("Wren", "WikiText-2", "accuracy", "", "61"),
    ]


@pytest.mark.parametrize(
    ("caption", "heads", "told_of"),
    [
        # Beside the benchmark, in brackets or not, with a setting.
        ("Results.", ("Method", "GSM8K (acc.)"), ("GSM8K", "accuracy", "")),
        ("Results.", ("Method", "MMLU (5-shot, Acc)"), ("MMLU", "accuracy", "5-shot")),
        ("Results.", ("Method", "HumanEval pass@1"), ("HumanEval", "pass@1", "")),
        ("Results.", ("Method", "PPL (WikiText-2) ↓"), ("WikiText-2", "perplexity", "")),
        # A further sentence that says what is reported; the corner of the table.
        ("Results. We report accuracy.", ("Method", "GSM8K"), ("GSM8K", "accuracy", "")),
        ("Results. All numbers are accuracy (%).", ("M", "GSM8K"), ("GSM8K", "accuracy", "")),
        ("Scores. Values are in terms of F1.", ("M", "SQuAD"), ("SQuAD", "F1", "")),
        ("Results.", ("Accuracy", "GSM8K"), ("GSM8K", "accuracy", "")),
    ],
)
def test_where_a_metric_may_stand(
    caption: str, heads: tuple[str, ...], told_of: tuple[str, str, str]
) -> None:
    assert told(caption, row(*heads), row("Wren", "41"), row("Tit", "42"))[:1] == [
        ("Wren", *told_of, "41")
    ]


def test_what_the_table_calls_a_data_set_is_one() -> None:
    rows = row("Dataset", "Wren", "Tit"), row("Nestling-3", "41", "42"), row("Average", "1", "2")
    assert told("Accuracy.", *rows) == [
        ("Wren", "Nestling-3", "accuracy", "", "41"),
        ("Tit", "Nestling-3", "accuracy", "", "42"),
    ]


def test_rows_are_benchmarks_and_columns_are_methods() -> None:
    rows = row("Data", "Wren", "Tit"), row("GSM8K", "41", "42"), row("MATH-500", "11", "12")
    assert told("Accuracy.", *rows)[:2] == [
        ("Wren", "GSM8K", "accuracy", "", "41"),
        ("Tit", "GSM8K", "accuracy", "", "42"),
    ]


@pytest.mark.parametrize(
    ("caption", "rows"),
    [
        # No metric is named, or only in a sentence about something else.
        ("Results.", (row("Method", "GSM8K"), row("Wren", "41"))),
        ("Results. BLINK uses accuracy.", (row("Method", "GSM8K"), row("Wren", "41"))),
        # Another part of a benchmark; two metrics; a metric of something else.
        ("Accuracy.", (row("Method", "MATH (level 5)"), row("Wren", "41"))),
        ("Results. We report accuracy and F1.", (row("M", "GSM8K"), row("Wren", "41"))),
        ("Results. Training used accuracy.", (row("M", "GSM8K"), row("Wren", "41"))),
        # Two benchmarks in the caption, a head that is neither.
        ("On GSM8K and MATH.", (row("Method", "Acc."), row("Wren", "41"))),
        ("Accuracy on GSM8K.", (row("Method", "Easy", "Hard"), row("Wren", "41", "2"))),
        # An attribute and a difference are no results.
        ("Accuracy.", (row("Method", "GSM8K", "Δ"), row("Δ", "41", "2"))),
        ("Results on GSM8K.", (row("Method", "#Params"), row("Wren", "41M"))),
    ],
)
def test_what_is_not_named_is_not_guessed(caption: str, rows: tuple[str, ...]) -> None:
    assert told(caption, *rows) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("GSM8K", "GSM8K"), ("GSM8K ↑", "GSM8K"), ("gsm-8k", "GSM8K"), ("AIME24 (%)", "AIME24"),
     ("AIME", None), ("BEIR (semantic)", None), ("MATH level 5", None)],
)  # fmt: skip
def test_benchmarks(text: str, name: str | None) -> None:
    assert benchmark(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [("Acc. (%)", "accuracy"), ("PPL ↓", "perplexity"), ("SR", "success rate"), ("sr", None),
     ("MAE", "mean absolute error"), ("DeepSeek-R1", None), ("Test", None), ("CLIP", None)],
)  # fmt: skip
def test_metrics(text: str, name: str | None) -> None:
    known = metric(text)
    assert (known.name if known else None) == name


def test_the_own_row() -> None:
    abstract = "Attention is slow. We propose HeronNet, a sparse kernel for GPUs. It is fast."
    names = names_of("Heron: sparse kernels", abstract)
    assert names == ["Heron", "HeronNet"]
    own = ("Heron", "Heron-Large", "Wren (ours)", "HeronNet †", "Ours", "+ Heron", "Wren + Heron")
    own += ("Our method", "Our Heron", "Proposed", "Wren w/ Heron", "OURS", "This work")
    for label in own:
        assert is_own(["8B", label], names), label
    other = ("w/o Heron", "Herons", "Wren", "- Heron", "Heron w/o sieve", "Heron without it", "")
    other += ("Our Linear", "Our baseline", "Wren (our impl.)", "Our reimplementation", "Diff-3B")
    other += ("Ours w/o sieve", "Ours (sieve only)", "Wren (reproduced by us)", "Heron – sieve")
    for label in other:
        assert not is_own([label], names), label
    introduced = (
        "We introduce Lark 3, a family of models. It is named LARK-X. We propose Sparse nests."
    )
    assert names_of("Lark 3", introduced) == ["Lark 3", "LARK-X"]
    assert names_of("NeSt – A Nest", "It is fast.") == ["NeSt"]
    assert is_own(["org/NeSt-1.1B"], ["NeSt"])
    assert not is_own(["NeSt-nodedup"], ["NeSt"])
    assert is_own_head(["Open Models", "Lark 3.1 8B"], ["Lark 3"])
    assert not is_own_head(["Open Models", "Lark 2 8B"], ["Lark 3"])
    assert names_of("On the cost of attention", "We study LLMs and GSM8K.") == []


def test_a_number_beside_a_data_set_is_a_setting_and_no_subject() -> None:
    rows = (
        row("Dataset", "H", "Heron MAE", "MAE"),
        row("Wind", "432", "2.1", "2.0"),
        row("Wind", "1440", "2.4", "2.3"),
    )
    assert told("Forecasts.", *rows) == [], "nobody's number has no tuple"
    heads = "<tr class='ltx_tr'><td class='ltx_td' rowspan='2'>Dataset</td>"
    heads += "<td class='ltx_td' rowspan='2'>H</td><td class='ltx_td' colspan='2'>Heron</td></tr>"
    assert told("Forecasts.", heads, row("MAE", "RMSE"), *[row(*cells) for cells in (
        ("Wind", "432", "2.1", "2.0"), ("Wind", "1440", "2.4", "2.3"))])[:2] == [
        ("Heron", "Wind", "mean absolute error", "H = 432", "2.1"),
        ("Heron", "Wind", "RMSE", "H = 432", "2.0"),
    ]  # fmt: skip


def test_a_metric_with_a_blank_before_its_cut_off() -> None:
    assert metric("Recall @1") == metric("R@1")


@pytest.mark.parametrize(
    "abstract",
    ["We introduce Heron, a benchmark of birds.", "We present Heron (HE), the first data set.",
     "We propose Heron, a new and open test suite.", "We introduce HeronBench, of birds.",
     "We release and introduce Heron-10K, for birds."],
)  # fmt: skip
def test_a_data_set_that_a_paper_proposes_is_no_method(abstract: str) -> None:
    assert names_of("On birds that fly", abstract) == []


def test_a_name_of_the_title_that_achieves_something_is_the_paper_s_own() -> None:
    title = "Fast attention with HeronNet for birds"
    assert names_of(title, "Slow. HeronNet outperforms others.") == ["HeronNet"]
    assert names_of(title, "It is better than HeronNet achieves. Fast.") == []


@pytest.mark.parametrize(
    "text", ["Δ", "Δ (%)", "Improvement", "Improv.", "Gain", "Diff.", "Rel. gain"]
)
def test_differences(text: str) -> None:
    assert is_difference([text])


@pytest.mark.parametrize("text", ["Diff-3B", "Diffusion", "GainNet", "Improved Wren", "DiffPool"])
def test_names_that_only_begin_like_a_difference(text: str) -> None:
    assert not is_difference([text])
