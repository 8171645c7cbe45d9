"""A claim is verified only when its quote stands in the text and its value in the quote."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webapp.summaries.folding import fold
from webapp.summaries.grounding import GroundTruth
from webapp.summaries.numbers import numbers

TEXT = """We improve accuracy from 74.97 to 79.66 on MNLI, cut memory by 83.6\u2009% (15.2 → 2.5 GB)
and run $2.6\\times$ faster at 4,096 tokens. The ﬁnal loss of effi-
cient decoding is −0.52 and 21.7 BLEU; a 2–3× gain over GPT-4 with 10² heads. It takes 3.5 ms
a token, three times less than before, and 12 per cent fewer FLOPs."""


@pytest.mark.parametrize(
    ("value", "unit", "quote"),
    [
        ("79.66", "%", "accuracy from 74.97 to 79.66 on MNLI"),
        ("74.97 -> 79.66", "", "improve accuracy from 74.97 to 79.66"),
        ("from 74.97 to 79.66", "", "We improve accuracy from 74.97 to 79.66"),
        ("83.6", "%", "cut memory by 83.6%"),
        ("83.6%", "", "cut memory by 83.6 percent"),
        ("83.6", "", "cut memory by 83.6"),
        ("2.6", "x", "and run 2.6× faster at 4096 tokens"),
        ("2.6×", "", "run $2.6\\times$ faster at 4,096 tokens"),
        ("4096", "tokens", "faster at 4,096 tokens"),
        ("-0.52", "", "The final loss of efficient decoding is −0.52"),
        ("2-3", "x", "a 2-3x gain over GPT-4"),
        ("21.7", "BLEU", "is -0.52 and 21.7 BLEU"),
        ("3.5", "ms", "It takes 3.5 ms a token"),
        ("12", "%", "and 12% fewer FLOPs"),
        ("79.660", "", "accuracy from 74.97 to 79.66 on MNLI"),
    ],
)
def test_what_stands_is_verified(value: str, unit: str, quote: str) -> None:
    finding = GroundTruth(TEXT).ground(value, unit, quote)
    assert finding.verified, finding.reason


@pytest.mark.parametrize(
    ("value", "unit", "quote", "why"),
    [
        ("99.9", "%", "accuracy from 74.97 to 79.66 on MNLI", "value"),
        ("79.66", "%", "accuracy rises to 79.66 on MNLI", "quote does not"),
        ("83.6", "x", "cut memory by 83.6%", "value"),
        ("83.6", "x", "cut memory by 83.6", "value"),  # the quote was cut before its unit
        ("6", "x", "6x faster at 4096 tokens", "value"),  # cut out of 2.6
        ("1.7", "BLEU", "1.7 BLEU; a 2-3x gain", "value"),  # cut out of 21.7
        ("79.6", "", "accuracy from 74.97 to 79.6", "value"),  # cut out of 79.66
        ("0.52", "", "efficient decoding is -0.52", "value"),  # the sign is gone
        ("0.52", "", "0.52 and 21.7 BLEU", "value"),  # the sign was cut off
        ("102", "", "gain over GPT-4 with 10² heads", "value"),
        ("4", "", "gain over GPT-4 with 10² heads", "value"),  # a name is no number
        ("79.66 -> 74.97", "", "accuracy from 74.97 to 79.66", "value"),  # turned round
        ("3.5", "s", "It takes 3.5 ms a token", "value"),
        ("2.5", "%", "15.2 → 2.5 GB", "value"),
        ("3.5", "", "3.5", "too short"),
        ("large", "", "We improve accuracy from", "not a number"),
        ("", "", "We improve accuracy from", "not a number"),
        ("2.6", "x", "run 2.6x faster " + "and faster " * 200, "longer"),
    ],
)
def test_what_does_not_stand_is_not_verified(value: str, unit: str, quote: str, why: str) -> None:
    finding = GroundTruth(TEXT).ground(value, unit, quote)
    assert not finding.verified
    assert why in finding.reason


def test_numbers_in_prose_may_be_words() -> None:
    truth = GroundTruth(TEXT)
    assert truth.holds_number("3")
    assert truth.holds_number("83.6")
    assert not truth.holds_number("5")
    assert not truth.holds_number("83.61")


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("ﬁve eﬃcient", "five efficient"),
        ("effi-\n  cient", "efficient"),
        ("state-of-the-\nart", fold("state-of-the-art")),
        ("GPT-4 at 2-3", "gpt-4 at 2-3"),
        ("12 345", "12 345"),
        ("12\u2009345", "12345"),
        ("1,234,567", "1234567"),
        ("5 × 3", "5x 3"),
        ("50 per cent", "50%"),
        ("10²", "10^2"),
        ("H₂O", "h_2o"),
        ("$\\approx 3\\%$", "~ 3%"),
        ("“quoted”", '"quoted"'),
        ("−1", "-1"),
    ],
)
def test_folding(written: str, plain: str) -> None:
    assert fold(written) == plain


def test_folding_twice_is_folding_once() -> None:
    assert fold(fold(TEXT)) == fold(TEXT)


WORDS = st.sampled_from(["model", "reaches", "accuracy", "of", "the", "memory", "and", "loses"])
FIGURES = st.decimals(min_value=Decimal("0.1"), max_value=Decimal("999"), places=2)
UNITS = st.sampled_from(["%", "x", " ms", " GB", ""])


@st.composite
def sentences(draw: st.DrawFn) -> tuple[str, str, str]:
    """A sentence that holds one figure, with the figure and its unit."""
    before = " ".join(draw(st.lists(WORDS, min_size=3, max_size=6)))
    after = " ".join(draw(st.lists(WORDS, min_size=2, max_size=6)))
    figure, unit = str(draw(FIGURES)), draw(UNITS)
    return f"{before} {figure}{unit} {after}.", figure, unit.strip()


@settings(max_examples=300)
@given(st.lists(sentences(), min_size=1, max_size=5), FIGURES, st.data())
def test_no_invented_number_is_verified(
    paper: list[tuple[str, str, str]], invented: Decimal, data: st.DataObject
) -> None:
    """Whatever is cut out of the paper as a quote, only figures of that sentence are verified."""
    text = " ".join(s for s, _, _ in paper)
    sentence, _, _ = data.draw(st.sampled_from(paper))
    start = data.draw(st.integers(0, len(sentence) // 2))
    end = data.draw(st.integers(len(sentence) // 2, len(sentence)))
    quote = sentence[start:end]
    true_figures = {Decimal(f) for _, f, _ in paper}
    cut_figures = {n.value for n in numbers(fold(quote))}  # 23.52 may have become 3.5
    truth = GroundTruth(text)
    for value in {invented, *cut_figures}:
        if truth.ground(str(value), "", quote).verified:
            assert value in true_figures


@settings(max_examples=200)
@given(sentences(), st.sampled_from(["%", "x", "ms", "GB"]))
def test_a_wrong_unit_is_not_verified(paper: tuple[str, str, str], unit: str) -> None:
    sentence, figure, true_unit = paper
    verified = GroundTruth(sentence).ground(figure, unit, sentence).verified
    assert verified == (true_unit in {unit, ""})


@settings(max_examples=200)
@given(st.text(max_size=300), st.text(max_size=40), st.text(max_size=200))
def test_hostile_text_never_raises(text: str, value: str, quote: str) -> None:
    GroundTruth(text).ground(value, value, quote)
    GroundTruth(text).holds_number(value)
