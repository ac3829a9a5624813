"""The socket calls a connection makes, behind an interface small enough for TLS and simulators.

All calls return at once. They raise BlockingIOError when the other side is not ready, and another
OSError when the connection is broken.
"""

import os
import socket
import sys
from collections.abc import Sequence
from typing import Final, Protocol

from odradek.storage.files import Buffer, FileSlice

# Holds a header back until the slice after it fills the packet; where there is no such flag, the
# header travels alone.
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_COPY_BYTES: Final = 64 * 1024
_LITTLE_BYTES: Final = 100 * 1024
# Linux counts its own bookkeeping in, and tells twice what it was asked for.
_TOLD_FOR_ONE_ASKED: Final = 2 if sys.platform == "linux" else 1


class Transport(Protocol):
    def fileno(self) -> int: ...

    def receive_into(self, buffer: memoryview, /) -> int:
        """How many bytes came; 0 when the peer sends no more."""
        ...

    def send(self, data: Buffer, /) -> int:
        """How many of the bytes were taken."""
        ...

    def send_all(self, parts: Sequence[Buffer], *, more: bool) -> int:
        """Like `send` for several pieces; `more` says that other bytes follow at once."""
        ...

    def send_slice(self, piece: FileSlice, most: int) -> int:
        """How many bytes of the slice were taken, of at most so many; 0 when the file ends before
        it."""
        ...

    def hold_little(self) -> None:
        """Take few bytes ahead of the peer, until `hold_as_before`."""
        ...

    def hold_as_before(self) -> None: ...

    def is_broken(self) -> bool:
        """Whether the connection has failed, though no call has told of it yet."""
        ...

    def close(self) -> None: ...


class SocketTransport:
    """A plain TCP socket. File slices go from the page cache to the socket by sendfile."""

    __slots__ = ("_held_bytes", "_socket", "fileno", "receive_into", "send")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        # What its buffer was asked to be before it was made small; 0 while it is not.
        self._held_bytes = 0
        # The socket's own methods: a wrapper around each would cost more than it says.
        self.fileno = connected.fileno
        self.receive_into = connected.recv_into
        self.send = connected.send

    def send_all(self, parts: Sequence[Buffer], *, more: bool) -> int:
        return self._socket.sendmsg(parts, [], _MSG_MORE if more else 0)

    def send_slice(self, piece: FileSlice, most: int) -> int:
        file = piece.fileno()
        if file >= 0:
            return os.sendfile(self._socket.fileno(), file, piece.position, most)
        data = piece.file.pread(min(most, _COPY_BYTES), piece.position)
        return self._socket.send(data) if data else 0

    def hold_little(self) -> None:
        told = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        if told > _LITTLE_BYTES * _TOLD_FOR_ONE_ASKED:
            self._held_bytes = told // _TOLD_FOR_ONE_ASKED
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LITTLE_BYTES)

    def hold_as_before(self) -> None:
        if self._held_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._held_bytes)
            self._held_bytes = 0

    def is_broken(self) -> bool:
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def close(self) -> None:
        self._socket.close()
