"""Slices of old segments are brought into the page cache by threads, before they are sent.

`os.sendfile` waits for the disk when a page is not in memory, and with it would wait everything
the event loop serves. So a slice is looked at before it is sent; a cold one is read ahead in a
thread, and only the connection that asked for it waits.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from odradek.storage.files import FileSlice

# Pages between two that are in memory are mostly there too: the system reads in larger runs.
_PROBE_BYTES: Final = 512 * 1024
_THREADS: Final = 4


def is_warm(piece: FileSlice) -> bool:
    """Whether the slice can be sent without waiting for the disk, as far as probes can tell.

    The byte behind it counts too: there begins what a reader that goes on will ask for, and the
    event loop looks at that beginning when it does.
    """
    is_cached = piece.file.is_cached
    end = piece.position + piece.length
    return all(map(is_cached, range(piece.position, end, _PROBE_BYTES))) and is_cached(end)


class ColdReads:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Threads start with the first cold slice, not with the broker.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="cold-read")

    def prepare(self, piece: FileSlice, then: Callable[[BaseException | None], None]) -> None:
        """Read the slice into the page cache; `then` is called on the loop, with what failed."""

        def report(done: Future[None]) -> None:
            self._loop.call_soon_threadsafe(then, done.exception())

        self._threads.submit(piece.read_ahead).add_done_callback(report)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
