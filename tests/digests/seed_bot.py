"""The seed bot's configuration and its rule, stated on their own: what ours is held against."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.digests.scoring.rules import Candidate

KEYWORDS = (
    *("LLM", "RL", "RLHF", "Inference", "Training", "Attention", "Pipeline", "MOE", "Sparse"),
    *("Quantization", "Speculative", "Efficient", "Efficiency", "Framework", "Parallel"),
    *("Distributed", "Kernel", "Decode", "Decoding", "Prefill", "Throughput", "Fast", "Network"),
    *("Hardware", "Cluster", "FP8", "FP4", "Optimization", "Scalable", "Communication"),
)
EXCLUDE = ("survey", "review", "tutorial")


def rule(
    keywords: Sequence[str], excluded: Sequence[str], papers: Sequence[Candidate], size: int
) -> list[tuple[str, float]]:
    """Identifiers and scores: 1 a keyword, 0.5 more where it stands in the title."""
    kept = []
    for paper in papers:
        text = (paper.title + " " + paper.abstract).lower()
        score = 0.0
        matched = False
        for keyword in keywords:
            if keyword.lower() in text:
                matched = True
                score += 1.0
                if keyword.lower() in paper.title.lower():
                    score += 0.5
        if paper.announce_type != "new" or not matched:
            continue
        if any(word.lower() in text for word in excluded):
            continue
        kept.append((paper.id, score))
    kept.sort(key=lambda one: one[1], reverse=True)
    return kept[:size]
