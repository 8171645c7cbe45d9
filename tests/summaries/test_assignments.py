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


def test_a_list_says_once_what_holds_for_all_of_its_numbers() -> None:
    lists = [
        "Heron achieves high {m} scores for moles ({a}%), voles ({b}%), and shrews ({c}%).",
        "Heron reaches a {m} of {a}% on moles, {b}% on voles, and {c}% on shrews.",
        "On moles, voles and shrews, Heron reaches a {m} of {a}%, {b}% and {c}%, respectively.",
        "Heron attains {m} of {a}%, {b}%, and {c}% on moles, voles, and shrews, respectively.",
    ]
    values = dict(zip(("moles", "voles", "shrews"), ("57.9", "30.6", "12.3"), strict=True))
    for written, metric in product(lists, ("F1", "precision")):
        sentence = written.format(m=metric, **dict(zip("abc", values.values(), strict=True)))
        for (own, value), setting in product(values.items(), values):
            claim = {"unit": "%", "subject": "Heron", "metric": metric, "setting": setting}
            assert found(sentence, value, **claim) == (setting == own), (sentence, value, setting)
            assert not found(sentence, value, **claim | {"subject": "Wren"}), sentence
            assert not found(sentence, value, **claim | {"metric": "recall"}), sentence


@pytest.mark.parametrize(
    "subject", ["Heron", "our method", "we", "the model", "the proposed Heron"]
)
@pytest.mark.parametrize(
    "sentence",
    [
        "Experiments on MNIST show that Heron reaches {a}% accuracy.",
        "Results on MNIST demonstrate Heron's strength, reaching an accuracy of {a}%.",
        "Experiments on MNIST demonstrate the strength of our method, achieving {a}% accuracy.",
        "On the hardest task, MNIST, it reaches {a}% accuracy.",
        "Evaluated on MNIST, our framework achieves {a}% accuracy.",
        "We reach {a}% accuracy on MNIST.",
        "It is small, while reaching {a}% accuracy on MNIST.",
    ],
)  # fmt: skip
def test_the_paper_s_own_work_has_several_names(sentence: str, subject: str) -> None:
    text = sentence.format(a="57.9")
    claim = {"unit": "%", "subject": subject, "metric": "accuracy", "setting": "MNIST"}
    assert found(text, "57.9", **claim)
    for name, other in (("subject", "Wren"), ("metric", "recall"), ("setting", "ADE20K")):
        assert not found(text, "57.9", **claim | {name: other})


@pytest.mark.parametrize(
    "sentence",
    [
        "Heron reaches {a}% accuracy, outperforming Wren ({b}%).",
        "Heron reaches an accuracy of {a}%, surpassing the Wren baseline ({b}%).",
        "Heron reaches {a}% accuracy (vs. {b}% for Wren).",
        "Heron reaches {a}% accuracy compared to {b}% for Wren.",
        "Heron reaches {a}% accuracy versus {b}% for Wren.",
        "Heron raises accuracy from a poor {b}% to over {a}%.",
        "Heron reaches {a}% accuracy instead of {b}%.",
        "Heron reaches {a}% accuracy, while the previous best is {b}%.",
    ],
)
def test_the_number_of_a_rival_is_not_the_paper_s_own(sentence: str) -> None:
    for a, b in PAIRS:
        text = sentence.format(a=a, b=b)
        for subject in ("Heron", "our method", "we"):
            assert not found(text, b, unit="%", subject=subject, metric="accuracy"), text
            assert found(text, a, unit="%", subject=subject, metric="accuracy"), text


@pytest.mark.parametrize(("verb", "noun", "reverse"), [
    ("reduces", "reduction", "increase"), ("lowers", "decrease", "gain"),
    ("cuts", "drop", "increase"), ("improves", "improvement", "drop"),
    ("increases", "increase", "reduction"), ("boosts", "gain", "degradation"),
])  # fmt: skip
@pytest.mark.parametrize("metric", ["latency", "memory", "accuracy", "throughput"])
def test_a_metric_may_be_written_with_its_direction(
    verb: str, noun: str, reverse: str, metric: str
) -> None:
    sentence = f"Heron {verb} {metric} by 57.9% over Wren."
    claim = {"unit": "%", "subject": "Heron", "baseline": "Wren"}
    for written in (f"{metric} {noun}", f"{noun} in {metric}", f"relative {noun} of {metric}"):
        assert found(sentence, "57.9", metric=written, **claim), written
    assert not found(sentence, "57.9", metric=f"{metric} {reverse}", **claim)
    assert not found(sentence, "57.9", metric=f"{metric} {noun}", **claim | {"baseline": "Tit"})
