"""An answer that a coordinator gives now or later.

Most are given before the handler returns: then there is no future, and nothing to wait for.
"""

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    """Called with the answer, once; calls after that are ignored."""

    __slots__ = ("_future", "_loop", "_response")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._response: T | None = None
        self._future: asyncio.Future[T] | None = None

    def __call__(self, response: T) -> None:
        if self._future is None:
            self._response = response
        elif not self._future.done():
            self._future.set_result(response)

    def answer(self) -> T | asyncio.Future[T]:
        """For the handler to return."""
        if self._response is not None:
            return self._response
        self._future = self._loop.create_future()
        return self._future
