"""arxiv-sanity-lite beside this site: its pages asked for as ours are, over the same papers.

`python -m benchmarks.scale --sanity DIR` measures with this. DIR is a checkout of
https://github.com/karpathy/arxiv-sanity-lite, with the packages of its requirements in DIR/.venv,
or else in the Python that runs this. A copy of it is filled and asked, by this very file run there:
so it needs nothing but the standard library.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

PAPERS = 30_000  # at most: as many as its README says that its author's own site holds
TIMES = 10  # a search of it takes seconds
Answer = tuple[float, str]  # its CPU in milliseconds, and HTML


def python_of(checkout: Path) -> Path:
    """The Python that can run the checkout; exits with a message if there is none."""
    if not (checkout / "serve.py").is_file():
        sys.exit(f"{checkout} is no checkout of arxiv-sanity-lite: it has no serve.py.")
    own = checkout.absolute() / ".venv/bin/python"
    python = own if own.exists() else Path(sys.executable)
    loading: list[str | Path] = [python, "-B", "-c", "import serve, compute"]
    tried = subprocess.run(loading, check=False, cwd=checkout, capture_output=True, text=True)
    if missing := re.search(r"No module named '(\S+)'", tried.stderr):
        sys.exit(f"arxiv-sanity-lite needs the package {missing[1]}, which {python} lacks.")
    if tried.returncode:
        sys.exit(f"arxiv-sanity-lite does not start: {tried.stderr}")
    return python


def measure(checkout: Path, papers: Iterable[Any], addresses: Sequence[str]) -> list[Answer]:
    """Return the median CPU time in milliseconds and the HTML of each address."""
    python = python_of(checkout)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".*", "data"))
        (copy / "data").mkdir()
        shutil.copy(__file__, copy / "measured.py")
        with (copy / "papers.jsonl").open("w") as lines:
            lines.writelines(json.dumps(_entry(paper)) + "\n" for paper in papers)
        asked: list[str | Path] = [python, "measured.py", *addresses]
        subprocess.run(asked, cwd=copy, check=True, stdout=subprocess.DEVNULL)
        return [tuple(answer) for answer in json.loads((copy / "answers.json").read_text())]


def _entry(paper: Any) -> dict[str, Any]:
    """A paper as arxiv-sanity-lite keeps it, less what none of its pages reads."""
    return {
        "_id": paper.arxiv_id,
        "_time": datetime.combine(paper.announced_on, datetime.min.time()).timestamp(),
        "_time_str": f"{paper.announced_on:%b %d %Y}",
        "title": paper.title,
        "summary": paper.abstract,
        "authors": paper.authors,
        "tags": [{"term": category} for category in paper.categories],
    }


def fill() -> None:
    """Store the papers in the copy of the checkout, through its own functions."""
    from aslite.db import get_metas_db, get_papers_db

    with Path("papers.jsonl").open() as lines:
        papers = {paper["_id"]: paper for paper in map(json.loads, lines)}
    times = {key: {"_time": paper["_time"]} for key, paper in papers.items()}
    for open_db, rows in ((get_papers_db, papers), (get_metas_db, times)):
        with open_db(flag="c", autocommit=False) as store:
            store.update(rows)
            store.commit()


def ask(address: str) -> Answer:
    """The cost and HTML of a page of the copy, without a cookie; the first request is a warm-up."""
    from serve import app

    path, _, query = address.partition("?")
    taken, statuses, body = [], [], b""
    for _ in range(TIMES + 1):
        environ = {"PATH_INFO": path, "QUERY_STRING": query}
        setup_testing_defaults(environ)
        began = time.process_time()
        body = b"".join(app(environ, lambda status, *_: statuses.append(status)))
        taken.append((time.process_time() - began) * 1000)
    assert set(statuses) == {"200 OK"}, f"{address} answers {statuses[-1]}"
    assert b'"summary"' in body, f"{address} shows no paper"
    return statistics.median(taken[1:]), body.decode()


if __name__ == "__main__":
    fill()
    subprocess.run([sys.executable, "compute.py"], check=True)
    Path("answers.json").write_text(json.dumps([ask(address) for address in sys.argv[1:]]))
