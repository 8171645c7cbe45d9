"""Claims about the numbers of one sentence, in the ways in which sentences say two of them."""

from __future__ import annotations

from itertools import product

import pytest

from webapp.summaries.agreement import Agreement, check_claim
from webapp.summaries.paper_text import PaperText
from webapp.summaries.schema import ClaimedNumber

PAIRS = [("57.9", "30.6"), ("91.2", "78.4"), ("8.12", "7.99")]
METRICS = ("accuracy", "F1", "success rate")


def check(sentence: str, value: str, **fields: str) -> Agreement:
    text = PaperText("Heron", f"We study nests. {sentence} It is fast.", [])
    claim = ClaimedNumber(
        metric=fields.pop("metric", "score"), value=value, quote=sentence, **fields
    )
    return check_claim(claim, text)


def found(sentence: str, value: str, **fields: str) -> bool:
    return check(sentence, value, **fields).is_found


def otherwise(sentence: str, value: str, **fields: str) -> str:
    return check(sentence, value, **fields).otherwise


@pytest.mark.parametrize(("pair", "metric"), [*product(PAIRS, METRICS)])
@pytest.mark.parametrize(
    "sentence",
    [
        "Heron reaches a {m} of {a}% on MNIST and {b}% on ADE20K.",
        "Heron attains {a}% {m} on MNIST and {b}% on ADE20K.",
        "Heron achieves {a}% {m} on MNIST, and {b}% {m} on ADE20K.",
        "On both sets, Heron has a {m} of {a}% for MNIST and of {b}% for ADE20K.",
        "Heron obtains a {m} of {a}% (MNIST) and {b}% (ADE20K).",
    ],
)
def test_one_subject_and_two_settings(pair: tuple[str, str], metric: str, sentence: str) -> None:
    text = sentence.format(a=pair[0], b=pair[1], m=metric)
    for value, own, other in ((pair[0], "MNIST", "ADE20K"), (pair[1], "ADE20K", "MNIST")):
        for setting in ("", own, f"{own} test set"):
            assert not otherwise(
                text, value, unit="%", subject="Heron", metric=metric, setting=setting
            )
        assert not found(text, value, unit="%", subject="Heron", metric=metric, setting=other), text


@pytest.mark.parametrize(("pair", "metric"), [*product(PAIRS, METRICS)])
@pytest.mark.parametrize(
    "sentence",
    [
        "Heron reaches a {m} of {a}% and the Wren baseline {b}%.",
        "On MNIST, Heron keeps {a}% of the {m}, while Wren keeps {b}%.",
        "Heron achieves {a}% {m} and Wren reaches {b}%.",
        "Heron and Wren reach a {m} of {a}% and {b}%, respectively.",
        "Heron reaches {a}% {m}, whereas Wren has {b}%.",
    ],
)
def test_two_subjects(pair: tuple[str, str], metric: str, sentence: str) -> None:
    text = sentence.format(a=pair[0], b=pair[1], m=metric)
    for value, own, other in ((pair[0], "Heron", "Wren"), (pair[1], "Wren", "Heron")):
        assert not otherwise(text, value, unit="%", subject=own, metric=metric)
        assert not found(text, value, unit="%", subject=other, metric=metric), text


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "sentence",
    [
        "Heron reaches {a}% precision and {b}% recall.",
        "Heron achieves a precision of {a}% and a recall of {b}%.",
        "Heron improves precision by {a}% and recall by {b}%.",
        "Heron shows a {a}% increase in precision and a {b}% increase in recall.",
        "Heron has a precision of {a}%, a recall of {b}%, and is small.",
    ],
)
def test_one_subject_and_two_metrics(pair: tuple[str, str], sentence: str) -> None:
    text = sentence.format(a=pair[0], b=pair[1])
    for value, own, other in ((pair[0], "precision", "recall"), (pair[1], "recall", "precision")):
        assert not otherwise(text, value, unit="%", subject="Heron", metric=own), text
        assert not found(text, value, unit="%", subject="Heron", metric=other), text


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "sentence",
    [
        "Heron reaches {a}% accuracy compared to {b}% in earlier work.",
        "Heron reaches an accuracy of {a}% versus {b}% of the baseline.",
        "Heron improves accuracy from {b}% to {a}%.",
        "Heron has {a}% accuracy, while the previous best accuracy is {b}%.",
    ],
)
def test_a_number_of_others_is_not_the_papers_own(pair: tuple[str, str], sentence: str) -> None:
    text = sentence.format(a=pair[0], b=pair[1])
    assert not otherwise(text, pair[0], unit="%", subject="Heron", metric="accuracy"), text
    assert not otherwise(text, pair[1], unit="%", subject="the previous best", metric="accuracy"), (
        text
    )
    assert not found(text, pair[1], unit="%", subject="Heron", metric="accuracy"), text


@pytest.mark.parametrize("size", ["tiny", "small", "large", "7B", "70B"])
def test_another_size_of_a_model_is_another(size: str) -> None:
    sentence = f"Heron-{size} reaches 57.9% accuracy."
    assert not otherwise(sentence, "57.9", unit="%", subject=f"Heron-{size}", metric="accuracy")
    assert not found(sentence, "57.9", unit="%", subject="Heron-base", metric="accuracy")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("Heron reaches {a}% accuracy on MNIST.", {"setting": "MNIST"}),
        ("On MNIST, Heron reaches an accuracy of {a}%.", {"setting": "MNIST"}),
        ("Heron reaches {a}% precision and an accuracy of {b}%.", {"value": "{b}"}),
        ("Heron reaches {a}% accuracy, while Wren reaches {b}% accuracy.", {}),
        (
            "Heron reaches {a}% accuracy, while Wren reaches {b}% accuracy.",
            {"value": "{b}", "subject": "Wren"},
        ),
        ("Heron is small and reaches {a}% accuracy.", {}),
        ("Our method reaches {a}% accuracy.", {"subject": "our method"}),
    ],
)
def test_a_claim_is_found_where_one_sentence_gives_all_of_it(
    pair: tuple[str, str], sentence: str, fields: dict[str, str]
) -> None:
    a, b = pair
    claim = {"value": "{a}", "subject": "Heron", "metric": "accuracy", "unit": "%"} | fields
    claim = {name: value.format(a=a, b=b) for name, value in claim.items()}
    text = sentence.format(a=a, b=b)
    assert found(text, **claim)
    for name, other in (("subject", "Tit"), ("metric", "recall"), ("setting", "ADE20K")):
        assert not found(text, **claim | {name: other})
