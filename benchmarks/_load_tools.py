"""What the loads of all clients share: a stopwatch, and loops that are the same for several."""

import time
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

BATCH_BYTES = 16_384


class Stopwatch:
    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def reading(self) -> dict[str, float]:
        return {
            "seconds": time.perf_counter() - self._wall,
            "cpu": time.process_time() - self._cpu,
        }


def percentiles(latencies: list[float]) -> dict[str, float]:
    latencies.sort()
    return {"p50": latencies[len(latencies) // 2], "p99": latencies[len(latencies) * 99 // 100]}


async def latencies(send: Callable[[], Awaitable[object]], count: int) -> dict[str, float]:
    found = []
    for number in range(count + count // 10):
        began = time.perf_counter()
        await send()
        if number >= count // 10:
            found.append(time.perf_counter() - began)
    return percentiles(found)


async def iterated(consumer: AsyncIterable[Any], count: int) -> dict[str, float]:
    got = 0
    watch = None
    async for record in consumer:
        watch = watch or Stopwatch()
        got += 1
        _ = record.value
        if got == count:
            break
    return watch.reading() if watch else {}
