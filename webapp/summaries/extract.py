"""What an abstract says without any model: its key sentences, and its numbers with units.

Small rules, not understanding: shown, labelled as such, where no model is configured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .folding import fold
from .numbers import numbers

MAX_ABSTRACT = 10_000  # characters looked at
_ABBREVIATION = re.compile(
    r"\b(?:e\.g|i\.e|et al|etc|vs|cf|resp|approx|Fig|Eq|Sec|Tab|No|Dr|St)\.$"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[$]*[A-Z0-9])")
_CUES = (
    (3.0, re.compile(r"\b(?:we|this (?:paper|work|article)) (?:propos|introduc|present|develop)")),
    (2.5, re.compile(r"\b(?:we|this (?:paper|work)) (?:show|find|demonstrat|prov|deriv|stud)")),
    (
        2.0,
        re.compile(
            r"\b(?:experiments?|results?|evaluations?|benchmarks?)\b.*\b(?:show|demonstrat)"
        ),
    ),
    (1.5, re.compile(r"\b(?:achiev|outperform|improv|reduc|surpass|exceed|accelerat|speed)")),
    (1.0, re.compile(r"\b(?:state-of-the-art|code is available|however)\b")),
)
# Units that make a number a result worth showing; "4096 tokens" or "7b" describe a setting.
_RESULT_UNITS = frozenset(
    {"%", "x", "points", "ms", "s", "us", "min", "h", "gb", "mb", "tb", "tokens/s"}
)
_SHOWN_UNIT = {"%": "%", "x": "×", "gb": " GB", "mb": " MB", "tb": " TB"}


@dataclass(frozen=True)
class Reported:
    """A number with a unit, as it stands in a sentence of the abstract."""

    value: str
    unit: str
    sentence: str


def sentences(text: str) -> list[str]:
    """The sentences of `text`, abbreviations and decimals kept whole."""
    plain = " ".join(text[:MAX_ABSTRACT].split())
    found: list[str] = []
    for piece in _SENTENCE_END.split(plain):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] = f"{found[-1]} {piece}"
        else:
            found.append(piece)
    return [s for s in found if s]


def key_sentences(abstract: str, most: int = 3) -> list[str]:
    """The sentences that say what was done and found, at most `most`, in reading order."""
    every = sentences(abstract)
    weights = [sum(w for w, cue in _CUES if cue.search(s.casefold())) for s in every]
    for i, sentence in enumerate(every):
        weights[i] += 1.5 * bool(reported_numbers(sentence))
    best = sorted(range(len(every)), key=lambda i: (-weights[i], i))[:most]
    return [every[i] for i in sorted(best)]


def reported_numbers(abstract: str) -> list[Reported]:
    """Each number with a result's unit, once, with the sentence it stands in."""
    found: dict[tuple[str, str], Reported] = {}
    for sentence in sentences(abstract):
        folded = fold(sentence)
        standing = list(numbers(folded))
        for number in standing:
            if number.unit not in _RESULT_UNITS:
                continue
            value = folded[number.start : number.end]
            range_start = re.search(
                r"(\d+(?:\.\d+)?)(%|x)?\s?(?:-|to|and)\s?$", folded[: number.start]
            )
            if (
                range_start
                and number.unit in {"%", "x"}
                and "-" in folded[range_start.end(1) : number.start]
            ):
                value = f"{range_start[1]}-{value}"
            key = (value, number.unit)
            found.setdefault(
                key, Reported(value, _SHOWN_UNIT.get(number.unit, f" {number.unit}"), sentence)
            )
    return list(found.values())
