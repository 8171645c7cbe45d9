"""What a number of an abstract is of: a whole tuple where the sentence says it, else nothing."""

# ruff: noqa: E501 - a case a line
from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.claims import tuples
from webapp.claims.extraction.claims import claims_of

Words = tuple[str, str, str, str, str]  # metric, relation, subject, baseline, setting


def read(abstract: str) -> list[Words]:
    return [
        (c.metric, c.direction or c.relation or "", c.subject, c.baseline, c.setting)
        for c in claims_of(abstract)
    ]


@pytest.mark.parametrize(
    ("abstract", "expected"),
    [
        # Levels against gains, losses, shares, "within" and factors.
        ("Heron reaches an accuracy of 71.2% on GSM8K.", [("accuracy", "level", "Heron", "", "GSM8K")]),
        ("Heron improves accuracy by 3.1% over BERT on GSM8K.",
         [("accuracy", "better", "Heron", "BERT", "GSM8K")]),
        ("Heron improves accuracy to 71.2% on GSM8K.", [("accuracy", "level", "Heron", "", "GSM8K")]),
        ("Heron reduces latency by 30% compared to dense attention.",
         [("latency", "less", "Heron", "dense attention", "")]),
        ("Heron reduces latency from 40 ms to 28 ms.", [("latency", "less", "Heron", "", "")]),
        ("Heron suffers an accuracy drop of 1.2%.", [("accuracy", "less", "", "", "")]),
        ("Heron retains 97% of the accuracy.", [("accuracy", "share", "Heron", "", "")]),
        ("Our accuracy stays within 1% of the full cache.",
         [("accuracy", "within", "", "full cache", "")]),
        ("Heron is 2.5x faster than vLLM.", [("faster", "more", "Heron", "vLLM", "")]),
        ("Heron needs 4x less memory than the full cache.", [("memory", "less", "Heron", "full cache", "")]),
        ("Heron halves the training time.", [("training time", "less", "", "", "")]),
        ("Heron achieves a 3.2x speedup over the dense baseline.",
         [("speedup", "more", "Heron", "the dense baseline", "")]),
        ("Heron runs at 42 FPS.", [("frame rate", "level", "Heron", "", "")]),
        ("Heron outperforms BERT, gaining up to 18% in accuracy.", [("accuracy", "better", "Heron", "BERT", "")]),
        ("An accuracy of 99% of full attention's is kept.", [("", "", "", "", "")]),
        ("Heron reaches a 5.5x speedup where EAGLE-3 gains 2.4x.",
         [("speedup", "more", "Heron", "", ""), ("", "", "", "", "")]),
        ("Heron improves throughput by 12% over greedy and beam policies.",
         [("throughput", "better", "Heron", "", "")]),
        # Lists.
        ("Heron achieves 91% precision, 88% recall and 0.89 F1.",
         [("precision", "level", "Heron", "", ""), ("recall", "level", "Heron", "", ""),
          ("F1", "level", "Heron", "", "")]),
        ("Heron improves accuracy by 3% on COCO and 4% on LVIS.",
         [("accuracy", "better", "Heron", "", "COCO"), ("accuracy", "better", "Heron", "", "LVIS")]),
        ("Heron reduces FLOPs by 55% and latency by 36%.",
         [("FLOPs", "less", "Heron", "", ""), ("latency", "less", "Heron", "", "")]),
        # "Respectively": metrics, settings, baselines and subjects in the order of the numbers.
        ("Heron improves by 22.1% and 26.6% in mF1 and mIoU, respectively.", [("", "", "", "", "")] * 2),
        ("Heron gives a 22.1% and 26.6% improvement in F1 and mIoU, respectively.",
         [("F1", "better", "Heron", "", ""), ("mIoU", "better", "Heron", "", "")]),
        ("Heron reaches 66%, 83% and 63% AUROC on Real3D, ShapeNet and MulSen, respectively.",
         [("AUROC", "level", "Heron", "", name) for name in ("Real3D", "ShapeNet", "MulSen")]),
        ("Heron and Lark achieve accuracies of 61.5% and 57.8%, respectively.",
         [("accuracies", "level", "Heron", "", ""), ("accuracies", "level", "Lark", "", "")]),
        # A list that does not pair: the metric is sure, where each number belongs is not.
        ("Heron reaches 66%, 83% and 63% AUROC on Real3D and ShapeNet.",
         [("AUROC", "level", "", "", "")] * 3),
        ("Heron outperforms BERT and Lark in accuracy by 3 and 4 percentage points, respectively.",
         [("accuracy", "better", "Heron", "BERT", ""), ("accuracy", "better", "Heron", "Lark", "")]),
        # What gets better is not named.
        ("Heron outperforms BERT by 9.5% on GSM8K and by 3.1% on MATH.",
         [("", "better", "Heron", "BERT", "GSM8K"), ("", "better", "Heron", "BERT", "MATH")]),
        ("Heron gives a 4% improvement over BERT.", [("", "better", "Heron", "BERT", "")]),
        ("Heron yields strong gains over BERT (+2.8% on COCO, 58.3% on LVIS).",
         [("", "better", "Heron", "BERT", "COCO")]),
        ("Our scores exceed the limit by over 17%.", [("", "", "", "", "")]),
        ("Heron brings a gain of 3% in factual correctness.",
         [("factual correctness", "better", "Heron", "", "")]),
        # A versus B: the second number is of the same metric, and of another's.
        ("Heron reaches a win rate of 60.8%, compared to 37.7%.",
         [("win rate", "level", "Heron", "", ""), ("win rate", "level", "", "", "")]),
        ("Heron is better than a baseline (0.28 vs 0.42 LPIPS).",
         [("", "", "", "", ""), ("LPIPS", "level", "", "", "")]),
        # What a number says by its unit or by its own words.
        ("Heron completes training in 25.7 seconds.", [("time", "level", "", "", "")]),
        ("Heron improves on BERT by 4.8 BLEU points.", [("BLEU", "better", "Heron", "BERT", "")]),
        ("Heron reaches 42.2% CAGR.", [("CAGR", "level", "Heron", "", "")]),
        ("Heron gives a 50% token reduction.", [("token", "less", "Heron", "", "")]),
        ("Heron has F1 scores exceeding 0.8.", [("F1 scores", "level", "", "", "")]),
        # Words that only look like it.
        ("Heron gives 9% faster inference time.", [("faster inference time", "more", "Heron", "", "")]),
        ("Heron yields over 35% gains in Llama3.2-3B and Qwen3-1.7B.", [("", "", "", "", "")]),
        ("Heron runs at 85 FPS and 92% mIoU.",
         [("frame rate", "level", "Heron", "", ""), ("mIoU", "level", "Heron", "", "")]),
        ("Heron costs 90% less.", [("", "", "", "", "")]),
        ("We study the sensitivity of 23 models.", []),
        ("Heron reduces error values at smaller voxel sizes (0.25 m).", [("", "", "", "", "")]),
        # Where a name, a list or a clause goes on, the words of a number end.
        ("Heron cuts the Cost of Transport by 30%.", [("", "", "", "", "")]),
        ("Heron has 60% lower I/O time.", [("", "", "", "", "")]),
        ("Heron reaches Top-1/NDCG scores of 0.35/0.73.", [("", "", "", "", "")] * 2),
        ("Heron gives a 9.2% lower Minimum Matching Distance (MMD).", [("", "", "", "", "")]),
        ("Heron gives 3x higher figures of merit.", [("", "", "", "", "")]),
        ("We see a 24% drop in accuracy between clean (88%) and noisy data.",
         [("accuracy", "less", "", "", "")]),
        ("Heron improves user engagement as measured by clicks by 34%.", [("", "", "", "", "")]),
        ("Heron has an error of 7% under heterogeneous, real workloads.",
         [("error", "level", "", "", "")]),
        ("Heron improves accuracy by 9% for cancer versus normal groups compared to BERT.",
         [("accuracy", "better", "", "", "")]),
        ("Heron gains 11% in accuracy across classification, search, and ranking tasks.",
         [("accuracy", "better", "", "", "")]),
        # Whose number is it?
        ("Heron does well: the top model achieved an F1 of 71%.", [("F1", "level", "the top model", "", "")]),
        ("Heron beats BERT, with Lark achieving a Recall of 71%.", [("Recall", "level", "", "", "")]),
        ("Heron wins, with 41% of species achieving 100% accuracy.",
         [("", "", "", "", ""), ("accuracy", "level", "", "", "")]),
        ("Multiple runs achieve an accuracy of 71%.", [("accuracy", "level", "", "", "")]),
        ("Experimental tests yielded an accuracy of 71%.", [("accuracy", "level", "", "", "")]),
        ("On the other hand, Heron reaches an accuracy of 71%.", [("accuracy", "level", "Heron", "", "")]),
        ("On COCO, AUC rises from 0.60 to 0.71; and on LVIS, AUC rises from 0.5 to 0.6.",
         [("AUC", "more", "", "", "COCO"), ("AUC", "more", "", "", "")]),
        ("Heron reaches 90% success against strong filters.", [("success", "level", "Heron", "", "")]),
        # What looks like a level, a gain or a metric and is none.
        ("Recall increases from 0.49 to over 0.80.", [("", "", "", "", "")]),
        ("Recall increases from 0.49 to as high as 0.80.", [("Recall", "more", "", "", "")]),
        ("Heron improves accuracy (0.84 vs 0.83).", [("", "", "", "", "")]),
        ("Heron surpasses BERT in both accuracy (up to 45%) and speed.", [("", "", "", "", "")]),
        ("None of our models reaches 35% accuracy.", [("", "", "", "", "")]),
        ("Heron recovers 0.7% accuracy.", [("", "", "", "", "")]),
        ("Its scores correlate well (a correlation of +0.65).", [("", "", "", "", "")]),
        ("Our AUC scores fall below 65%.", [("", "", "", "", "")]),
        ("Heron keeps its quality (0.8% perplexity drop).", [("perplexity", "less", "Heron", "", "")]),
        ("Heron has an error of 0.035 Å.", [("", "", "", "", "")]),
        ("The true-positive rate at 0.1% false positives drops by up to 99%.", [("", "", "", "", "")]),
        ("Heron gains 5% in simulation.", [("", "", "", "", "")]),
        ("Heron gives a 7% improvement in both.", [("", "", "", "", "")]),
        ("Heron gives a 19% avg gain.", [("", "", "", "", "")]),
        ("Heron gives a 57% parameter and FLOPs reduction.", [("", "", "", "", "")]),
        ("BERT improves by 3.0 points over GPT.", [("", "", "", "", "")]),
        ("Heron reaches scores of 0.85 (B-1) and 0.88 (CIDEr).", [("", "", "", "", "")] * 2),
        ("Heron has a standard deviation of accuracy = 0.04.", [("", "", "", "", "")]),
        ("Heron reaches 71% accuracy with an average bit-width of 2.81.", [("accuracy", "level", "Heron", "", "")]),
        ("Heron loses 7% BLEU at 1.5 seconds average lag.", [("", "", "", "", "")]),
        # Not sure, so silent: a metric that two share.
        ("Heron has Pearson and Spearman correlations of 0.92 and 0.90.", [("", "", "", "", "")] * 2),
        ("Heron reaches an AP that is 42% higher.", [("", "", "", "", "")]),
    ],
)  # fmt: skip
def test_a_tuple_says_only_what_the_sentence_says(abstract: str, expected: list[Words]) -> None:
    assert read(f"We present Heron. {abstract}")[: len(expected)] == [
        words if words[1] else ("", "", "", "", "") for words in expected
    ]


