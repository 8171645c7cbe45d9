"""Which of our figures may be shown beside a number that a paper reports: ratios of one quantity.

Absolute values are never compared: the paper's machine, model and data are not ours. A gain
("3.5×") is compared with the gain of a method that the paper is about, if both are of one quantity
(time, memory, operations) and, where the paper names a stage such as decoding, of that stage.
"""

import re
from collections.abc import Iterable, Sequence

from webapp.catalog.measured import Best, Measurement, best
from webapp.catalog.queries import Carried
from webapp.claims.extraction.claims import RuleClaim
from webapp.summaries.models import Claim

RATIO_UNITS = frozenset({"×", "x", "times", "fold", "-fold"})
NEAR, AFTER = 80, 30  # characters before and after a number that say what it is of
_QUANTITIES = {
    "operations": re.compile(r"flops?\b|operations?\b|\bmacs?\b", re.IGNORECASE),
    "memory": re.compile(r"memory|footprint|\bcache\b|\bkv\b", re.IGNORECASE),
    "time": re.compile(
        r"speed|fast|latenc|throughput|\btime\b|acceler|runtime|tokens/s|quick", re.IGNORECASE
    ),
}
_STAGES = {
    "decoding": re.compile(r"decod|generation", re.IGNORECASE),
    "prefill": re.compile(r"prefill|first token|ttft", re.IGNORECASE),
    "training": re.compile(r"training|backward|fine-?tun", re.IGNORECASE),
}
_UNITS = {
    "time": frozenset({"s", "ms", "us", "µs", "\u03bcs", "ns", "tokens/s"}),
    "memory": frozenset({"bytes", "KiB", "MiB", "GiB"}),
    "operations": frozenset({"operations", "FLOPs", "GFLOPs"}),
}


def comparable(claim: Claim | RuleClaim, carried: Iterable[Carried]) -> Best | None:
    """Our figure of the same quantity for a method that the claim's paper is about, if any."""
    if claim.unit not in RATIO_UNITS:
        return None
    near = _near(claim)
    quantity = _nearest_quantity(claim.metric) or _nearest_quantity(near)
    if not quantity:
        return None
    described = f"{claim.metric} {near}"
    stages = [name for name, words in _STAGES.items() if words.search(described)]
    figures = (
        best([one])
        for method in carried
        for one in method.in_order
        if one.series.y.unit in _UNITS[quantity] and _is_of(stages, one)
    )
    return next(filter(None, figures), None)


def _near(claim: Claim | RuleClaim) -> str:
    """The words of the quote around the number."""
    value = re.escape(claim.value.split(" ")[0].split("-")[0])
    found = re.search(rf"(?<![\d.]){value}(?![\d.]*\d)", claim.quote)
    if found is None:
        return ""
    return claim.quote[max(0, found.start() - NEAR) : found.end() + AFTER]


def _nearest_quantity(text: str) -> str:
    """The quantity that is named last, so nearest to the number, or ""."""
    named = (
        (found.end(), name) for name, words in _QUANTITIES.items() for found in words.finditer(text)
    )
    return max(named, default=(0, ""))[1]


def _is_of(stages: Sequence[str], measurement: Measurement) -> bool:
    """Whether a measurement is of one of the stages; any is, where none is named."""
    described = f"{measurement.series.name} {measurement.series.title}"
    return not stages or any(_STAGES[stage].search(described) for stage in stages)
