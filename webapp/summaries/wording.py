"""Whether the text near a number confirms the metric and direction that a model gives for it."""

import re

from webapp.claims.numbers import fold
from webapp.ui.tables import table

_WORDS: dict[str, str] = table(__file__, "wording.toml")
_UNSPECIFIC = frozenset(_WORDS.pop("unspecific").split())
_WORDS.pop("says nothing")  # of the details of a claim
_BEGINNINGS = {name: re.compile("|".join(words.split())) for name, words in _WORDS.items()}


def metric_is_near(metric: str, context: str) -> bool:
    """Whether at least half of the metric's words stand in the folded words around the number."""
    words = [w for w in re.findall(r"[^\W_]{2,}", fold(metric)) if w not in _UNSPECIFIC]
    found = sum(_stem(word) in context for word in words)
    return bool(words) and 2 * found >= len(words)


def direction_is_near(direction: str, metric: str, context: str) -> bool:
    """Whether "higher" or "lower is better" follows from the metric or from a verb beside it."""
    if direction not in {"lower", "higher"}:
        return True  # "unknown" claims nothing
    metrics = _BEGINNINGS[f"{direction} is better"]
    verbs = _BEGINNINGS["goes down" if direction == "lower" else "goes up"]
    by_metric = metrics.search(fold(metric)) and metric_is_near(metric, context)
    return bool(by_metric or verbs.search(context))


def _stem(word: str) -> str:
    """Enough of a word to find it in another form: "accuracies" is "accurac"."""
    return word if len(word) < 5 else word[: max(4, len(word) - 3)]
