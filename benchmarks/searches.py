"""The quality of searches by title, by question and by similar paper, over HTTP.

    python -m benchmarks.searches titles|questions|similar --input PAPERS.jsonl [--papers N]

PAPERS.jsonl holds lines {"id", "title", "abstract"} of real papers (with "day" and "categories"
where known); fetch them yourself, for instance from a public mirror of arXiv's metadata.

titles     Each paper is asked for by two thirds of its title's words, then by a third, drawn at
           random and kept in order: the mean reciprocal rank within the first page.
questions  The same of `questions.txt`: a paper and a question in each line, written by someone who
           read the paper but no ranking. Constants were chosen on the `first` half, so only the
           `second` counts. Those whose paper is not in the file are left out.
similar    The mean grade of the first three similar papers where any is shown, and the share of
           unrelated ones, by the grades of pairs in `similar_papers.jsonl`: 2 for one that a reader
           of the first would want (the same problem or method), 1 for the same field, 0 for
           neither, or without a grade. They were given without knowing which order had found a
           pair.

`--encode` first makes the vectors of all papers for questions, and of those that are compared for
similar papers; it needs an installed encoder. Without it none is used.

Papers asked for are always among those searched. Intervals are of 95 %.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import chain
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx2

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site
from methods.measure.statistics import mean_interval

PAPERS = {"titles": 4_500, "questions": 15_000, "similar": 50_000}  # that are searched
QUESTIONS = Path(__file__).with_name("questions.txt")
GRADES = Path(__file__).with_name("similar_papers.jsonl")
TITLES = {"two thirds": (2 / 3, 0.95), "one third": (1 / 3, 0.80)}  # share of words, target
QUESTION_TARGET = 0.40
SHOWN = 3  # similar papers
SIMILAR_TARGET, MAX_UNRELATED = 1.3, 0.15


def main() -> int:
    """Build, ask, print; 1 if a target is missed."""
    parser = arguments(__doc__, seed=0)
    parser.add_argument("what", choices=PAPERS)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--papers", type=int, help=f"how many are searched: {PAPERS}")
    parser.add_argument("--half", choices=["first", "second", "both"], default="second")
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    parser.add_argument("--encode", action="store_true", help="with the encoder's vectors")
    options = parser.parse_args()
    if not options.encode:
        os.environ["ASSAY_ENCODER"] = "off"
    graded = grades()
    always = {*questions("both"), *(paper for pair in graded for paper in pair)}
    with empty_site(options.keep), served() as address:
        from webapp.learning import postings, vectors

        count = options.papers or PAPERS[options.what]
        titles = store(options.input, count, options.seed, always)
        if options.what == "titles":
            shares = (title_figures(address, titles, share, options.seed) for share in TITLES)
            return report(chain.from_iterable(shares))
        if options.what == "questions":
            if options.encode:
                vectors.fill(float("inf"))
            stored = {identifier for identifier, _ in titles}
            asked = {name: q for name, q in questions(options.half).items() if name in stored}
            return report([figure(address, asked)])
        postings.make(float("inf"))
        papers = sorted({paper for paper, _ in graded})
        if options.encode:
            encode(papers)
        return report(similar_figures(address, papers, graded))


def questions(half: str) -> dict[str, str]:
    """The questions of a half (every other line) by the identifier of their paper."""
    lines = QUESTIONS.read_text().splitlines()
    of_half = {"first": lines[::2], "second": lines[1::2], "both": lines}[half]
    return dict(line.split(" ", 1) for line in of_half)


def grades() -> dict[tuple[str, str], int]:
    """The grade of each pair that was read."""
    rows = [json.loads(line) for line in GRADES.read_text().splitlines()]
    return {(row["paper"], row["similar"]): int(row["grade"]) for row in rows}


def store(source: Path, count: int, seed: int, always: set[str]) -> list[tuple[str, str]]:
    """Keep papers in a new database, those of `always` first; the identifiers and titles of all."""
    from webapp.papers.models import Paper

    if not Paper.objects.exists():
        with source.open() as lines:
            rows = [json.loads(line) for line in lines]
        random.Random(seed).shuffle(rows)
        rows = sorted(rows, key=lambda row: row["id"] not in always)[:count]
        papers = [
            Paper(
                arxiv_id=row["id"],
                title=row["title"],
                abstract=row["abstract"],
                authors=[{"name": name} for name in row.get("authors") or []],
                categories=row.get("categories") or [],
                announced_on=date.fromisoformat(row["day"]) if "day" in row else None,
            )
            for row in rows
        ]
        Paper.objects.bulk_create(papers, batch_size=500)
    return list(Paper.objects.order_by("pk").values_list("arxiv_id", "title"))


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: each question would be a line."""


