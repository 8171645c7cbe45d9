"""True claims of abstracts, and what a model may make of them: units and numbers that do not stand.

Everything here is read from the text by its own few lines, not by the grammar under test.
`python -m tests.claims.inventions --annotations FILE --input FILE` prints how often each kind is
told; without arguments the abstracts written for the tests are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import django

HERE = Path(__file__).parent
UNITS = ("%", "×", "ms", "s", "GB", "percentage points", "tokens/s", "FPS", "dB", "hours")
_SAME = ({"%", "percent", "per cent"}, {"×", "x", "times", "fold", "-fold", "X"})
_SAME += ({"s", "seconds", "second"}, {"ms", "milliseconds"}, {"h", "hours", "hour"})
_SAME += ({"percentage points", "pp", "points"}, {"FPS", "frames per second"}, {"GB", "gigabytes"})
_NUMBER = re.compile(r"(?:(?<![\dxX%-])[-+−])?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Case:
    """A claim to be looked up in `text`, and the states that are right for it."""

    kind: str
    text: str
    value: str
    unit: str
    quote: str
    right: frozenset[str]


FOUND = frozenset({"number and unit"})
NO_UNIT = frozenset({"number only", "not found"})
MISSING = frozenset({"not found"})


def cases(text: str, start: int, end: int, rng: random.Random) -> Iterator[Case]:
    """The claim that stands at `start:end` of an abstract, and inventions made of it."""
    span = text[start:end]
    figures = list(_NUMBER.finditer(span))
    quote = _sentence(text, start, end)
    if not figures:
        yield from _words(span, text, quote)
        return
    unit = _unit(span[figures[-1].end() :])
    values = [figure[0].replace(",", "") for figure in figures]
    if "±" in span or "\\pm" in span:
        figures = figures[:1]
    if len(figures) == 2:
        joint = " -> " if span.startswith("from") else "-"
        pair = Case("range", text, joint.join(values), unit, quote, FOUND)
        yield pair
        if values[0] != values[1] and f"{values[1]} " not in span[: figures[0].end()]:
            yield replace(pair, kind="reversed", value=" -> ".join(reversed(values)), right=MISSING)
        return
    true = Case("as written", text, values[0], unit, quote, FOUND)
    yield true
    yield replace(true, kind="value with unit", value=f"{values[0]} {unit}", unit="")
    for other in rng.sample([u for u in UNITS if not _means_same(u, unit)], 3):
        if other not in quote:
            yield replace(true, kind="invented unit", unit=other, right=NO_UNIT)
    standing = {abs(float(n.replace(",", "").replace("−", "-"))) for n in _NUMBER.findall(quote)}
    for number in _altered(values[0], rng):
        if abs(float(number)) not in standing:
            yield replace(true, kind="altered number", value=number, right=MISSING)
    if values[0][0] not in "-−+" and float(values[0]):
        yield replace(true, kind="other sign", value=f"-{values[0]}", right=MISSING)


def _words(span: str, text: str, quote: str) -> Iterator[Case]:
    factors = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
    factors |= {"nine": 9, "ten": 10, "twice": 2, "doubl": 2, "tripl": 3, "halv": 2}
    for word, factor in factors.items():
        is_factor = re.search(r"fold|times|twice|doubl|tripl|halv", span.lower())
        if span.lower().startswith(word) and is_factor:
            case = Case("number word", text, str(factor), "×", quote, FOUND)
            yield case
            yield replace(case, kind="altered number", value=str(factor + 1), right=MISSING)
            yield replace(case, kind="invented unit", unit="GB", right=NO_UNIT)


def _sentence(text: str, start: int, end: int) -> str:
    before = [m.end() for m in re.finditer(r"[.!?]\s+(?=[A-Z])", text[:start])]
    after = re.search(r"[.!?](?=\s+[A-Z]|\s*$)", text[end:])
    return text[before[-1] if before else 0 : end + after.end() if after else len(text)][:900]


def _unit(written: str) -> str:
    plain = re.sub(r"\\times", "×", written)
    return re.sub(r"[\\{}$~]", " ", plain).strip(" -").replace("  ", " ")


def _means_same(one: str, other: str) -> bool:
    return one == other or any(one in same and other in same for same in _SAME)


def _altered(value: str, rng: random.Random) -> Iterator[str]:
    digits = [i for i, c in enumerate(value) if c.isdigit()]
    at = rng.choice(digits)
    yield value[:at] + str((int(value[at]) + rng.randint(1, 9)) % 10) + value[at + 1 :]
    plain = value.lstrip("+-−")
    if len(plain) > 2:
        yield plain[1:] if plain[1] != "." else "9" + plain
        yield plain[:-1].rstrip(".")
    yield f"{float(plain) * 10:g}"
    yield f"{rng.uniform(100, 999):.2f}"


def written_for_tests() -> Iterator[Case]:
    """The cases of the abstracts that were written for the tests."""
    rng = random.Random(7)
    for paper in json.loads((HERE / "abstracts.json").read_text()):
        for start, end in paper["claims"]:
            yield from cases(paper["abstract"], start, end, rng)


def annotated(annotations: Path, texts: Path) -> Iterator[Case]:
    """The cases of annotated abstracts whose texts lie elsewhere."""
    rng = random.Random(7)
    marked = {row["id"]: row for row in map(json.loads, annotations.read_text().splitlines())}
    with texts.open() as lines:
        for paper in map(json.loads, lines):
            for start, end in marked.pop(paper["id"], {"claims": []})["claims"]:
                yield from cases(paper["abstract"], start, end, rng)


def main() -> None:
    """Print, for each kind, how many cases were told right, and those that were not."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    from webapp.claims.grounding import GroundTruth

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotations", type=Path, default=HERE / "annotations.jsonl")
    parser.add_argument("--input", type=Path, help="texts: lines {id, abstract}")
    parser.add_argument("--show", action="store_true", help="print what was told wrong")
    options = parser.parse_args()
    chosen = annotated(options.annotations, options.input) if options.input else written_for_tests()
    total: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for case in chosen:
        state = GroundTruth(case.text).ground(case.value, case.unit, case.quote).state.value
        total[case.kind] += 1
        wrong[case.kind] += state not in case.right
        if options.show and state not in case.right:
            print(case.kind, "|", case.value, case.unit, "|", state, "|", case.quote[:300])
    for kind, number in total.items():
        print(f"{kind:16} {number:5} cases, {wrong[kind]} told wrong ({wrong[kind] / number:.1%})")


if __name__ == "__main__":
    main()
