"""How often papers report the same: `python -m benchmarks.quantities --papers PAPERS.jsonl`.

PAPERS.jsonl as for `benchmarks.reader_days`; the last days are stored and their abstracts read. A
group is a quantity of /quantities/ (metric, relation, benchmark, baseline and stage alike), as the
API lists it. Prints how many groups three or more papers report, and how many of those name a
benchmark or a baseline, without which two numbers can hardly be compared.
"""

import logging
import sys
from pathlib import Path

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site
from benchmarks.reader_days import store


def main() -> int:
    """Store, read, ask the API and print."""
    parser = arguments(__doc__, days=30)
    parser.add_argument("--papers", type=Path, required=True)
    options = parser.parse_args()
    with empty_site():
        from django.conf import settings
        from django.test import Client

        from webapp.claims import abstracts

        settings.ALLOWED_HOSTS = ["testserver"]
        logging.disable(logging.WARNING)  # of the broker, which no worker needs here
        days = store(options.papers, options.days)
        while abstracts.read_new():
            pass
        groups, page = [], 1
        while page:
            answer = Client().get(f"/api/v1/quantities/abstracts?page={page}").json()
            groups += answer["items"]
            page = answer["next"]
    shared = [group for group in groups if group["papers"] >= 3]
    scoped = [group for group in shared if group["benchmark"] or group["against"]]
    print(*(f"{g['papers']:3d}  {g}" for g in scoped[:20]), sep="\n")
    return report(
        [
            Figure("papers", sum(map(len, days.values())), "", beside=f"{len(days)} days"),
            Figure("quantities", len(groups), ""),
            Figure("of three or more papers", len(shared), ""),
            Figure("and with benchmark or baseline", len(scoped), ""),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