@contextmanager
def served() -> Iterator[str]:
    """The address of this process's site."""
    from django.core.wsgi import get_wsgi_application

    with make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=_Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def title_figures(
    address: str, titles: list[tuple[str, str]], name: str, seed: int
) -> Iterator[Figure]:
    """Measure searches by a share of a title's words."""
    share, target = TITLES[name]
    chance, asked = random.Random(seed), {}
    for identifier, title in titles:
        words = title.split()
        kept = sorted(chance.sample(range(len(words)), max(round(share * len(words)), 1)))
        asked[identifier] = " ".join(words[n] for n in kept)
    yield figure(address, asked, f"{name} of the title", target)


def figure(
    address: str,
    asked: dict[str, str],
    name: str = "questions in ordinary words",
    target: float = QUESTION_TARGET,
) -> Figure:
    """The mean reciprocal rank of papers by what they are asked for with."""
    ranks: list[float] = []
    for identifier, words in asked.items():
        answer = httpx2.get(f"{address}/api/v1/papers", params={"q": words}, timeout=60)
        papers = [paper["id"] for paper in answer.raise_for_status().json()["items"]]
        ranks.append(1 / (papers.index(identifier) + 1) if identifier in papers else 0.0)
    mean, missed = mean_interval(ranks), sum(rank == 0 for rank in ranks)
    sure = f"{mean.low:.3f} to {mean.high:.3f}; {missed} of {len(ranks)} not on the first page"
    return Figure(name, mean.value, "MRR", target, least=True, beside=sure)


def encode(papers: Iterable[str]) -> None:
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


def similar_figures(
    address: str, papers: list[str], graded: dict[tuple[str, str], int]
) -> Iterator[Figure]:
    """The grades of what the site finds similar to each paper, where it shows any."""
    means: list[float] = []
    pairs: list[tuple[str, str]] = []
    for paper in papers:
        answer = httpx2.get(f"{address}/api/v1/papers/{paper}", timeout=60).raise_for_status()
        shown = [(paper, other["id"]) for other in answer.json()["similar"][:SHOWN]]
        if shown:
            means.append(sum(graded.get(pair, 0) for pair in shown) / len(shown))
        pairs += shown
    ungraded = [pair for pair in pairs if pair not in graded]
    for pair in ungraded:
        print("no grade:", *pair)
    mean = mean_interval(means)
    sure = f"{mean.low:.2f} to {mean.high:.2f}; {len(ungraded)} of {len(pairs)} without a grade"
    name = f"similar papers, first {SHOWN}"
    yield Figure(name, mean.value, "of 2", SIMILAR_TARGET, least=True, beside=sure)
    unrelated = sum(not graded.get(pair, 0) for pair in pairs) / max(len(pairs), 1)
    yield Figure("unrelated among them", unrelated, "share", MAX_UNRELATED)
    among = f"of {len(papers)}; {len(pairs)} pairs shown"
    yield Figure("papers with none", len(papers) - len(means), "papers", beside=among)


if __name__ == "__main__":
    sys.exit(main())
