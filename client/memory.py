"""The memory that records may wait in: reserved by batch, given back when a batch is settled.

A budget rather than blocks: a batch's bytes are made when it is sent, and Python's allocator
reuses 16 KB pieces by itself. Whoever finds too little left waits in line, first come first served.
"""

import asyncio
from collections import deque

from odradek.protocol.errors import Errors, KafkaError


class BufferMemory:
    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_short(self) -> bool:
        """Somebody waits: batches should leave even if they are not full."""
        return bool(self._waiting)

    def try_reserve(self, count: int) -> bool:
        if count > self.free_bytes or self._waiting:
            return False
        self.free_bytes -= count
        return True

    async def reserve(self, count: int, timeout_s: float) -> None:
        """Raises REQUEST_TIMED_OUT when the memory does not become free in time."""
        if count > self.total_bytes:
            raise KafkaError(
                Errors.RECORD_LIST_TOO_LARGE, f"{count} bytes do not fit into buffer.memory"
            )
        if self.try_reserve(count):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, turn))
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(count)
            else:
                self._waiting.remove((count, turn))
                self._serve()
            if isinstance(error, TimeoutError):
                message = f"the buffer is full: no memory in {timeout_s:g} s"
                raise KafkaError(Errors.REQUEST_TIMED_OUT, message) from None
            raise

    def release(self, count: int) -> None:
        self.free_bytes += count
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free_bytes:
            count, turn = self._waiting.popleft()
            if not turn.done():
                self.free_bytes -= count
                turn.set_result(None)
