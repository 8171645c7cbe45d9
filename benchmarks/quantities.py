"""How often papers report the same: `python -m benchmarks.quantities --papers PAPERS.jsonl`.

PAPERS.jsonl as for `benchmarks.reader_days`; the last days are stored and their abstracts read.
With `--html FOLDER`, HTML as for `benchmarks.tables`, the tables of those papers are read too. A
group is a quantity of /quantities/ (of abstracts: metric, relation, benchmark, baseline and stage
alike; of tables: benchmark and metric), as the API lists it. Prints how many groups three or more
papers report, and how many of those name a benchmark or a baseline, without which two numbers can
hardly be compared.
"""

import logging
import sys
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site
from benchmarks.reader_days import store
from benchmarks.tables import answers


def main() -> int:
    """Store, read, ask the API and print."""
    parser = arguments(__doc__, days=30)
    parser.add_argument("--papers", type=Path, required=True)
    parser.add_argument("--html", type=Path, help="folder of papers' HTML, for their tables")
    options = parser.parse_args()
    with empty_site():
        from django.conf import settings

        from webapp.claims import abstracts

        settings.ALLOWED_HOSTS = ["testserver"]
        logging.disable(logging.WARNING)  # of the broker, which no worker needs here
        days = store(options.papers, options.days)
        while abstracts.read_new():
            pass
        read = dict(answers(options.html)) if options.html else {}
        said, tabled = _listed("/quantities/abstracts"), _listed("/quantities")
    scoped = [group for group in _shared(said) if group["benchmark"] or group["against"]]
    print(*(f"{g['papers']:3d}  {g}" for g in [*scoped, *_shared(tabled)][:20]), sep="\n")
    return report(
        [
            Figure("papers", sum(map(len, days.values())), "", beside=f"{len(days)} days"),
            Figure("quantities of abstracts", len(said), ""),
            Figure("of three or more papers", len(_shared(said)), ""),
            Figure("and with benchmark or baseline", len(scoped), ""),
            Figure("quantities of tables", len(tabled), "", beside=f"{len(read)} papers' HTML"),
            Figure("of three or more papers", len(_shared(tabled)), ""),
        ]
    )


def _listed(address: str) -> list[dict[str, Any]]:
    """All groups that an address of the API lists, page by page."""
    from django.test import Client

    groups, page = [], 1
    while page:
        answer = Client().get(f"/api/v1{address}?page={page}").json()
        groups += answer["items"]
        page = answer["next"]
    return groups


def _shared(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [group for group in groups if group["papers"] >= 3]


if __name__ == "__main__":
    sys.exit(main())
