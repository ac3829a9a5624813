"""CPU time of small pieces of code: the best of several runs, which noise can only make longer."""

import time
import timeit
from collections.abc import Callable


def best_us(work: Callable[[], object], *, calls: int, rounds: int = 7) -> float:
    """Microseconds of one call of `work`; time that other processes take does not count."""
    return (
        min(timeit.repeat(work, timer=time.process_time, number=calls, repeat=rounds)) / calls * 1e6
    )
