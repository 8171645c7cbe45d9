"""What the rules take from an abstract, on abstracts written for this test."""

from __future__ import annotations

import json
from pathlib import Path

from webapp.summaries.extract import key_sentences, reported_numbers, sentences

CASES = json.loads((Path(__file__).parent / "abstracts.json").read_text())


def test_numbers_with_units_are_found_with_high_precision() -> None:
    found = wanted = right = 0
    for case in CASES:
        got = {(r.value, r.unit.strip()) for r in reported_numbers(case["abstract"])}
        true = {tuple(pair) for pair in case["numbers"]}
        found, wanted, right = found + len(got), wanted + len(true), right + len(got & true)
    assert wanted >= 60
    assert right / found >= 0.95
    assert right / wanted >= 0.80


def test_sentences_keep_decimals_and_abbreviations_whole() -> None:
    text = "We cut cost by 3.5 x, e.g. On GPUs. See Fig. 2 and others (Smith et al. 2020). Done!"
    assert sentences(text) == [
        "We cut cost by 3.5 x, e.g. On GPUs.",
        "See Fig. 2 and others (Smith et al. 2020).",
        "Done!",
    ]


def test_key_sentences_say_what_was_done_and_found_in_reading_order() -> None:
    abstract = (
        "Attention is costly. Many have tried to change this. We propose a sparse attention for "
        "long texts. It is simple. Experiments show a 3.5x speed-up at equal quality."
    )
    assert key_sentences(abstract, 2) == [
        "We propose a sparse attention for long texts.",
        "Experiments show a 3.5x speed-up at equal quality.",
    ]


def test_an_empty_abstract_says_nothing() -> None:
    assert key_sentences("") == []
    assert reported_numbers("   ") == []
