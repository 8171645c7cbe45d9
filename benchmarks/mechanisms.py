"""How many papers of a family have a mechanism here: ``python -m benchmarks.mechanisms``.

`mechanisms.jsonl` holds readings: for a paper the mechanism of a method that it is about, or none
and what it does instead. A mechanism counts where some benchmark measures it. `near` names the
one that comes nearest to a paper without any: a neighbour to look at, which is not counted.
Papers on sparse attention are those of 126 days, read by title and abstract (how, stands in the
method's README). Those on visual tokens are all that a public list of token compression in models
of images and video (cokeshao/Awesome-Multimodal-Token-Compression, from 2025 on) has, reports of
whole models and surveys apart, read by title and tags. Those on latent reasoning are read alike
from another list (EIT-NLP/Awesome-Latent-CoT: strategies of tokens and internal mechanisms;
analyses and applications apart). Of all only numbers that end in 0 to 4.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from methods import registry

READING = Path(__file__).with_suffix(".jsonl")


def measured(slug: str) -> frozenset[str]:
    """The mechanisms of a method that at least one of its benchmarks measures."""
    return frozenset(paper.slug for paper in registry.get(slug).mechanisms if paper.measured)


def counts(reading: Iterable[Mapping[str, str]], known: Collection[str]) -> Counter[str]:
    """Papers by mechanism, "" where none that is measured is theirs."""
    return Counter(paper["mechanism"] if paper["mechanism"] in known else "" for paper in reading)


def main() -> None:
    """Print the share, the papers of each mechanism, and what the others do, for every method."""
    reading = [json.loads(line) for line in READING.read_text("utf-8").splitlines()]
    for method in dict.fromkeys(paper["method"] for paper in reading):
        papers = [paper for paper in reading if paper["method"] == method]
        by_mechanism = counts(papers, measured(method))
        found, total = len(papers) - by_mechanism[""], len(papers)
        print(f"{method}: {found} of {total} papers ({found / total:.0%}) have a mechanism of ours")
        if neighbours := [paper for paper in papers if "near" in paper]:
            print(f"  {len(neighbours)} more have a near one")
        for mechanism, count in by_mechanism.most_common():
            print(f"  {mechanism or 'none'}: {count}")
        for paper in papers:
            if not paper["mechanism"]:
                near = f" (near {paper['near']})" if "near" in paper else ""
                print(f"  {paper['id']}: {paper['instead']}{near}")


if __name__ == "__main__":
    main()
