"""One broker as a whole process: its event loop, its signals, its garbage collection.

Runs until SIGINT or SIGTERM, then stops cleanly. A second signal ends the process at once: what
was acknowledged is safe on disk or with the replicas either way.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from odradek.broker.broker import Broker
from odradek.broker.config import BrokerConfig
from odradek.broker.network.busy_poll import BusyPoll
from odradek.broker.network.readiness import Readiness
from odradek.broker.wanted_topics import WantedTopic
from odradek.protocol.clock import SystemClock
from odradek.storage.files import OsFiles, raise_open_file_limit

log: Final = logging.getLogger(__name__)

# Requests leave no cycles behind, so young objects are looked at rarely; what exists when the
# broker is ready stays for good and is never looked at again.
_GC_THRESHOLDS: Final = (50_000, 20, 50)
# glibc's names for its settings, and how much memory it may keep for the next large request: given
# back after each, as it does by itself, a request of 1 MB pays as much for fresh pages as for the
# rest. What is larger than the second is given back.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES: Final = 8 << 20
_LARGEST_KEPT_BYTES: Final = 4 << 20
_KILLED_BY_SIGNAL: Final = 128
_FAILED: Final = 1


def run_broker(
    config: BrokerConfig,
    topics: Sequence[WantedTopic],
    announce: Callable[[Broker], None],
    *,
    busy_poll_us: int,
) -> None:
    """Serve until a signal comes; `announce` is called, on the loop, when clients can be served.
    `busy_poll_us` is how long the loop may stay awake for the next request.

    Raises CannotStart or CannotListen.
    """
    run_loop(_serve(config, topics, announce, raise_open_file_limit(), busy_poll_us))


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run to its end, on uvloop when it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def give_up(reason: str) -> None:
    """End the process at once: what it would do next cannot be trusted."""
    log.critical("The broker cannot go on: %s", reason)
    os._exit(_FAILED)


async def _serve(
    config: BrokerConfig,
    topics: Sequence[WantedTopic],
    announce: Callable[[Broker], None],
    max_open_files: int,
    busy_poll_us: int,
) -> None:
    loop = asyncio.get_running_loop()
    stop = on_signals(loop)

    clock = SystemClock()
    readers = Readiness(loop, _busy_poll(busy_poll_us, loop, clock))
    broker = Broker(
        config,
        loop=loop,
        clock=clock,
        files=OsFiles(),
        random=Random(),
        on_fatal=give_up,
        max_open_files=max_open_files,
        readers=readers,
    )
    await broker.start(topics)
    spare_garbage_collection()
    announce(broker)
    keep_freed_memory()
    await stop.wait()
    log.info("stopping")
    await broker.stop()
    readers.close()
    log.info("stopped")


def _busy_poll(
    microseconds: int, loop: asyncio.AbstractEventLoop, clock: SystemClock
) -> BusyPoll | None:
    """None where it could only keep clients from running."""
    if not microseconds or len(os.sched_getaffinity(0)) == 1:
        return None
    return BusyPoll(
        seconds=microseconds / 1e6,
        now=clock.monotonic,
        call_soon=loop.call_soon,
        give_way=os.sched_yield,
    )


def on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        # Of a second SIGTERM nothing follows: it comes by itself where one goes to a group of
        # processes and is also handed on within it (timeout, container inits).
        if stop.is_set() and number == signal.SIGINT:
            os._exit(_KILLED_BY_SIGNAL + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    return stop


def spare_garbage_collection() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def keep_freed_memory() -> None:
    """Not for the start: what it needs takes milliseconds to import."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # another C library, with habits of its own
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
