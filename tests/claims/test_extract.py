"""The claims that rules take from abstracts, on abstracts written for this test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clock import ends_within
from webapp.claims.extraction.place import Context, sentences
from webapp.claims.extraction.reported import reported_numbers
from webapp.claims.numbers import fold_with_places

CASES = json.loads((Path(__file__).parent / "abstracts.json").read_text())


def _overlap(claim: Any, span: list[int]) -> bool:
    return bool(claim.start < span[1] and span[0] < claim.end)


def test_claims_are_found_with_high_precision_and_recall() -> None:
    found = right = wanted = missed = 0
    for case in CASES:
        claims = reported_numbers(case["abstract"])
        optional = case.get("optional", [])
        counted = [c for c in claims if not any(_overlap(c, span) for span in optional)]
        found += len(counted)
        right += sum(any(_overlap(c, span) for span in case["claims"]) for c in counted)
        wanted += len(case["claims"])
        missed += sum(not any(_overlap(c, span) for c in claims) for span in case["claims"])
    assert wanted >= 75
    assert right / found >= 0.95
    assert 1 - missed / wanted >= 0.90


SPANS = [
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
    ("Our planner reaches 357.9 Mbps on known regimes.", "357.9 Mbps"),
    ("Our probe achieves AUROC2 = 0.774 here.", "0.774"),
    ("Our generator obtains FID-50K 2.50 with guidance.", "2.50"),
    ("Our score is higher (macro $F_1$ $\\geq$ 0.796).", "0.796"),
    ("Our images reach a cross-correlation (CC) of 0.7794.", "0.7794"),
    ("Our NLLB-1.3B reaches 67.3 at the sentence level.", "67.3"),
    ("Our tool is rated highly (mean Likert score: 4.57/5.0).", "4.57"),
    ("Our images are better (1.81 gFID).", "1.81"),
    ("Our kernel achieves a utilisation of 1.3 petaFLOPs/second.", "1.3 petaFLOPs/second"),
    ("Our router saves over $3,600 per million queries.", "3,600"),
    ("Our masks achieve a 0.02 improvement in the Intersection over Union metric.", "0.02"),
    ("Our codec is better, achieving a 5.39x compression ratio.", "5.39x"),
    ("Our training takes only 2 days and improves on others.", "2 days"),
    ("We find that judges agree little (Krippendorff's $\\alpha$ = 0.042).", "0.042"),
    ("Our images achieve a Medical Frechet Inception Distance (MFID) of 17.01.", "17.01"),
    ("Our plan improves value by USD8.4M.", "USD8.4M"),
    ("Our judge reduces the cost by 2-3 orders of magnitude.", "2-3 orders of magnitude"),
    ("Our parser achieves a Reading Order Edit of 0.024 on OmniDocBench.", "0.024"),
    ("Our model outperformed Llama by +0.66.", "+0.66"),
    ("我们将延迟从120毫秒降低到45毫秒。", "从120毫秒降低到45毫秒"),
]


def test_the_offsets_are_those_of_number_and_unit() -> None:
    spans = [
        [abstract[claim.start : claim.end].strip("$") for claim in reported_numbers(abstract)]
        for abstract, _ in SPANS
    ]
    assert spans == [[span] for _, span in SPANS]


NO_CLAIMS = [
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
    "We train a model (D=1536, V=32000) that improves on others, on footage of 12 days.",
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
    "Surgeons rated the improved tool highly on a scale of 5.",
    "Our detector runs within the 8 MB memory constraints.",
    "A +20% increase in the penalty yields better handover.",
    "Ours improves in ultra-low witness regimes ($\\leq 1\\%$).",
    "We improve it by injecting a minimal amount (1%) of synthetic data.",
    "Our copy is better on an A100 80GB at all lengths.",
    "We get strictly causal 48-hour autoregressive rollouts that reduce errors.",
    "Under systematic prior misspecification of 10%, our planner is better.",
    "We improve on the month-scale split (105.6 hours over 51 days).",
    "Our paths show how two points naturally bend toward each other.",
    "Attention is 3 times slower than convolution. We propose a cache.",
    "Convolutions improve accuracy by 12%. However, they are slow. We ask why.",
]


def test_settings_sizes_and_background_are_no_claims() -> None:
    assert [abstract for abstract in NO_CLAIMS if reported_numbers(abstract)] == []


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
    assert [claim.shown for claim in reported_numbers(abstract)] == shown


def test_both_numbers_of_a_comparison_are_claims() -> None:
    comparisons = [
        (
            "Ours has lower $\\text{FID}_k$ (8.89 vs. 25.30) and higher BED (0.46 vs. 0.28).",
            ["8.89", "25.30", "0.46", "0.28"],
        ),
        (
            "Our error is 1.5 mm on the Molar (ML) dental CT data and 1.2 mm on scans.",
            ["1.5", "1.2"],
        ),
        (
            "Ours gives over a 1000x speedup on one GPU, and even a 20x speedup without.",
            ["1000", "20"],
        ),
        ("Ours scores 91.0% on AIME 24, and 64.2% on SWE-bench.", ["91.0", "64.2"]),
        ("Ours improves (GPTScore: $53.5$ vs. $25.1$ for the baseline).", ["53.5", "25.1"]),
        (
            "The correlation is higher in HoCNN (0.72) compared to baseline models (0.32).",
            ["0.72", "0.32"],
        ),
        ("Ours improves by 0.37 and 0.18 ASR-BLEU.", ["0.37", "0.18"]),
        ("Ours improves further to 4.79 and 5.07 years MAE.", ["4.79", "5.07"]),
        ("We reach 87.4 EPDMS on NAVSIM v2, and 87.1 DS on Bench2Drive.", ["87.4", "87.1"]),
        ("Our Dice scores are 0.93/0.85 for LV/MYO.", ["0.93", "0.85"]),
    ]
    values = [[claim.value for claim in reported_numbers(text)] for text, _ in comparisons]
    assert values == [expected for _, expected in comparisons]


def test_sentences_keep_decimals_and_abbreviations_whole() -> None:
    text = "We cut cost by 3.5 x, e.g. On GPUs. See Fig. 2 and others (Smith et al. 2020). Done!"
    folded = fold_with_places(text)
    assert [folded.cased[slice(*span)] for span in sentences(folded)] == [
        "We cut cost by 3.5x, e.g. On GPUs.",
        "See Fig. 2 and others (Smith et al. 2020).",
        "Done!",
    ]


def test_an_empty_abstract_says_nothing() -> None:
    assert reported_numbers("") == reported_numbers("   ") == reported_numbers("\u202e") == []
    assert list(sentences(fold_with_places(""))) == []
    assert Context(fold_with_places(""))


@pytest.mark.parametrize(
    "repeated", ["1", "1.5x ", "from 1 to ", "3%, ", "$\\times$", "(", "of the "]
)
def test_a_hostile_abstract_is_read_in_time(repeated: str) -> None:
    text = "We improve accuracy by " + repeated * (10_000 // len(repeated))
    assert ends_within(3, reported_numbers, text)
