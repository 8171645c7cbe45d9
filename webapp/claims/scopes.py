"""Which quantity a number of an abstract is of, in names that papers can be compared by.

The usual name of its metric, the relation, and the benchmark, comparator and stage that its own
words name. What they do not name, or name twice, stays open: nothing is guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from webapp.claims.extraction.claims import RuleClaim
from webapp.claims.tables import names
from webapp.core.tables import table

_DATA = table(__file__, "comparators.toml")
STAGES: Mapping[str, str] = _DATA["stages"]
BUILT_IN: Mapping[str, str] = {
    written: name for name, ways in _DATA["comparators"].items() for written in ways
}
SPEED_UP = "speed-up"
_FASTER = re.compile(r"\bfaster|speed[ -]?up|acceleration", re.IGNORECASE)
_AROUND = re.compile(
    r"^(?:(?:the|a|an|its|our|their|challenging|standard|public|popular) )+"
    r"|(?: (?:benchmarks?|data ?sets?|test set|tests?|validation set|leaderboard|tasks?))+$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quantity:
    """What numbers of several papers must share to be listed together; "" is not named."""

    metric: str
    relation: str
    benchmark: str = ""
    against: str = ""
    stage: str = ""


def quantity_of(claim: RuleClaim, comparators: Mapping[str, str] = BUILT_IN) -> Quantity | None:
    """The quantity of a claim with a tuple whose metric is known by name, else None.

    `comparators` has the usual name of each way to write one.
    """
    metric = _metric(claim)
    if not metric or claim.relation is None:
        return None
    return Quantity(
        metric,
        claim.relation,
        benchmark(claim.setting),
        comparator(claim.baseline, comparators),
        stage(f"{claim.metric} {claim.setting}"),
    )


def plain(words: str) -> str:
    """Words as comparators.toml writes them."""
    return " ".join(re.sub(r"\([^()]*\)|-", " ", words.lower()).split())


def comparator(baseline: str, comparators: Mapping[str, str] = BUILT_IN) -> str:
    """The usual name of what a baseline is, else ""."""
    return comparators.get(plain(_AROUND.sub("", baseline)), "")


def stage(words: str) -> str:
    """The only stage that words name, else ""."""
    named = [name for name, ways in STAGES.items() if re.search(ways, words, re.IGNORECASE)]
    return named[0] if len(named) == 1 else ""


@cache
def benchmark(setting: str) -> str:
    """The benchmark that a setting is, without the words around its name, else ""."""
    return names.benchmark(_AROUND.sub("", _AROUND.sub("", setting))) or ""


def _metric(claim: RuleClaim) -> str:
    """The usual name of the longest end of its words that is a known metric."""
    if _FASTER.search(claim.metric):
        return SPEED_UP if claim.relation == "ratio" else ""
    words = claim.metric.split()
    for start in range(len(words)):
        if known := names.metric(" ".join(words[start:])):
            return known.name
    return ""
