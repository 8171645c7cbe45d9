"""How soon a search finds the paper one has in mind.

    python benchmarks/known_items.py --input PAPERS.jsonl [--papers 4500] [--seed 0]

PAPERS.jsonl holds lines {"id", "title", "abstract"} of real papers (with "day" and "categories"
where known); fetch them yourself, for instance from a public mirror of arXiv's metadata. Each
paper is asked for by two thirds of its title's words, then by a third, drawn at random and kept
in order. Prints the mean reciprocal rank within the first page, with a 95 % interval over papers.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

TARGETS = {"two thirds": (2 / 3, 0.95), "one third": (1 / 3, 0.80)}


def main() -> int:
    """Build, ask, print; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--papers", type=int, default=4_500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ASSAY_DATA"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
        import django

        django.setup()
        papers = store(options.input, options.papers, options.seed)
        met = [measure(papers, name, options.seed) for name in TARGETS]
        return int(not all(met))


def store(source: Path, count: int, seed: int) -> list[tuple[str, str]]:
    """Keep `count` papers drawn from `source` in a new database; their identifiers and titles."""
    from django.core.management import call_command

    from webapp.papers.models import Paper

    call_command("migrate", verbosity=0)
    with source.open() as lines:
        rows = [json.loads(line) for line in lines]
    rows = random.Random(seed).sample(rows, min(count, len(rows)))
    Paper.objects.bulk_create(
        [
            Paper(
                arxiv_id=row["id"],
                title=row["title"],
                abstract=row["abstract"],
                title_html="",
                abstract_html="",
                authors=[{"name": name} for name in row.get("authors") or []],
                categories=row.get("categories") or [],
                announced_on=date.fromisoformat(row["day"]) if "day" in row else None,
            )
            for row in rows
        ],
        batch_size=500,
    )
    return [(row["id"], row["title"]) for row in rows]


def measure(papers: list[tuple[str, str]], name: str, seed: int) -> bool:
    """Ask for every paper; whether the target is met."""
    from webapp.papers.search import search

    share, target = TARGETS[name]
    chance = random.Random(seed)
    ranks: list[float] = []
    for identifier, title in papers:
        words = title.split()
        kept = sorted(chance.sample(range(len(words)), max(round(share * len(words)), 1)))
        found = [paper.arxiv_id for paper in search(" ".join(words[n] for n in kept)).papers]
        ranks.append(1 / (found.index(identifier) + 1) if identifier in found else 0.0)
    mean = statistics.fmean(ranks)
    half = 1.96 * statistics.stdev(ranks) / math.sqrt(len(ranks))
    sure = f"{mean:.3f} ({mean - half:.3f} to {mean + half:.3f})"
    missed = sum(rank == 0 for rank in ranks)
    print(f"{name:12} MRR {sure}, target {target}; {missed} of {len(ranks)} not on the first page")
    return mean >= target


if __name__ == "__main__":
    sys.exit(main())
