"""How many papers on sparse attention have a mechanism here: ``python -m benchmarks.mechanisms``.

`mechanisms.jsonl` holds a reading: for a paper the mechanism of `sparse_attention` that it is
about, or none and what it does instead. A mechanism counts where some benchmark measures it.
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
    """Print the share, the papers of each mechanism, and what the others do."""
    reading = [json.loads(line) for line in READING.read_text("utf-8").splitlines()]
    by_mechanism = counts(reading, measured("sparse_attention"))
    total = sum(by_mechanism.values())
    with_one = total - by_mechanism[""]
    print(f"{with_one} of {total} papers ({with_one / total:.0%}) have a comparable mechanism")
    for mechanism, papers in by_mechanism.most_common():
        print(f"  {mechanism or 'none'}: {papers}")
    for paper in reading:
        if not paper["mechanism"]:
            print(f"  {paper['id']}: {paper['instead']}")


if __name__ == "__main__":
    main()