def test_a_bound_stands_beside_its_number() -> None:
    shown = [c.shown for c in claims_of("Heron is up to 3.5x faster and saves over 40% of memory.")]
    assert shown == ["up to 3.5×", "over 40%"]
    (claim,) = claims_of("Heron is 2-3 orders of magnitude faster than vLLM.")
    assert claim.said == "at least 100×"


def test_the_report_counts_each_word(tmp_path: Path) -> None:
    text = (
        "We present Heron. Heron reaches an accuracy of 71.2% on GSM8K. It gains 4% F1 over BERT."
    )
    at = [text.index("71.2"), text.index("71.2") + 5]
    right = {
        "id": "1",
        "part": "judging",
        "tuples": [{"at": at, "metric": ["accuracy"], "relation": ["level"], "subject": ["Heron"],
                    "baseline": [], "setting": [[text.index("GSM8K"), text.index("GSM8K") + 5]]}],
    }  # fmt: skip
    wrong = json.loads(json.dumps(right).replace('"level"', '"better"'))
    kinds = [kind for kind, _ in tuples.judged(text, right, [])]
    assert kinds[0] == "whole"
    assert set(kinds[1:]) <= {"no claim"}, "what nobody marked counts as wrong"
    assert next(tuples.judged(text, wrong, []))[0] == "wrong"
    lines = list(tuples.report([right], {"1": text}))
    assert lines[0] == "judging: 1 abstracts, 1 numbers"


@pytest.mark.parametrize(
    "repeated", ["accuracy of 3% and ", "3%, ", "(3% ", "by 3x on A, ", "N and "]
)
def test_a_hostile_sentence_is_read_in_time(repeated: str) -> None:
    before = time.process_time()
    claims_of("We improve accuracy by " + repeated * (10_000 // len(repeated)))
    claims_of("We improve accuracy by " + repeated * (1_900 // len(repeated)))
    assert time.process_time() - before < 3
