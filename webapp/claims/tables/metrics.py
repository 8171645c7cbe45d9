"""Metrics and benchmarks by their names in tables, and the better direction of each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from webapp.core.tables import table

_DATA = table(__file__, "metrics.toml")
_DECORATION = re.compile(r"\s*(?:[↑↓†‡*]|\(\s*[↑↓%]\s*\)|\((?:%|ms|s|GB|MB|M|G|T)\)|\[[^\]]*\])\s*")


@dataclass(frozen=True)
class Metric:
    """A metric by its usual name, with its better direction."""

    name: str
    better: str


@lru_cache(4_096)
def is_benchmark(text: str) -> bool:
    """True if a text is the name of a well-known benchmark, decorations aside."""
    return undecorated(text).casefold() in _BENCHMARKS


_BENCHMARKS = frozenset(name.casefold() for name in _DATA["benchmarks"])


@lru_cache(4_096)
def metric(text: str) -> Metric | None:
    """The metric that a head or label names; None for any other text."""
    bare = undecorated(text).replace(" @", "@")
    return _metrics().get(bare) or _metrics().get(bare.casefold())


def direction(head_path: Sequence[str]) -> str:
    """Return the better direction under column heads, "higher" or "lower", or "" if unknown."""
    arrows = {better for sign, better in _ARROWS.items() if any(sign in text for text in head_path)}
    return _single(arrows or {m.better for text in head_path if (m := metric(text))})


def direction_of_caption(caption: str) -> str:
    """Return the better direction for a whole table, by its caption's first sentence, or ""."""
    first = first_sentence(caption)
    arrows = {better for sign, better in _ARROWS.items() if sign in first}
    named = {_metrics()[name].better for name in _in_caption(first, tuple(_metrics()))}
    return _single(arrows | named)


def first_sentence(caption: str) -> str:
    """Return what a caption says first, which is what the table shows."""
    return re.split(r"(?<=[^.]{3})\.\s", caption)[0]


_ARROWS = {"↑": "higher", "↓": "lower"}


@cache
def _metrics() -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for entry in _DATA["metrics"]:
        for written in entry["written"]:
            # An abbreviation in capitals is another word in small letters: SR, ASR, EM.
            key = written if written.isupper() and len(written) < 4 else written.casefold()
            metrics[key] = metrics[written] = Metric(entry["name"], entry["better"])
    return metrics


def undecorated(text: str) -> str:
    """Return a head without arrows, units in brackets and marks."""
    return " ".join(_DECORATION.sub(" ", text).split())


def _in_caption(caption: str, names: Sequence[str]) -> set[str]:
    """Those of the names that a caption holds as whole words; abbreviations as they are written."""
    return {
        name
        for name in names
        if re.search(
            rf"(?<![\w-]){re.escape(name)}(?![\w+-])",
            caption,
            0 if name.isupper() and len(name) < 4 else re.IGNORECASE,
        )
    }


def _single(names: set[str]) -> str:
    """Return the only member of a set, or ""."""
    return next(iter(names)) if len(names) == 1 else ""
