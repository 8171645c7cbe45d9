"""Do the words near a number say what the model says of it? Else it is the model's reading."""

import re

from .numbers import fold

_UNTOLD = frozenset({"the", "and", "for", "with", "average", "mean", "improvement", "number"})
_LOWER_IS_BETTER = re.compile(
    r"error|loss|latenc|memory|footprint|perplexity|time|cost|fid|rmse|mae|wer|flops|energy"
    r"|overhead|drop|degradation|reduc|fewer|less|smaller|hallucinat|size"
)
_HIGHER_IS_BETTER = re.compile(
    r"accura|f1|auc|auroc|bleu|rouge|score|precision|recall|speed|throughput|gain|improve"
    r"|success|psnr|ssim|iou|dice|map|correlation|sav|reduction|agreement|faster|boost|increas"
)
_GOES_DOWN = re.compile(
    r"reduc|decreas|lower|fewer|less|smaller|cut|shrink|halv|minimi[sz]|drop|declin|faster"
)
_GOES_UP = re.compile(
    r"improv|increas|higher|more|gain|boost|rais|rise|outperform|surpass|exceed|achiev|attain"
    r"|reach|faster|speed"
)
_SAID_BY = {"lower": (_LOWER_IS_BETTER, _GOES_DOWN), "higher": (_HIGHER_IS_BETTER, _GOES_UP)}


def metric_is_near(metric: str, context: str) -> bool:
    """Whether at least half of the metric's words stand in the folded words around the number."""
    words = [w for w in re.findall(r"[^\W_]{2,}", fold(metric)) if w not in _UNTOLD]
    found = sum(_stem(word) in context for word in words)
    return bool(words) and 2 * found >= len(words)


def direction_is_near(direction: str, metric: str, context: str) -> bool:
    """Whether "higher" or "lower is better" follows from the metric or from a verb beside it."""
    if direction not in _SAID_BY:
        return True  # "unknown" claims nothing
    metrics, verbs = _SAID_BY[direction]
    by_metric = metrics.search(fold(metric)) and metric_is_near(metric, context)
    return bool(by_metric or verbs.search(context))


def _stem(word: str) -> str:
    """Enough of a word to find it in another form: "accuracies" is "accurac"."""
    return word if len(word) < 5 else word[: max(4, len(word) - 3)]
