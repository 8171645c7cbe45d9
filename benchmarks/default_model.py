"""Makes the model of the site's own list, from papers that were chosen by hand.

    python -m benchmarks.default_model --papers PAPERS.jsonl

PAPERS.jsonl holds lines as for `benchmarks.reader_days`, with the papers that `defaults.json`
names as chosen; the last 1,400 of the others stand for everything else.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.large_site import empty_site


def main() -> int:
    """Train and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--papers", type=Path, required=True)
    options = parser.parse_args()
    with empty_site(), options.papers.open() as lines:
        make([json.loads(line) for line in lines])
    return 0


def make(rows: list[dict[str, str]]) -> None:
    """Store the model that is learned from the chosen papers among `rows`."""
    from webapp.digests.profiles import defaults
    from webapp.learning.preferences import CLOSE
    from webapp.learning.training import Signals, train
    from webapp.papers.models import Paper

    papers = Paper.objects.bulk_create(
        Paper(arxiv_id=row["id"], title=row["title"], abstract=row["abstract"],
              title_html="", abstract_html="", authors=[], categories=["cs.LG"],
              primary_category="cs.LG")
        for row in rows
    )  # fmt: skip
    keys = {paper.arxiv_id: paper.pk for paper in papers}
    learned = train(Signals({keys[name]: 1.0 for name in defaults.CHOSEN}, ()))
    if learned is None:
        raise SystemExit("The papers beside those that are chosen are too few.")
    # Without identifiers: a site may lack these papers.
    named = [[title, "", True] for title, _, _ in learned.examples["papers"]]
    # So that the least closeness of a listed paper is that of every list.
    scale = CLOSE / defaults.LEAST
    model = {
        "intercept": learned.model.intercept,
        "weights": learned.model.weights,
        "reference": learned.reference,
        "margin": round(learned.margin / scale**2, 4),
        "keyword_closeness": round(defaults.A_POINT * scale, 4),
        "examples": {**learned.examples, "papers": named, "saved": []},
        "fingerprint": learned.fingerprint,
    }
    defaults.MODEL.write_text(json.dumps(model, indent=None, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
