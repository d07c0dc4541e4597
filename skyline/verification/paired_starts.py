"""The range of a ratio from pairs of processes. Each pair gives one value.

Two processes of one script differ for their whole life, and a load on the machine disturbs all rounds that it
overlaps. More rounds in the same two processes average out neither. The values of different pairs therefore
show how well a ratio is known: a t interval of their logarithms (Student 1908). It is computed after 4, 6, 8,
12 and more pairs. Each time it leaves out 1 % on either side, so that all intervals together miss the ratio
on one side in less than 5 % of measurements (Pocock 1977; Jennison and Turnbull 1989, repeated confidence
intervals).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from skyline.interval import Interval

_QUANTILES = {
    4: 4.541,
    6: 3.365,
    8: 2.998,
    12: 2.718,
    16: 2.602,
    20: 2.539,
    24: 2.500,
    28: 2.473,
    32: 2.453,
}
"""The 99 % quantile of the t distribution by the number of pairs. The degrees of freedom are the number of
pairs minus one.

``scipy.stats.t.ppf`` gives the same. The numbers of pairs are even, so that both orders of starting are
equally frequent."""
MOST_PAIRS = max(_QUANTILES)


def mean_ratio(ratios: Sequence[float]) -> Interval:
    """The geometric mean of the pairs' ratios with its range: 0 to infinity before the first number of pairs above.

    Further pairs count when the next of these numbers is reached.
    """
    looks = [count for count in _QUANTILES if count <= len(ratios)]
    if not looks:
        return Interval(math.exp(statistics.fmean(map(math.log, ratios))), 0.0, math.inf)
    count = looks[-1]
    logs = [math.log(one) for one in ratios[:count]]
    middle = statistics.fmean(logs)
    half = _QUANTILES[count] * statistics.stdev(logs) / math.sqrt(count)
    return Interval(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def scatter(ratios: Sequence[float]) -> float | None:
    """The relative standard deviation of a pair's ratio. None for a single pair."""
    return statistics.stdev([math.log(one) for one in ratios]) if len(ratios) > 1 else None
