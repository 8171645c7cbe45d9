"""When a benchmark of time may stop, and how sure its intervals must then be drawn.

Whoever looks at intervals again and again and stops when they are narrow, stops most often when
they happen to be too narrow: at 95 % each, fewer than 95 of 100 hold the truth in the end. So
measuring is looked at three times at most, and the five errors in a hundred that are allowed in all
are spent over the looks (Pocock 1977; Lan and DeMets 1983): intervals that would stop it early are
drawn wider, and the last look has whatever is left. By Bonferroni's inequality all errors together
are at most those allowed, whatever the scatter between processes is. A look that ends measuring for
another reason (time, the most processes) was to be the last whatever it shows, so it has the rest.
"""

from __future__ import annotations

from methods.measure.statistics import CONFIDENCE

MOST = 4  # times the least number of runs
SHARES = {1: 0.2, 2: 0.3}  # of all errors, at the first looks: after 1 and 2 times the least number


class Looks:
    """The looks at one measurement of at least so many runs, in their order."""

    def __init__(self, least: int) -> None:
        self._errors = {times * least: share * (1 - CONFIDENCE) for times, share in SHARES.items()}
        self._left = 1 - CONFIDENCE

    def confidence(self, runs: int, *, last: bool) -> float | None:
        """Of the intervals to be looked at after so many runs; None where no look is due."""
        error = self._left if last else self._errors.get(runs)
        if error is None:
            return None
        self._left -= error
        return 1 - error
