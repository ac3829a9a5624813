"""Timing of small pieces of code: the best of several runs, which noise can only make longer."""

import timeit
from collections.abc import Callable


def best_us(work: Callable[[], object], *, calls: int, rounds: int = 7) -> float:
    """Microseconds of one call of `work`."""
    return min(timeit.repeat(work, number=calls, repeat=rounds)) / calls * 1e6
