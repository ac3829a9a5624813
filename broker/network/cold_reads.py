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

_THREADS: Final = 4


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
