"""Student's t distribution: the quantile that every interval here is drawn by."""

import math
from functools import lru_cache

LARGEST = 1e6  # standard errors, beyond the quantile of any share below 0.999999


@lru_cache(maxsize=256)
def quantile(degrees: int, share: float) -> float:
    """Return half the width of an interval of this share, in standard errors.

    The distribution's integral has a closed form, so halving on it finds the quantile.
    """
    low, high = 0.0, LARGEST
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, degrees) < share else (low, middle)
    return (low + high) / 2


def central(t: float, degrees: int) -> float:
    """Return P(|T| < t): with θ = atan(t / √ν), a finite sum of powers of cos θ.

    Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(degrees))
    cosine, odd = math.cos(angle), degrees % 2
    if degrees == 1:
        return 2 * angle / math.pi
    total = term = cosine if odd else 1.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
