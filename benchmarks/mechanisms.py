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
    return frozenset(one.slug for one in registry.get(slug).mechanisms if one.measured)


def counts(reading: Iterable[Mapping[str, str]], known: Collection[str]) -> Counter[str]:
    """Papers by mechanism, "" where none that is measured is theirs."""
    return Counter(one["mechanism"] if one["mechanism"] in known else "" for one in reading)


def main() -> None:
    """Print the share, the papers of each mechanism, and what the others do."""
    reading = [json.loads(line) for line in READING.read_text("utf-8").splitlines()]
    found = counts(reading, measured("sparse_attention"))
    total = sum(found.values())
    with_one = total - found[""]
    print(f"{with_one} of {total} papers ({with_one / total:.0%}) have a comparable mechanism")
    for mechanism, papers in found.most_common():
        print(f"  {mechanism or 'none'}: {papers}")
    for one in reading:
        if not one["mechanism"]:
            print(f"  {one['id']}: {one['instead']}")


if __name__ == "__main__":
    main()
