"""Shares as reports print them, with a 95 % interval and the counts."""

import math

_Z = 1.959964  # of a 95 % interval


def wilson(right: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score (JASA 22, 1927)."""
    if not total:
        return 0.0, 1.0
    share, square = right / total, _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    half /= 1 + square / total
    return max(0.0, middle - half), min(1.0, middle + half)


def in_words(right: int, total: int) -> str:
    """A share and its interval: "0.953 (0.925 to 0.971; 322 of 338)"."""
    if not total:
        return "undefined (0 of 0)"
    low, high = wilson(right, total)
    return f"{right / total:.3f} ({low:.3f} to {high:.3f}; {right} of {total})"


def precision_and_recall(right: int, found: int, there: int) -> str:
    """Return precision and recall in words, each with its interval."""
    return f"precision {in_words(right, found)}, recall {in_words(right, there)}"
