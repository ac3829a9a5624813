"""Trying again: how long to pause, and when to stop.

Pauses double from the first to the longest and are spread by a fifth either way, so that many
clients that failed together do not come back together (Kafka's KIP-580).
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from odradek.protocol.errors import Errors, KafkaError

SPREAD: Final = 0.2
_MAX_DOUBLINGS: Final = 20

T = TypeVar("T")


class Backoff:
    def __init__(self, first_ms: int, longest_ms: int, random: Random) -> None:
        self._first_s = first_ms / 1000
        self._longest_s = max(longest_ms, first_ms) / 1000
        self._random = random

    def pause_s(self, failures: int) -> float:
        """How long to wait after this many failures in a row, the first of them counted as 1."""
        doubled = self._first_s * (1 << min(max(failures - 1, 0), _MAX_DOUBLINGS))
        spread = self._random.uniform(1 - SPREAD, 1 + SPREAD)
        return min(doubled, self._longest_s) * spread


async def until_done(
    attempt: Callable[[], Awaitable[T]],
    *,
    backoff: Backoff,
    timeout_s: float,
    is_temporary: Callable[[KafkaError], bool] = lambda error: error.error.retriable,
) -> T:
    """What `attempt` returns, asked again while its errors are temporary and time is left.

    When time is over the last error is raised, for it says more than that time is over.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    failures = 0
    last: KafkaError | None = None
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await attempt()
        except TimeoutError:
            late = KafkaError(Errors.REQUEST_TIMED_OUT, f"no answer in {timeout_s:g} s")
            raise last or late from None
        except KafkaError as error:
            failures += 1
            last = error
            pause_s = backoff.pause_s(failures)
            if not is_temporary(error) or loop.time() + pause_s > deadline:
                raise
        await asyncio.sleep(pause_s)
