"""How well the search answers questions in ordinary words, asked over HTTP.

    python -m benchmarks.questions --input PAPERS.jsonl [--papers 15000] [--half second]

PAPERS.jsonl holds lines {"id", "title", "abstract"} of real papers, as for
`benchmarks.known_items`. `questions.txt` holds a paper and a question in each line, written by
someone who read the paper but no ranking; the papers asked for are always among those searched.
Prints the mean reciprocal rank of the paper within the first page, with a 95 % interval over
questions. Constants were chosen on the `first` half, so only the `second` half counts.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx

from benchmarks.figures import Figure, arguments, report
from benchmarks.known_items import store
from benchmarks.large_site import empty_site
from methods.measure.statistics import mean_interval

QUESTIONS = Path(__file__).with_name("questions.txt")
TARGET, TARGET_WITH_ENCODER = 0.40, 0.50


def main() -> int:
    """Build, ask, print; 1 if the target is missed."""
    parser = arguments(__doc__, papers=15_000, seed=0)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--half", choices=["first", "second", "both"], default="second")
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    parser.add_argument("--ranks", action="store_true", help="print the rank of each paper")
    options = parser.parse_args()
    asked = questions(options.half)
    with empty_site(options.keep), served() as address:
        from webapp.papers.models import Paper

        if not Paper.objects.exists():
            store(options.input, options.papers, options.seed, questions("both"))
        return report([figure(address, asked, ranks=options.ranks)])


def questions(half: str) -> dict[str, str]:
    """The questions of a half (every other line) by the identifier of their paper."""
    lines = QUESTIONS.read_text().splitlines()
    of_half = {"first": lines[::2], "second": lines[1::2], "both": lines}[half]
    return dict(line.split(" ", 1) for line in of_half)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing: each question would be a line."""


@contextmanager
def served() -> Iterator[str]:
    """The address of this process's site."""
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application

    settings.STORAGES["staticfiles"]["BACKEND"] = (
        "django.contrib.staticfiles.storage.StaticFilesStorage"
    )
    with make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=_Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def figure(address: str, asked: dict[str, str], *, ranks: bool = False) -> Figure:
    """Ask the site's API each question."""
    found: list[float] = []
    for identifier, question in asked.items():
        answer = httpx.get(f"{address}/api/v1/papers", params={"q": question}, timeout=60)
        answer.raise_for_status()
        papers = [paper["id"] for paper in answer.json()["items"]]
        rank = papers.index(identifier) + 1 if identifier in papers else 0
        found.append(1 / rank if rank else 0.0)
        if ranks:
            print(f"{rank or '-':>3} {identifier} {question}")
    mean = mean_interval(found)
    beside = (
        f"{mean.low:.3f} to {mean.high:.3f}; {sum(rank == 0 for rank in found)} of {len(found)} "
        "not on the first page"
    )
    return Figure("questions in ordinary words", mean.value, "MRR", TARGET, True, beside)


if __name__ == "__main__":
    sys.exit(main())
