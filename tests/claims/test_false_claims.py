"""Numbers that are no results, by kind, each in several ways of writing."""

from __future__ import annotations

import pytest

from webapp.claims.extraction.claims import claims_of

KINDS = {
    "threshold": [
        "We improve recall at an IoU threshold of 0.5.",
        "Our detector is better with a confidence threshold of 70%.",
        "Our filter improves results and drops pairs with a similarity threshold of 0.85.",
        "Our method improves at a significance level of 5%.",
        "Our gains hold for p < 0.05.",
    ],
    "share of parameters": [
        "Our method improves results while tuning only 1% of model parameters.",
        "Ours improves adaptation with 0.02% additional parameters.",
        "We improve it by updating just 0.5% of the parameters.",
        "Ours is better and trains merely 2% of the weights.",
        "Our adapter adds 3.1% of the backbone parameters and is better.",
    ],
    "size": [
        "We improve a 7B model and a 70B model.",
        "Our 1.3B-parameter model is better than others.",
        "We improve models with 13 billion parameters.",
        "Our model improves images of 512x512 pixels.",
        "We improve retrieval with an index of 4,096 dimensions.",
    ],
    "year": [
        "We improve forecasts from 2012 to 2020.",
        "Our results for 2023 are better than those of 2019.",
        "We improve on the winners of 2024.",
        "Our dataset, which spans 1998-2016, improves training.",
    ],
    "number of data sets": [
        "We improve results on 12 datasets.",
        "Across 20 benchmarks and 5 tasks our model is better.",
        "Our method outperforms others on nine of ten data sets.",
        "We evaluate 37 models in 14 languages and improve them.",
        "Experiments on three benchmarks show that ours is better.",
    ],
    "version": [
        "We improve Llama 3.1 and Qwen2.5-VL.",
        "Our agent is better than GPT-4.1 and Claude 3.5 Sonnet.",
        "Our system improves on YOLO v11 and Gemini 2.5 Pro.",
        "We improve it with CUDA 12.4 and PyTorch 2.1.",
        "Our results on RECIST v1.1 and COCO 2017 are better.",
    ],
}


@pytest.mark.parametrize(
    ("kind", "abstract"), [(kind, one) for kind, ways in KINDS.items() for one in ways]
)
def test_a_number_of_this_kind_is_no_claim(kind: str, abstract: str) -> None:
    assert claims_of(abstract) == [], kind


def test_a_year_is_no_end_of_a_change() -> None:
    shown = [c.shown for c in claims_of("Our rate fell from 26.3% in 2022 to 0.97% in 2025.")]
    assert "2022 → 0.97%" not in shown


@pytest.mark.parametrize(
    "abstract",
    [
        "We present Heron. It reaches 0.5 mAP at an IoU threshold of 0.5.",
        "We present Heron. Tuning 1% of the parameters, it reaches 71% accuracy.",
        "We present Heron. Our 7B model reaches 71% accuracy on 12 datasets.",
        "We present Heron. Heron outperforms GPT-4.1 with 71% accuracy on COCO 2017.",
    ],
)
def test_a_result_beside_them_is_one(abstract: str) -> None:
    (claim,) = claims_of(abstract)
    assert claim.value in {"71", "0.5"}
    assert claim.end < abstract.index(" ", claim.end) or claim.metric
