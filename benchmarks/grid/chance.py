"""Could the order of two readings be chance? The rank-sum test of Mann and Whitney, exactly.

Medians decide whether a bar is met. Where both readings scatter around the same value, as they do
when the client is all that is measured, the next run may decide otherwise; this tells where.
"""

import math
from collections.abc import Sequence
from functools import cache

# The usual bound: of twenty orders that are chance, one is taken for more.
LIKELY = 0.05


def chance_of_order(lower: Sequence[float], higher: Sequence[float]) -> float:
    """How likely the second would be as far above the first, or farther, if both had come from one
    hat. What is equal counts half."""
    wins = sum((high > low) + (high == low) / 2 for high in higher for low in lower)
    ways = _ways(len(lower), len(higher))
    return sum(ways[math.floor(wins) :]) / sum(ways)


def can_tell(lower: int, higher: int) -> bool:
    """Whether so many rounds can be in an order that is not likely by chance."""
    return 1 / math.comb(lower + higher, lower) <= LIKELY


@cache
def _ways(lower: int, higher: int) -> tuple[int, ...]:
    """In how many orders of so many rounds the second wins 0, 1, 2 … of all comparisons."""
    if not lower or not higher:
        return (1,)
    counts = [0] * (lower * higher + 1)
    # The highest round is one of the second, which wins against all of the first, or one of those.
    for wins, ways in enumerate(_ways(lower, higher - 1)):
        counts[wins + lower] += ways
    for wins, ways in enumerate(_ways(lower - 1, higher)):
        counts[wins] += ways
    return tuple(counts)
