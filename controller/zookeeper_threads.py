"""Where kazoo's threads meet the event loop.

kazoo reads its socket in a thread of its own and would hand answers to one worker thread and
watches to another, so that their order is lost. Here both go to the event loop, in the order in
which that one thread put them: an answer can never overtake a watch that ZooKeeper sent before it.

Used by `store_zookeeper` alone.
"""

import asyncio
import contextlib
from collections.abc import Callable

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.interfaces import IAsyncResult


class LoopQueue:
    """A queue, as far as kazoo looks, whose items are called on the loop as they are put."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def put(self, call: Callable[[], object]) -> None:
        # A loop that is closed has nobody left who would want to know.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is untyped
    """kazoo's handler without its two worker threads."""

    # Otherwise kazoo makes calls in whatever thread it is in, after the client was stopped.
    running = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.callback_queue = self.completion_queue = LoopQueue(loop)

    def start(self) -> None:
        """There are no workers to start."""

    def stop(self) -> None:
        """There are no workers to stop."""


def future_of(result: IAsyncResult, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[object]":
    """What kazoo promises, as the loop awaits it."""
    future: asyncio.Future[object] = loop.create_future()

    def settle(done: IAsyncResult) -> None:
        if future.done():
            return
        if done.exception is None:
            future.set_result(done.value)
        else:
            future.set_exception(done.exception)

    result.rawlink(settle)
    return future
