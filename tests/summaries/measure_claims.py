"""True and false claims of abstracts, as a model would make them: how many are told otherwise.

`python -m tests.summaries.measure_claims CLAIMS ABSTRACTS`: CLAIMS has a line a claim,
`paper|value|unit|subject|metric|baseline|setting`, written by hand from the abstract
(claims_true.txt, claims_false.txt); ABSTRACTS has lines `{"id", "title", "abstract"}`, which belong
to arXiv. The quote of a claim is the sentence that holds its number.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

FIELDS = ("paper", "value", "unit", "subject", "metric", "baseline", "setting")


def claims(path: Path, abstracts: dict[str, dict[str, str]]) -> Iterator[tuple[Any, Any]]:
    """Each claim of a file with the text of its paper, as far as that is there."""
    from webapp.summaries.paper_text import PaperText
    from webapp.summaries.schema import ClaimedNumber

    for line in path.read_text().splitlines():
        fields = dict(zip(FIELDS, line.split("|"), strict=True))
        paper = abstracts.get(fields.pop("paper"))
        if paper is None:
            continue
        number = re.escape(fields["value"])
        sentences = re.split(r"(?<=[a-z)%0-9]\.)\s+(?=[A-Z])", paper["abstract"])
        quote = next(s for s in sentences if re.search(rf"(?<![\d.]){number}(?![\d])", s))
        yield (
            ClaimedNumber(**fields, quote=quote[:1000]),
            PaperText(paper["title"], paper["abstract"], []),
        )


def main(path: Path, texts: Path) -> None:
    """Print how many claims are told otherwise, or marked at all, and which."""
    from webapp.summaries.agreement import contradicting_claim
    from webapp.summaries.details import not_given

    abstracts = {row["id"]: row for row in map(json.loads, texts.read_text().splitlines())}
    count = otherwise = marked = 0
    for claim, text in claims(path, abstracts):
        count += 1
        said = contradicting_claim(claim, text)
        missing = not_given(claim, text)
        is_found = text.ground(claim.value, claim.unit, claim.quote).state.value != "not found"
        otherwise += bool(said)
        marked += bool(said or missing or not is_found)
        mark = "otherwise" if said else "not given" if missing else "" if is_found else "not found"
        print(
            f"{mark:10} {claim.value} {claim.unit} | {claim.subject} | {claim.metric} | {missing}"
        )
    print(f"{count} claims: {otherwise} told otherwise, {marked} marked")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
