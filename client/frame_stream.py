"""Bytes from a socket to frames, without copying large ones.

A frame is four bytes of length and that many bytes. Small frames gather in a staging buffer, so
that one system call brings many; as soon as the length of a large one is known, the rest of it is
received into a buffer of its own size, which then belongs to whoever gets the frame.

Used by `connection` alone. Beside asyncio's streams on uvloop (benchmarks/client_parts.py, with the
echoing server's cost in both) it takes a sixth less for frames of 1 MB and gains nothing for small
ones: it is here for the large ones, and because answers arrive without a task that reads them.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from odradek.protocol.errors import ProtocolError
from odradek.protocol.frames import LENGTH

Frame = bytes | bytearray

STAGING_BYTES: Final = 64 * 1024
# From this size on, a buffer of its own costs less than copying out of the staging buffer.
LARGE_FRAME_BYTES: Final = 16 * 1024


class FrameStream(asyncio.BufferedProtocol):
    """Calls `on_frame` for each frame and `on_lost` once at the end.

    `on_frame` may raise ProtocolError; like a length that lies, it ends the connection.
    """

    def __init__(
        self,
        *,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[Exception | None], None],
        max_frame_bytes: int,
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._max_frame_bytes = max_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._failure: ProtocolError | None = None
        self._staging = memoryview(bytearray(STAGING_BYTES))
        self._staged = 0
        self._large: bytearray | None = None
        self._large_view = memoryview(b"")
        self._large_filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost(self._failure or error)

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._large is not None:
            return self._large_view[self._large_filled :]
        return self._staging[self._staged :]

    def buffer_updated(self, count: int) -> None:
        try:
            if self._large is None:
                self._split(self._staged + count)
            else:
                self._fill(self._large, count)
        except ProtocolError as error:
            self._failure = error
            if self._transport is not None:
                self._transport.abort()

    def _fill(self, large: bytearray, count: int) -> None:
        self._large_filled += count
        if self._large_filled == len(large):
            self._large = None
            self._large_view = memoryview(b"")
            self._on_frame(large)

    def _split(self, end: int) -> None:
        staging = self._staging
        position = 0
        while end - position >= 4:
            (length,) = LENGTH.unpack_from(staging, position)
            if not 4 <= length <= self._max_frame_bytes:
                raise ProtocolError(f"a frame cannot have {length} bytes")
            begin = position + 4
            position = begin + length
            if position <= end:
                self._on_frame(bytes(staging[begin:position]))
            elif length >= LARGE_FRAME_BYTES:
                self._begin_large(length, staging[begin:end])
                return
            else:
                position = begin - 4
                break
        if position and position < end:
            staging[: end - position] = bytes(staging[position:end])
        self._staged = end - position

    def _begin_large(self, length: int, begun: memoryview) -> None:
        self._large = bytearray(length)
        self._large_view = memoryview(self._large)
        self._large_view[: len(begun)] = begun
        self._large_filled = len(begun)
        self._staged = 0
