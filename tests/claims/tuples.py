"""How often the words that rules give to a number are right, against what a person marked.

`tuples.jsonl` has, for abstracts whose texts lie elsewhere, what each reported number is of:
the number's place, and for metric, subject, baseline and setting the places of every phrase that
would be right there (a string where the abstract does not write it so); none where the abstract
names none. `relation` lists which relations would be right. The part "building" was read while the
rules were written, the part "judging" once, before the rules were run on it.

    python -m tests.claims.tuples --input FILE

prints, for each part, of the tuples that are shown: how many are right in every word, and how
many say all that is marked as well; of the marked numbers: how many are shown as tuples. FILE has
lines {id, abstract}. A tuple at a number that nobody marked as a claim counts as wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from webapp.claims.extraction.claims import RuleClaim

HERE = Path(__file__).parent
WORDS = ("metric", "subject", "baseline", "setting")
_LEFT_OUT = {"the", "a", "an", "our", "its", "their", "of"}


def plain(words: str) -> list[str]:
    """Words that can be compared: without case, TeX, articles, asides and plurals."""
    words = (
        unicodedata.normalize("NFKD", words.replace("\\'", "")).encode("ascii", "ignore").decode()
    )
    words = re.sub(r"\\[a-z]+|\([^()]*\)|[{}$\\*`\"]", "", words.lower())
    return [
        w.rstrip("s")
        for w in re.findall(r"[^\W_][^\s]*", words.replace("-", " "))
        if w not in _LEFT_OUT
    ]


def is_among(shown: str, marked: list[Any], abstract: str) -> bool:
    """Whether words are one of the phrases that would be right."""
    phrases = (p if isinstance(p, str) else abstract[p[0] : p[1]] for p in marked)
    return plain(shown) in [plain(phrase) for phrase in phrases]


def wrong_words(claim: RuleClaim, marked: dict[str, Any], abstract: str) -> Iterator[str]:
    """The parts of a shown tuple that are not what a person marked."""
    for name in WORDS:
        shown = getattr(claim, name)
        if shown and not is_among(shown, marked[name], abstract):
            yield f"{name} {shown!r}"
    if (claim.direction or claim.relation) not in marked["relation"]:
        yield f"relation {claim.direction or claim.relation}"


def judged(
    abstract: str, row: dict[str, Any], optional: Iterable[list[int]]
) -> Iterator[tuple[str, str]]:
    """For each shown tuple or marked number of an abstract: what became of it, and details."""
    from webapp.claims.extraction.claims import claims_of

    left = list(row["tuples"])
    for claim in claims_of(abstract):
        at = next((m for m in left if claim.start < m["at"][1] and m["at"][0] < claim.end), None)
        if at:
            left.remove(at)
        if not claim.relation:
            if at:
                yield "a number alone", f"{claim.shown} of {claim.quote}"
            continue
        if at is None:
            if not any(claim.start < end and start < claim.end for start, end in optional):
                yield "no claim", f"{claim.shown} {claim.metric} of {claim.quote}"
            continue
        wrong = list(wrong_words(claim, at, abstract))
        missing = [name for name in WORDS if at[name] and not getattr(claim, name)]
        kind = "wrong" if wrong else "right" if missing else "whole"
        yield kind, f"{claim.shown} {', '.join(wrong)} of {claim.quote}"
    for missed in left:
        yield "not found", abstract[slice(*missed["at"])]


def report(
    rows: Iterable[dict[str, Any]], texts: dict[str, str], *, show: bool = False
) -> Iterator[str]:
    """The lines to print."""
    from webapp.claims.shares import in_words

    spans = map(json.loads, (HERE / "annotations.jsonl").read_text().splitlines())
    # Claims that nobody gave words are not judged.
    optional = {row["id"]: row["claims"] + row.get("optional", []) for row in spans}
    kinds: dict[str, Counter[str]] = {}
    papers: Counter[str] = Counter()
    for row in rows:
        if row["id"] not in texts:
            continue
        papers[row["part"]] += 1
        counted = kinds.setdefault(row["part"], Counter())
        for kind, details in judged(texts[row["id"]], row, optional.get(row["id"], [])):
            counted[kind] += 1
            if show and kind not in {"right", "whole"}:
                yield f"{row['id']} {kind}: {' '.join(details.split())}"
    for part, counted in kinds.items():
        good, bad = counted["right"] + counted["whole"], counted["wrong"] + counted["no claim"]
        there = counted.total() - counted["no claim"]
        yield f"{part}: {papers[part]} abstracts, {there} numbers"
        yield f"  right in every word        {in_words(good, good + bad)}"
        yield f"  and nothing left out       {in_words(counted['whole'], good + bad)}"
        yield f"  numbers shown as tuples    {in_words(good + counted['wrong'], there)}"


def main() -> None:
    """Print the report."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--annotations", type=Path, default=HERE / "tuples.jsonl")
    parser.add_argument("--input", type=Path, required=True, help="texts: lines {id, abstract}")
    parser.add_argument("--show", action="store_true", help="print what is wrong or not shown")
    options = parser.parse_args()
    with options.input.open() as lines:
        texts = {paper["id"]: paper["abstract"] for paper in map(json.loads, lines)}
    rows = map(json.loads, options.annotations.read_text().splitlines())
    for line in report(rows, texts, show=options.show):
        print(line)


if __name__ == "__main__":
    main()
