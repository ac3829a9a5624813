"""From bytes to frames: four bytes of length, then that many bytes. No I/O happens here.

The driver receives into `space()`, says how much came with `received()`, takes frames with
`next_frame()` until there is none, and calls `keep()` before it lets go of the thread: `space()`
is mostly a scratch buffer that all connections of a processor share, so what stays in it is lost.
An idle connection therefore holds no buffer at all.

A frame that comes in several pieces is received into a buffer of its own. That grows with the
bytes that came, never ahead of them by more than a factor of four, so a peer that announces
100 MiB and falls silent holds a few kilobytes.

Hot code: one copy of a small frame out of the scratch buffer, none of a large one. Measured by
benchmarks/dispatch.py as a part of all Python between `recv` and `send`.
"""

from struct import Struct
from typing import Final

from odradek.protocol.errors import ProtocolError

SCRATCH_BYTES: Final = 64 * 1024
_LENGTH: Final = Struct(">i")
_PREFIX_BYTES: Final = _LENGTH.size
_read_length: Final = _LENGTH.unpack_from

# The first buffer of a frame that comes in pieces, and how far it may run ahead of the bytes.
_FIRST_BYTES: Final = 16 * 1024
_GROWTH: Final = 4

# How others begin: saying so in the log saves somebody an hour.
_OTHER_PROTOCOLS: Final = (
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"HEAD", "HTTP"),
    (b"PRI ", "HTTP"),
    (b"\x16\x03", "TLS on a listener without it"),
    (b"SSH-", "SSH"),
)


class FrameReader:
    __slots__ = (
        "_body",
        "_end",
        "_have",
        "_max_bytes",
        "_position",
        "_scratch",
        "_source",
        "begun_bytes",
        "is_drained",
    )

    def __init__(self, scratch: memoryview, max_bytes: int) -> None:
        self._scratch = scratch
        self._max_bytes = max_bytes
        # Where frames are taken from: the scratch buffer or bytes kept from it.
        self._source: memoryview | bytes = scratch
        self._position = 0
        self._end = 0
        self.begun_bytes = 0
        """The length of the frame that comes in pieces and whose end is awaited; 0 if none is."""
        self.is_drained = True
        """Whether the last byte received was the last of the last frame taken."""
        self._have = 0
        self._body = bytearray()

    @property
    def held_bytes(self) -> int:
        """The memory this reader owns at the moment."""
        kept = 0 if self._source is self._scratch else len(self._source)
        return kept + len(self._body)

    def space(self) -> memoryview:
        """Where to receive next; never empty. Only to be called when `next_frame` gave None."""
        if self.begun_bytes:
            return memoryview(self._body)[self._have :]
        if self._source is self._scratch:
            return self._scratch
        kept = len(self._source)  # a length that is not complete: less than four bytes
        self._scratch[:kept] = self._source
        return self._scratch[kept:]

    def received(self, count: int) -> None:
        """`count` bytes have come into `space()`."""
        self.is_drained = False
        if self.begun_bytes:
            self._have += count
            if self._have == len(self._body) < self.begun_bytes:
                self._grow()
            return
        self._position = 0
        if self._source is self._scratch:
            self._end = count
        else:
            self._end = len(self._source) + count
            self._source = self._scratch

    def next_frame(self) -> bytearray | None:
        """The next frame that is complete. Raises ProtocolError for a length no frame can have."""
        if self.begun_bytes:
            return self._take_body() if self._have == self.begun_bytes else None
        start = self._position + _PREFIX_BYTES
        if start > self._end:
            return None
        (length,) = _read_length(self._source, self._position)
        end = start + length
        if length <= 0 or length > self._max_bytes:
            raise ProtocolError(self._refusal(length))
        if end > self._end:
            return None
        frame = bytearray(self._source[start:end])
        if end == self._end:
            self._forget_source()
        else:
            self._position = end
        return frame

    def keep(self) -> None:
        """Move what is left into memory of our own. Call when no more frames will be taken now."""
        left = self._end - self._position
        if not left:
            return
        (length,) = _read_length(self._source, self._position) if left >= _PREFIX_BYTES else (0,)
        # A length that is out of bounds stays where it is, for next_frame to refuse.
        if max(left - _PREFIX_BYTES, 0) < length <= self._max_bytes:
            self._begin_body(length)
        elif self._source is self._scratch or self._position:
            self._source = bytes(self._source[self._position : self._end])
            self._position, self._end = 0, left

    def _refusal(self, length: int) -> str:
        start = bytes(self._source[self._position : self._position + _PREFIX_BYTES])
        for beginning, protocol in _OTHER_PROTOCOLS:
            if start.startswith(beginning):
                return f"it speaks {protocol}"
        return f"a frame of {length} bytes is not between 1 and {self._max_bytes}"

    def _forget_source(self) -> None:
        self._source = self._scratch
        self._position = self._end = 0
        self.is_drained = True

    def _begin_body(self, length: int) -> None:
        came = self._source[self._position + _PREFIX_BYTES : self._end]
        self.begun_bytes = length
        self._have = len(came)
        self._body = bytearray(self._size_for(self._have))
        self._body[: self._have] = came
        self._source = self._scratch
        self._position = self._end = 0

    def _size_for(self, have: int) -> int:
        return min(self.begun_bytes, max(_FIRST_BYTES, have * _GROWTH))

    def _grow(self) -> None:
        self._body.extend(bytes(self._size_for(self._have) - self._have))

    def _take_body(self) -> bytearray:
        body = self._body
        self._body = bytearray()
        self.begun_bytes = self._have = 0
        self.is_drained = True
        return body
