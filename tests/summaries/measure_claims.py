"""True and false claims and first sentences, as a model would make them: how many pass as found.

`python -m tests.summaries.measure_claims CLAIMS ABSTRACTS`: CLAIMS has a line a claim,
`paper|value|unit|subject|metric|baseline|setting`, written by hand from the abstract
(claims_, fresh_ and kinds_ true.txt and false.txt), or a line a sentence,
`true|paper|sentence` (first_sentences.txt); ABSTRACTS has lines `{"id", "title", "abstract"}`,
which belong to arXiv. The quote of a claim is the sentence that holds its number. Lines of papers
that ABSTRACTS lacks are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

FIELDS = ("paper", "value", "unit", "subject", "metric", "baseline", "setting")


def lines(path: Path, texts: dict[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """Each line of a file with the text of its paper, as far as that is there."""
    from webapp.summaries.paper_text import PaperText

    for line in path.read_text().splitlines():
        fields = line.split("|")
        is_sentence = len(fields) == 3
        paper = texts.get(fields[is_sentence])
        if paper is not None:
            yield fields, PaperText(paper.get("title", ""), paper["abstract"], [])


def outcome(fields: list[str], text: Any) -> str:
    """Return the words of a page on a claim or a first sentence."""
    from webapp.summaries.agreement import check_claim, check_statement
    from webapp.summaries.details import not_given
    from webapp.summaries.schema import ClaimedNumber

    if len(fields) == 3:
        checked, is_whole = check_statement(fields[2], text), True
    else:
        claim = dict(zip(FIELDS[1:], fields[1:], strict=True))
        number = re.escape(claim["value"].lstrip("-"))
        sentences = re.split(r"(?<=[a-z)%0-9]\.)\s+(?=[A-Z])", text.original)
        quote = next(s for s in sentences if re.search(rf"(?<![\d.]){number}(?![\d])", s))
        claimed = ClaimedNumber(**claim, quote=quote[-1000:])
        checked = check_claim(claimed, text)
        grounding = text.ground(claimed.value, claimed.unit, claimed.quote)
        is_whole = grounding.state.value == "number and unit" and not not_given(claimed, text)
    if checked.otherwise:
        return "otherwise"
    return "found" if checked.is_found and is_whole else "not checked"


def main(path: Path, texts: Path) -> None:
    """Print what becomes of each line, and how many are found or told otherwise."""
    rows = map(json.loads, texts.read_text().splitlines())
    counts: dict[str, Counter[str]] = {}
    for fields, text in lines(path, {row["id"]: row for row in rows}):
        said = outcome(fields, text)
        kind = fields[0] if len(fields) == 3 else path.stem
        counts.setdefault(kind, Counter())[said] += 1
        print(f"{said:11} {' | '.join(fields)}")
    for kind, count in counts.items():
        print(f"{kind}: {dict(count)} of {count.total()}")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", type=Path, help="one of the files beside this one")
    parser.add_argument("abstracts", type=Path, help="the abstracts they are of")
    options = parser.parse_args()
    main(options.claims, options.abstracts)
