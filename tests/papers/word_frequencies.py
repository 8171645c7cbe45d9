"""Count in how many papers each word stands, for the ranking of searches.

    python -m tests.papers.word_frequencies --input PAPERS.jsonl

PAPERS.jsonl holds lines {"title", "abstract"} of real papers. Writes
`webapp/papers/search/frequencies.json`: the number of papers, and of each stem that stands in
LEAST of them in how many. Only counts are kept, no text.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from webapp.papers.search.query import words_of
from webapp.papers.search.words import FREQUENCIES, stem

LEAST = 25  # papers that contain a stem; a rarer one counts as standing in one


def main() -> int:
    """Count and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--input", type=Path, required=True)
    counts: Counter[str] = Counter()
    papers = 0
    with parser.parse_args().input.open() as lines:
        for line in lines:
            paper = json.loads(line)
            counts.update(
                {stem(word) for word in words_of(f"{paper['title']} {paper['abstract']}")}
            )
            papers += 1
    kept = {known_stem: count for known_stem, count in sorted(counts.items()) if count >= LEAST}
    FREQUENCIES.write_text(json.dumps({"papers": papers, "stems": kept}, indent=0) + "\n")
    print(f"{len(kept)} stems of {papers} papers in {FREQUENCIES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
