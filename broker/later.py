"""An answer that comes later, without the event loop in between.

A future tells of its result in the loop's next turn, by a handle made for that. Requests wait by
the thousands, and what they wait for mostly happens in the midst of another request; so whoever
waits here is called then and there, by a plain call. It must not raise, and must not begin work of
its own: dispatch puts the answer in its place and sends it in the next turn.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Later(Generic[R]):
    """Set once; later results count for nothing."""

    __slots__ = ("_tell", "is_there", "result")

    result: R

    def __init__(self) -> None:
        self.is_there = False
        self._tell: Callable[[R], object] | None = None

    def set(self, result: R) -> None:
        if self.is_there:
            return
        self.is_there = True
        self.result = result
        if self._tell is not None:
            self._tell(result)

    def then(self, tell: Callable[[R], object]) -> None:
        """Call `tell` with the result, at once when it is there. For one who waits."""
        assert self._tell is None, "somebody waits already"
        if self.is_there:
            tell(self.result)
        else:
            self._tell = tell

    def __await__(self) -> Generator[Any, None, R]:
        if not self.is_there:
            news = asyncio.Event()
            self.then(lambda _: news.set())
            yield from news.wait().__await__()
        return self.result
