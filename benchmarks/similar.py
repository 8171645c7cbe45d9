"""How like a paper its first three similar papers are, by grades given blind, asked over HTTP.

    python -m benchmarks.similar --input PAPERS.jsonl [--keep DIR] [--encode]

PAPERS.jsonl holds lines {"id", "title", "abstract"} of real papers, as for
`benchmarks.known_items`. `similar.jsonl` holds grades of pairs of papers: 2 for one that a reader
of the first would want (the same problem or method), 1 for the same field, 0 for neither. They
were given without knowing which order had found a pair. `--encode` first makes the vectors of the
papers that are compared, where an encoder is installed. Prints the mean grade with a 95 % interval
over papers, and the share of unrelated ones; a paper without a grade counts as unrelated.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import httpx

from benchmarks.figures import Figure, arguments, report
from benchmarks.known_items import store
from benchmarks.large_site import empty_site
from benchmarks.questions import served
from methods.measure.statistics import mean_interval

GRADES = Path(__file__).with_suffix(".jsonl")
SHOWN = 3
TARGET, MOST_UNRELATED = 1.3, 0.15


def main() -> int:
    """Build, ask, print; 1 if a target is missed."""
    parser = arguments(__doc__, papers=50_000, seed=0)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    parser.add_argument("--encode", action="store_true", help="order by the encoder too")
    options = parser.parse_args()
    os.environ |= {} if options.encode else {"ASSAY_ENCODER": "off"}
    rows = [json.loads(line) for line in GRADES.read_text().splitlines()]
    grades = {(row["paper"], row["similar"]): int(row["grade"]) for row in rows}
    papers = sorted({paper for paper, _ in grades})
    with empty_site(options.keep), served() as address:
        from webapp.learning import postings
        from webapp.papers.models import Paper

        if not Paper.objects.exists():
            store(
                options.input,
                options.papers,
                options.seed,
                {one for pair in grades for one in pair},
            )
        postings.make(float("inf"))
        if options.encode:
            _encode(papers)
        return report(figures(address, papers, grades))


def _encode(papers: Iterable[str]) -> None:
    """Make the vectors that the order of these papers' candidates asks for."""
    from webapp.learning import encoder, postings, tfidf
    from webapp.learning.models import PaperVector
    from webapp.learning.similar import CANDIDATES
    from webapp.learning.vectors import store as make_vectors
    from webapp.papers.models import Paper

    wanted = set[int]()
    for paper in Paper.objects.filter(arxiv_id__in=list(papers)):
        vector = tfidf.vector(paper.title, paper.abstract)
        wanted |= {paper.pk, *postings.nearest(vector, CANDIDATES + 1)}
    there = PaperVector.objects.filter(encoder=encoder.name()).values("paper")
    missing = Paper.objects.filter(pk__in=wanted).exclude(pk__in=there)
    for start in range(0, len(missing), 16):
        make_vectors(list(missing[start : start + 16]))


def figures(address: str, papers: list[str], grades: dict[tuple[str, str], int]) -> list[Figure]:
    """Ask the site's API for each paper."""
    means: list[float] = []
    shown: list[int] = []
    ungraded = 0
    for paper in papers:
        answer = httpx.get(f"{address}/api/v1/papers/{paper}", timeout=60).raise_for_status()
        pairs = [(paper, one["id"]) for one in answer.json()["similar"][:SHOWN]]
        for pair in pairs:
            if pair not in grades:
                print("no grade:", *pair)
        ungraded += sum(pair not in grades for pair in pairs)
        given = [grades.get(pair, 0) for pair in pairs] or [0]
        means.append(sum(given) / len(given))
        shown += given
    mean = mean_interval(means)
    unrelated = sum(grade == 0 for grade in shown) / len(shown)
    return [
        Figure(
            f"similar papers, first {SHOWN}", mean.value, "of 2", TARGET, True,
            f"{mean.low:.2f} to {mean.high:.2f}; {ungraded} of {len(shown)} without a grade",
        ),
        Figure(
            "unrelated among them", unrelated, "share", MOST_UNRELATED, False,
            f"{len(papers)} papers",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
