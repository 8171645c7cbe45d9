"""Quotes of abstracts: the shortest clause that stands alone, word for word."""

from __future__ import annotations

import itertools

import pytest

from tests.clock import ends_within
from webapp.claims.extraction.quotes import TWO_LINES, quotes, shortest
from webapp.claims.extraction.reported import reported_numbers

PROPOSED = "We propose Heron, a sparse attention. "
NUMBERS = ["4.2x", "40%", "from 38 ms to 16 ms", "$4.2\\times$", "$40\\%$", "up to 3.1x", "12 GB"]
# Ways to begin a sentence about the paper's own work, each with what may be left away in front.
OWN = ["Heron", "It", "Our method", "We"]
RUN_UPS = ["", "Moreover, ", "Experiments show that ", "Notably, our results demonstrate that "]
FIRST = {"Heron": "reduces latency by", "It": "reduces latency by", "We": "reduce latency by"}
# How a further clause may follow one that holds a number, and what of it is quoted.
FURTHER = {
    ", while maintaining 98% of the accuracy": "maintaining 98% of the accuracy",
    " while maintaining 98% of the accuracy": "maintaining 98% of the accuracy",
    ", outperforming SnapKV by 4.1 points": "outperforming SnapKV by 4.1 points",
    ", thereby reducing memory by 51%": "reducing memory by 51%",
    ", leading to a 2.9x speedup": "leading to a 2.9x speedup",
    " and improves accuracy by 2.7%": "improves accuracy by 2.7%",
    ", and outperforms SnapKV by 4.1 points": "outperforms SnapKV by 4.1 points",
    ", and its accuracy reaches 71.3% on MMLU": "its accuracy reaches 71.3% on MMLU",
    "; its accuracy reaches 71.3% on MMLU": "its accuracy reaches 71.3% on MMLU",
}


def texts(abstract: str) -> list[str]:
    return [quote.text.rstrip(".") for quote in quotes(abstract)]


def plain(written: str) -> str:
    return written.replace("$4.2\\times$", "4.2×").replace("$40\\%$", "40%")


@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("subject", OWN)
def test_clauses_with_a_verb_of_their_own_are_apart(subject: str, further: str) -> None:
    verb = FIRST.get(subject, "reduces latency by")
    for run_up, number in itertools.product(RUN_UPS, NUMBERS):
        begins = subject if not run_up or subject == "Heron" else subject.lower()
        first = f"{begins} {verb} {number}"
        abstract = f"{PROPOSED}{run_up}{first}{further}."
        assert texts(abstract) == [plain(first), FURTHER[further]], abstract


@pytest.mark.parametrize(
    "sentence",
    [
        # A list, a comparison or a name holds what belongs together.
        "Heron reduces latency by 3x, 4x and 5x on MMLU, GSM8K and MATH.",
        "Heron reaches 71% on MMLU, 82% on GSM8K, and 64% on MATH.",
        "Heron reduces latency by 3x and memory by 40%.",
        "Heron reaches an accuracy of 71%, compared with 65% for SnapKV.",
        "Heron reaches 71%, whereas SnapKV reaches 65%.",
        "Heron is 3x faster than Search, Read and Keep (SRK), and than FlashAttention-2.",
        "Heron and Egret reach 71% and 82%, and reduce memory by 3x and 4x, respectively.",
        "Heron reduces latency (by 3x, reducing memory by 40%, on MMLU).",
        "Heron achieves 71% accuracy and lower latency of 16 ms.",
        # The subject is not the paper's own work, or stands before an opening phrase.
        "GPT-4o achieves 71% accuracy and loses 4% with our noise.",
        "On MMLU, Heron reduces latency by 3x and improves accuracy by 4%.",
        "By reducing blocks, Heron reduces latency by 3x, outperforming SnapKV by 4 points.",
        "Models trained with Heron improve by 3%, and outperform SnapKV by 4 points.",
        "This was achieved by Egret, which reduces latency by 3x.",
        # What limits a number stays with it.
        "Heron reduces latency by 3x, but not without a loss of 4% in accuracy.",
        "Heron reduces latency by 3x if accuracy drops by 4%, and improves recall by 2%.",
    ],
)
def test_what_belongs_together_stands_together(sentence: str) -> None:
    assert texts(PROPOSED + sentence) == [sentence.rstrip(".")]


def test_every_number_stands_in_one_quote_word_for_word() -> None:
    abstract = PROPOSED + " ".join(
        f"Heron reduces latency by 3.{i}x{further}." for i, further in enumerate(FURTHER)
    )
    found = quotes(abstract)
    spans = [(n.start, n.end) for quote in found for n in quote.numbers]
    assert spans == [(n.start, n.end) for n in reported_numbers(abstract)]
    for quote in found:
        assert quote.clause == abstract[quote.start : quote.start + len(quote.clause)]


def test_a_number_in_a_formula_is_marked_whole() -> None:
    (quote,) = quotes("We present Heron. Heron is $4.2\\times$ faster than $O(n^2)$ attention.")
    assert quote.parts[1] == ("4.2×", True)
    assert quote.html.startswith("Heron is <b><math")
    assert quote.html.count("<b>") == 1
    assert "<script" not in quotes("We are 3x faster than <script>alert(1)</script> ones.")[0].html


def test_a_number_in_a_group_of_tex_is_bold_and_plain() -> None:
    (quote,) = quotes("We are \\textbf{40% faster} than \\emph{dense} attention.")
    assert quote.html == "We are <strong><b>40%</b> faster</strong> than <em>dense</em> attention."
    assert quote.parts == [("We are 40% faster than dense attention.", False)]


def test_a_row_shows_the_first_quote_that_fits() -> None:
    long = "We reduce the latency of " + "very " * 40 + "large models by 3x."
    assert shortest(quotes("")) is None
    first = shortest(quotes(f"{long} We reduce memory by 40%. We reduce cost by 3x."))
    assert first is not None
    assert first.text == "We reduce memory by 40%."
    only = shortest(quotes(long))
    assert only is not None
    assert len(only.text) > TWO_LINES


@pytest.mark.parametrize("repeated", [", and reduces", "; it is 3x", "(", "$3\\times$ ", "3x and "])
def test_a_hostile_abstract_is_quoted_in_time(repeated: str) -> None:
    text = "We improve accuracy by " + repeated * (10_000 // len(repeated))
    assert ends_within(3, quotes, text)


@pytest.mark.parametrize(
    ("sentence", "is_said"),
    [
        ("We propose Heron, which reduces latency by 3.1x.", True),
        ("We propose Heron, which reduces latency by 3.1x …", True),
        ("we propose heron, which reduces latency by 3.1x on all of its pages.", True),
        ("We propose Heron …", False),
        ("Heron is quick.", False),
        ("", False),
    ],
)
def test_a_quote_repeats_what_has_its_words_and_numbers(sentence: str, is_said: bool) -> None:
    (quote,) = quotes("We propose Heron, which reduces latency by 3.1x.")
    assert quote.repeats(sentence) is is_said
