"""Metrics and their directions, and the names of a paper's own method."""

from __future__ import annotations

import pytest

from webapp.claims.tables.metrics import direction, direction_of_caption, is_benchmark, metric
from webapp.claims.tables.own import is_difference, is_own, is_own_head, proposed_names


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
    names = proposed_names("Heron: sparse kernels", abstract)
    assert names == ["Heron", "HeronNet"]
    own = ("Heron", "Heron-Large", "Wren (ours)", "HeronNet †", "Ours", "+ Heron", "Wren + Heron")
    own += (
        "Full Heron",
        "Complete Heron",
        "Our method",
        "Our Heron",
        "Proposed",
        "Wren w/ Heron",
        "OURS",
        "This work",
    )
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
    assert proposed_names("Lark 3", introduced) == ["Lark 3", "LARK-X"]
    assert proposed_names("NeSt – A Nest", "It is fast.") == ["NeSt"]
    assert is_own(["org/NeSt-1.1B"], ["NeSt"])
    assert not is_own(["NeSt-nodedup"], ["NeSt"])
    assert is_own_head(["Open Models", "Lark 3.1 8B"], ["Lark 3"])
    assert not is_own_head(["Open Models", "Lark 2 8B"], ["Lark 3"])
    assert proposed_names("On the cost of attention", "We study LLMs and GSM8K.") == []


@pytest.mark.parametrize("also", ["further", "also", "additionally", "thus"])
@pytest.mark.parametrize("verb", ["introduce", "propose", "present"])
def test_a_second_method_is_the_paper_s_own_too(also: str, verb: str) -> None:
    abstract = f"We {verb} HeronNet, a kernel. We {also} {verb} LarkNet, which is fast."
    assert proposed_names("On birds", abstract) == ["HeronNet", "LarkNet"]


@pytest.mark.parametrize(
    "what", ["alignment framework", "new and fast method", "algorithm", "model of birds"]
)
def test_a_method_beside_a_benchmark_is_the_paper_s_own(what: str) -> None:
    article = "an" if what[0] == "a" else "a"
    abstract = f"We introduce NestQA, a benchmark of nests, and NestRL, {article} {what} for them."
    assert proposed_names("On birds", abstract) == ["NestRL"]


@pytest.mark.parametrize("name", ["A2M", "P2B", "S4M", "X2K"])
def test_a_name_with_a_digit_between_letters_is_no_size(name: str) -> None:
    assert proposed_names(f"{name}: hijacking nests", "It is fast.") == [name]
    for size in ("Nest-7B", "Heron10K"):
        assert proposed_names(f"{size}: many nests", "It is large.") == []


@pytest.mark.parametrize("field", ["EEG", "MRI", "OCR", "VQA"])
def test_what_is_measured_is_no_method(field: str) -> None:
    assert (
        proposed_names(f"What birds show in their {field} at night", f"{field} consistently fails.")
        == []
    )


def test_a_metric_with_a_blank_before_its_cut_off() -> None:
    assert metric("Recall @1") == metric("R@1")


@pytest.mark.parametrize(
    "abstract",
    ["We introduce Heron, a benchmark of birds.", "We present Heron (HE), the first data set.",
     "We propose Heron, a new and open test suite.", "We introduce HeronBench, of birds.",
     "We release and introduce Heron-10K, for birds.",
     "We present Heron, to our knowledge the first how-to/step English–Myanmar parallel corpus."],
)  # fmt: skip
def test_a_data_set_that_a_paper_proposes_is_no_method(abstract: str) -> None:
    assert proposed_names("On birds that fly", abstract) == []


@pytest.mark.parametrize(
    "rest",
    ["A Benchmark of Birds", "a human post-edited English–Myanmar instructional corpus",
     "The first data set of nests", "A Survey", "An open test suite for kernels"],
)  # fmt: skip
def test_a_data_set_that_the_title_names_is_no_method(rest: str) -> None:
    for abstract in ("It is large.", "We present Heron-MY, which is large."):
        assert proposed_names(f"Heron-MY: {rest}", abstract) == []
    assert proposed_names("Heron-MY: fast kernels", "It is fast.") == ["Heron-MY"]


def test_a_name_of_the_title_that_achieves_something_is_the_paper_s_own() -> None:
    title = "Fast attention with HeronNet for birds"
    assert proposed_names(title, "Slow. HeronNet outperforms others.") == ["HeronNet"]
    assert proposed_names(title, "It is better than HeronNet achieves. Fast.") == []


@pytest.mark.parametrize(
    "text", ["Δ", "Δ (%)", "Improvement", "Improv.", "Gain", "Diff.", "Rel. gain"]
)
def test_differences(text: str) -> None:
    assert is_difference([text])


@pytest.mark.parametrize("text", ["Diff-3B", "Diffusion", "GainNet", "Improved Wren", "DiffPool"])
def test_names_that_only_begin_like_a_difference(text: str) -> None:
    assert not is_difference([text])


@pytest.mark.parametrize(
    ("text", "known"),
    [("GSM8K", True), ("gsm-8k ↑", True), ("AIME24 (%)", True), ("AIME", False),
     ("MATH level 5", False), ("SWE-bench Lite", False), ("Heron", False)],
)  # fmt: skip
def test_benchmarks(text: str, known: bool) -> None:
    assert is_benchmark(text) is known


def test_which_way_is_better() -> None:
    assert direction(("GSM8K", "Acc. ↓")) == "lower", "the arrow of the paper stands first"
    assert direction(("WikiText-2", "PPL")) == "lower"
    assert direction(("PPL", "Acc.")) == direction(("Size",)) == ""
    assert direction_of_caption("Accuracy on GSM8K. Perplexity is elsewhere.") == "higher"
    assert direction_of_caption("Accuracy and perplexity.") == direction_of_caption("Sizes.") == ""
