"""An event loop in a thread of its own, for callers that have none or must not share theirs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread; `run` waits for a coroutine on it."""

    def __init__(self, name: str) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def call() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result()

    def call(self, work: Callable[[], T]) -> T:
        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result()

    def stop(self) -> None:
        """End whatever still runs, then the loop and the thread."""
        self.run(self._cancel_others)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel_others(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
