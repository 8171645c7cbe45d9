"""How well a search finds a paper that one has in mind.

    python -m benchmarks.known_items --input PAPERS.jsonl [--papers 4500] [--seed 0]

PAPERS.jsonl holds lines {"id", "title", "abstract"} of real papers (with "day" and "categories"
where known); fetch them yourself, for instance from a public mirror of arXiv's metadata. Each
paper is asked for by two thirds of its title's words, then by a third, drawn at random and kept
in order. Prints the mean reciprocal rank within the first page, with a 95 % interval over papers.
"""

import json
import random
import sys
from collections.abc import Container
from datetime import date
from pathlib import Path

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site
from methods.measure.statistics import mean_interval

TARGETS = {"two thirds": (2 / 3, 0.95), "one third": (1 / 3, 0.80)}


def main() -> int:
    """Build, search, print; 1 if a target is missed."""
    parser = arguments(__doc__, papers=4_500, seed=0)
    parser.add_argument("--input", type=Path, required=True)
    options = parser.parse_args()
    with empty_site():
        papers = store(options.input, options.papers, options.seed)
        return report(measure(papers, name, options.seed) for name in TARGETS)


def store(
    source: Path, count: int, seed: int, always: Container[str] = ()
) -> list[tuple[str, str]]:
    """Keep `count` papers drawn from `source` in a new database; their identifiers and titles.

    Those whose identifier is in `always` are among them.
    """
    from webapp.papers.models import Paper

    with source.open() as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(rows)
    rows = sorted(rows, key=lambda row: row["id"] not in always)[:count]
    Paper.objects.bulk_create(
        [
            Paper(
                arxiv_id=row["id"],
                title=row["title"],
                abstract=row["abstract"],
                authors=[{"name": name} for name in row.get("authors") or []],
                categories=row.get("categories") or [],
                announced_on=date.fromisoformat(row["day"]) if "day" in row else None,
            )
            for row in rows
        ],
        batch_size=500,
    )
    return [(row["id"], row["title"]) for row in rows]


def measure(papers: list[tuple[str, str]], name: str, seed: int) -> Figure:
    """Search for every paper."""
    from webapp.papers.search import search

    share, target = TARGETS[name]
    chance = random.Random(seed)
    ranks: list[float] = []
    for identifier, title in papers:
        words = title.split()
        kept = sorted(chance.sample(range(len(words)), max(round(share * len(words)), 1)))
        found = [paper.arxiv_id for paper in search(" ".join(words[n] for n in kept)).papers]
        ranks.append(1 / (found.index(identifier) + 1) if identifier in found else 0.0)
    mean = mean_interval(ranks)
    missed = sum(rank == 0 for rank in ranks)
    sure = f"{mean.low:.3f} to {mean.high:.3f}; {missed} of {len(ranks)} not on the first page"
    return Figure(f"{name} of the title", mean.value, "MRR", target, least=True, beside=sure)


if __name__ == "__main__":
    sys.exit(main())
