"""The claims that rules take from abstracts, on abstracts written for this test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from webapp.summaries.extraction.claims import claims_of
from webapp.summaries.extraction.place import Context, sentences
from webapp.summaries.numbers import fold_with_places

CASES = json.loads((Path(__file__).parent / "abstracts.json").read_text())


def _overlap(claim: Any, span: list[int]) -> bool:
    return bool(claim.start < span[1] and span[0] < claim.end)


def test_claims_are_found_with_high_precision_and_recall() -> None:
    found = right = wanted = missed = 0
    for case in CASES:
        claims = claims_of(case["abstract"])
        optional = case.get("optional", [])
        counted = [c for c in claims if not any(_overlap(c, span) for span in optional)]
        found += len(counted)
        right += sum(any(_overlap(c, span) for span in case["claims"]) for c in counted)
        wanted += len(case["claims"])
        missed += sum(not any(_overlap(c, span) for c in claims) for span in case["claims"])
    assert wanted >= 75
    assert right / found >= 0.95
    assert 1 - missed / wanted >= 0.90


@pytest.mark.parametrize(
    ("abstract", "span"),
    [
        ("We cut latency from 38 ms to 16 ms.", "from 38 ms to 16 ms"),
        (r"Our method is $2.6\times$ faster.", r"2.6\times"),
        (r"We save 40\%--60\% of the memory.", r"40\%--60\%"),
        ("Our decoder gives an eightfold speed-up.", "eightfold"),
        ("We reach 12,500 tokens per second on one GPU.", "12,500 tokens per second"),
        ("Our accuracy is 79.3 ± 0.4 %.", "79.3 ± 0.4 %"),
        ("Accuracy improves by 2.1 percentage points.", "2.1 percentage points"),
        ("We cut consumption to 15.7% ~ 32.7% of it.", "15.7% ~ 32.7%"),
        ("Our attack cuts the passwords found, going from 37 to 0.", "from 37 to 0"),
        ("Our model runs at 31 FPS.", "31 FPS"),
        ("Our decoder cuts latency to 1 234 ms.", "1 234 ms"),
        ("Our decoder cuts latency to 1/2 ms.", "1/2 ms"),
        ("Our attack improves, with a success rate of 94%.", "94%"),
        ("We achieve gains over standard training ranging from 9.7%-16.3%.", "9.7%-16.3%"),
        ("Accuracy improves by 3% when trained longer.", "3%"),
        ("Our cache doubles the throughput.", "doubles"),
        ("我们的方法将推理速度提升了三倍。", "三倍"),
        (r"Our readers agree better ($\kappa = 0.71$).", "0.71"),
        ("We evaluate on COCO, where our mAP@0.5 is 48.6.", "48.6"),
        ("Our cache handles it at 45 ms/token.", "45 ms"),
        ("Our model achieves the highest score (macro $F_1$ 0.822).", "0.822"),
        ("Our detector is better on Delplanque (0.934 AP).", "0.934"),
        ("We halve the training time.", "halve"),
        ("Our decoding becomes almost twice as fast.", "twice"),
        ("Our index takes up 4.2 GB.", "4.2 GB"),
        ("Our cache gives a 3.6-fold rise in batch size.", "3.6-fold"),
        ("我们将延迟从120毫秒降低到45毫秒。", "从120毫秒降低到45毫秒"),
    ],
)
def test_the_offsets_are_those_of_number_and_unit(abstract: str, span: str) -> None:
    (claim,) = claims_of(abstract)
    assert abstract[claim.start : claim.end].strip("$") == span


@pytest.mark.parametrize(
    "abstract",
    [
        "The effect is significant (p < 0.01), 95% CI [0.71, 0.93].",
        "We train a 7B model on 256 GPUs for 300 epochs with a learning rate of 3e-4.",
        "We use 256 $\\times$ 256 crops and 16 kHz audio of 20 hours.",
        "We compare against 10 ML baselines and print on a 350 USD printer.",
        "The region$\\unicode{x2014}$found by our method$\\unicode{x2014}$grows with noise.",
        "Our method works while using only 1.9% of the total number of frames.",
        "Our model sorts damage into three degrees and improves on models with double its "
        "parameter count.",
        "Abstaining from the 10% most uncertain cases improves our results.",
        "We find that a limited 30% subset of the scans gives better results.",
        "We collect a corpus of approximately 20,000 hours to improve generation.",
        "Our robot succeeds more often when crossing a 40m field.",
        "Our method improves on Llama at 10%, 20%, and 50% sparsity.",
        "We rate the improvements on a 5-point Likert scale and exceed the threshold (60%).",
        "Our detector improves object F1 at IoU 0.3 and runs faster at 224px.",
        "Our error is lower at a signal-to-noise ratio (SNR) of 10 dB.",
        "We improve models by extending their context from 32K to 128K context tokens.",
        "We improve a family from 300M variants to 7B with only 7% of the model's parameters.",
        "Our planner is better as graphs grow from 5 to 100 actions.",
        "Our results are homogeneous (I^2 = 0%).",
        "We improve the cube at a mere 6.25% sampling rate.",
        "At 240 Hz, our tracker achieves better results.",
        "We add a SideNet (1-2% backbone size) and gain accuracy.",
        "Our recall improves at 85% cloud coverage.",
        "Our method improves results at $\\times 8$ scaling.",
        "Our detector improves on small (approx. 30 pixels wide) objects.",
        "Worldwide, almost 30% of patients relapse. We propose a model of this.",
        "We compare Gemini 2.5, GPT-4.1 and Llama 3.1 on CIFAR-10 in 2024.",
        "The data set comprises 82% training images and 18% test images.",
        "Our contributions are threefold. We double check every label.",
        "We train with only 10% of the labels, at a threshold of 0.5.",
        "Our images improve at high acceleration factors (x4, x8 and x12).",
        "Our results are robust to temperature (0.7 vs. 1.0) and improve at horizons (3s and 8s).",
        "We improve recognition even at an extremely low sampling rate (5%).",
        "The improvement is found with a $p$-value smaller than 0.001 ([88-93%]).",
        "Our verdicts improve and are stable across all T in (0%, 50%].",
        "Our runs cover time-frames from 1 to 60 seconds and bit depths from 10 to 24.",
        "Reducing the rank from 16 to 8 improves our results, also at 1% FLOPs.",
        "We obtain tighter confidence intervals (90%, 95%, 99%).",
        "Our detector improves at IoU thresholds ranging from 50% to 95%.",
        "X2SAM improves on audio chunks (e.g., 600 ms) and four training regimes (25%, 50%).",
        "We improve it at x2, x4 and x8 scales with 3 degrees of freedom, asked 10 times.",
        "We improve a standard 4x diffusion model and use the 5-fold predictions.",
        "Our radar of 6-TX x 8-RX improves on an area of 100 m x 100 m.",
        "Our videos generate a wider 360\u00b0 view, and errors fall below a strict 5-m threshold.",
        "We evaluate on 300W-LP and improve a 5-point rating framework.",
        "We show that once 80% of the patents share a part, the cover improves.",
        "By lifting less than 3% of images into space, our method improves.",
        "Our blocks, which contain 90% of the parameters, improve with 5% of the model.",
        "We split them into 70% training, 10% validation and 20% testing and improve on it.",
        "We improve on what models have been reported to reach: 90% accuracy.",
        "We improve on a curated set of 425 h and on videos of more than 1 hour.",
        "Our model maps raw pixels at 5 Hz to keys, or videos at 24 fps.",
        "Our simulations were run for 100 ns and improve with 1,000 track points.",
        "We pretrain on more than 40 GB of equations and reduce their number.",
        "We improve throughput on one H100 with 80 GB of memory.",
        "Our gains are larger with a 1 percent COCO setup.",
        "Our detector improves at a specificity of 90%.",
        "Attention is 3 times slower than convolution. We propose a cache.",
        "Convolutions improve accuracy by 12%. However, they are slow. We ask why.",
    ],
)
def test_settings_sizes_and_background_are_no_claims(abstract: str) -> None:
    assert claims_of(abstract) == []


def test_a_claim_says_what_it_is_of() -> None:
    (claim,) = claims_of(
        "Our quantised model stays within 0.2 points of standard attention on MNLI and SQuAD."
    )
    assert (claim.value, claim.unit) == ("0.2", "points")
    assert "MNLI and SQuAD" in claim.setting
    fall, faster = claims_of(
        "On WMT14, our encoder reduces peak memory from 24.3 GB to 3.1 GB and is 2.6x faster than "
        "the dense Transformer."
    )
    assert (fall.metric, fall.value, fall.unit) == ("peak memory", "24.3 -> 3.1", "GB")
    assert (faster.metric, faster.baseline) == ("faster", "the dense Transformer")
    assert fall.shown == "24.3 → 3.1 GB"
    assert fall.quote.startswith("On WMT14")
    assert fall.quote.endswith("Transformer.")


@pytest.mark.parametrize(
    ("abstract", "metrics"),
    [
        ("We reduce training time while boosting our speed to 350 FPS.", ["speed"]),
        ("We cut memory by 4.7 GB and code size by a factor of 3.", ["memory", "code size"]),
        ("We raise accuracy by 3.5% and temporal IoU by 11.0.", ["accuracy", "temporal IoU"]),
        ("Our detector achieves 55.8 AP at 15.8 FPS.", ["AP", "frame rate"]),
        ("Our pass@1 score rises by 12.4 points to 63.8%.", ["pass@1 score"] * 2),
        ("Our cache halves the training time.", ["training time"]),
        ("Our runs take 30 seconds.", ["time"]),
        ("With ours the length of the proof falls by 12%.", ["length of the proof"]),
        ("We see 4.8% and 6.0% lower cost.", ["lower cost"] * 2),
        ("We improve recall of rare cases; our model runs in 16 ms.", ["time"]),
        ("We cut latency by 187 ms and raise throughput by 1.9x.", ["latency", "throughput"]),
        ("Our R@1 rises by 3.4% points (from 78% to 81%).", ["R@1", "R@1"]),
        ("Our decoder reaches 1,200 tokens/s.", ["throughput"]),
        (
            "On RULER our accuracy stays within 1%, while throughput at 96K tokens rises 3x on "
            "Llama and 4x on Yi.",
            ["accuracy", "throughput", "throughput"],
        ),
        ("We cut latency by 30% while accuracy drops by only 0.5 points.", ["latency", "accuracy"]),
        ("We keep 98% of the accuracy and our memory shrinks 4-fold.", ["accuracy", "memory"]),
        ("Our model dropped 69% because tokens were unseen.", ["reported number"]),
    ],
)
def test_a_claim_is_of_what_stands_nearest(abstract: str, metrics: list[str]) -> None:
    assert [claim.metric for claim in claims_of(abstract)] == metrics


@pytest.mark.parametrize(
    ("abstract", "shown"),
    [
        ("We cut the time from 2 minutes to 30 seconds.", ["2 min → 30 s"]),
        ("We cut the time to 34 s from 11.58 min, up to 95% less.", ["34 s", "11.58 min", "95%"]),
        ("Our search time falls from 12 minutes to 40% of that.", ["12 min", "40%"]),
        ("Our false positive rates fall further (64% to 9%).", ["64 → 9%"]),
        ("Our quality improves by 10% to 20%.", ["10-20%"]),
    ],
)
def test_a_change_is_between_two_of_a_kind(abstract: str, shown: list[str]) -> None:
    assert [claim.shown for claim in claims_of(abstract)] == shown


def test_at_least_is_no_setting() -> None:
    (claim,) = claims_of("On COCO, our recall improves by at least 7%.")
    assert claim.setting == "COCO"


def test_sentences_keep_decimals_and_abbreviations_whole() -> None:
    text = "We cut cost by 3.5 x, e.g. On GPUs. See Fig. 2 and others (Smith et al. 2020). Done!"
    folded = fold_with_places(text)
    assert [folded.cased[slice(*span)] for span in sentences(folded)] == [
        "We cut cost by 3.5x, e.g. On GPUs.",
        "See Fig. 2 and others (Smith et al. 2020).",
        "Done!",
    ]


def test_an_empty_abstract_says_nothing() -> None:
    assert claims_of("") == claims_of("   ") == claims_of("\u202e") == []
    assert list(sentences(fold_with_places(""))) == []
    assert Context(fold_with_places(""))


@pytest.mark.parametrize(
    "repeated", ["1", "1.5x ", "from 1 to ", "3%, ", "$\\times$", "(", "of the "]
)
def test_a_hostile_abstract_is_read_in_time(repeated: str) -> None:
    before = time.process_time()
    claims_of("We improve accuracy by " + repeated * (10_000 // len(repeated)))
    assert time.process_time() - before < 3
