"""CPU time of small pieces of code.

The work is done in many short rounds and the best one counts: other processes, which share caches
and cores, can only make a round longer, and a short one is likelier to be left alone.
"""

import time
import timeit
from collections.abc import Callable

ROUNDS = 200


def best_us(work: Callable[[], object], *, calls: int) -> float:
    """Microseconds of one call of `work`, which is called about `calls` times."""
    each = max(1, calls // ROUNDS)
    rounds = max(5, min(ROUNDS, calls))
    best = min(timeit.repeat(work, timer=time.process_time, number=each, repeat=rounds))
    return best / each * 1e6
