"""Sending the answers of a conversation: bytes gathered into one call, slices by sendfile.

Slices of a few kilobytes are read and gathered with the bytes around them, which costs one system
call less than a sendfile between two sends. Larger ones go piece by piece, and each piece is
looked at before it is sent: a piece that is not in the page cache must be read ahead first.
A look is one byte where the piece begins and the one behind it: pages between two that are in
memory are mostly there too, for the system reads in larger runs. Behind it begins what a reader
that goes on will ask for, and the event loop looks at that beginning when it does.

Hot code, measured by benchmarks/network.py and benchmarks/dispatch.py.
"""

from enum import Enum
from typing import Final, cast

from odradek.broker.network.conversation import Conversation
from odradek.broker.network.floor import Floor
from odradek.broker.network.transport import Transport
from odradek.storage.files import Buffer, File, FileSlice

_SMALL_SLICE_BYTES: Final = 16 * 1024
# One piece takes 50 µs to send: so long may others have to wait. Where there are none, a client
# that asks for the next megabyte when it has the last reads a third faster if that comes as one.
_PIECE_BYTES: Final = 256 * 1024
_WHOLE_BYTES: Final = 1024 * 1024
# For so many pieces after a cold one a reader counts as one of cold data, and its socket holds
# little: it waits for the disk in any case, and else the disk, the loop and the reader are all at
# work at the same moment, and nobody else gets a core.
_WARM_AGAIN_AFTER: Final = 64
# No more than this is gathered at once: well below IOV_MAX, and more than a socket takes.
_RUN_PARTS: Final = 128
_RUN_BYTES: Final = 256 * 1024


class Progress(Enum):
    DONE = "all is sent"
    FULL = "the peer takes no more for now, or it is the turn of others"
    COLD = "the first slice must be read ahead"


class FileEndsEarly(OSError):
    """A slice reaches past the end of its file, which was cut off after the answer was made."""

    def __init__(self, piece: FileSlice) -> None:
        super().__init__(f"{piece!r} reaches past the end of the file")


class Sender:
    __slots__ = (
        "_conversation",
        "_floor",
        "_outgoing",
        "_pieces_since_cold",
        "_transport",
        "_warm_end",
        "_warm_file",
    )

    def __init__(self, conversation: Conversation, transport: Transport, floor: Floor) -> None:
        self._conversation = conversation
        self._floor = floor
        self._outgoing = conversation.outgoing
        self._transport = transport
        # The slice that goes out first was found or made warm up to here, with the byte behind.
        self._warm_file: File | None = None
        self._warm_end = 0
        self._pieces_since_cold = _WARM_AGAIN_AFTER

    def send(self) -> Progress:
        """Send what can be sent now. Raises OSError when the connection is broken."""
        outgoing = self._outgoing
        try:
            while outgoing:
                part = outgoing[0]
                if type(part) is bytes and len(outgoing) == 1:
                    sent = self._transport.send(part)
                    if sent == len(part):
                        outgoing.clear()
                        self._conversation.unsent_bytes -= sent
                        return Progress.DONE
                    self._advance(sent)
                elif type(part) is FileSlice and len(part) > _SMALL_SLICE_BYTES:
                    if not self._send_slice(part):
                        return Progress.COLD
                    if outgoing and type(outgoing[0]) is FileSlice:
                        # A reader of much shall not hold up others.
                        return Progress.FULL
                elif not self._send_run():
                    return Progress.COLD
        except BlockingIOError:
            return Progress.FULL
        return Progress.DONE

    def forget(self) -> None:
        """Let go of files: the connection is closed."""
        self._warm_file = None

    def cold_piece(self) -> FileSlice:
        """The piece to read ahead after COLD; it counts as warm from then on."""
        part = self._outgoing[0]
        assert isinstance(part, FileSlice)
        piece = FileSlice(part.file, part.position, min(part.length, _PIECE_BYTES))
        if self._pieces_since_cold >= _WARM_AGAIN_AFTER:
            self._transport.hold_little()
        self._pieces_since_cold = 0
        self._warm_file = piece.file
        self._warm_end = piece.position + piece.length
        return piece

    def _send_slice(self, part: FileSlice) -> bool:
        length = self._warm_bytes(part)
        if not length:
            return False
        self._pieces_since_cold += 1
        if self._pieces_since_cold == _WARM_AGAIN_AFTER:
            self._transport.hold_as_before()
        sent = self._transport.send_slice(part, length)
        if not sent:
            raise FileEndsEarly(part)
        self._advance(sent)
        return True

    def _warm_bytes(self, part: FileSlice) -> int:
        """How much of a slice can be sent now without waiting for the disk."""
        file = part.file
        is_cold_reader = self._pieces_since_cold < _WARM_AGAIN_AFTER
        is_alone = not is_cold_reader and self._floor.is_only_for(self._conversation)
        wanted = min(part.length, _WHOLE_BYTES if is_alone else _PIECE_BYTES)
        known = self._warm_end - part.position if file is self._warm_file else -1
        if known >= wanted:
            return wanted
        if known < 0 and not file.is_cached(part.position):
            return 0
        warm = max(0, known)
        while warm < wanted:
            further = min(wanted, warm + _PIECE_BYTES)
            if not file.is_cached(part.position + further):
                break
            warm = further
        self._warm_file = file
        self._warm_end = part.position + warm
        return warm

    def _send_run(self) -> bool:
        """Send bytes and small slices together; False when the first of them is a cold slice."""
        run: list[Buffer] = []
        size = 0
        more = False
        for index, part in enumerate(self._outgoing):
            if type(part) is FileSlice:
                # A slice ends the run when it is large or cold; its turn comes on its own.
                if part.length > _SMALL_SLICE_BYTES:
                    more = True
                    break
                data = self._read(part, is_first=not index)
                if data is None:
                    break
                # Kept as bytes, so that it is not read again when the peer takes only a part.
                self._outgoing[index] = part = data
            run.append(cast(Buffer, part))
            size += len(part)
            if size >= _RUN_BYTES or len(run) >= _RUN_PARTS:
                break
        if not run:
            return False
        self._advance(self._transport.send_all(run, more=more))
        return True

    def _read(self, piece: FileSlice, *, is_first: bool) -> Buffer | None:
        """The bytes of a small slice; None when it is cold."""
        is_warm = is_first and piece.file is self._warm_file
        if not is_warm or piece.position + piece.length > self._warm_end:
            return piece.read_cached()
        data = piece.read()
        if len(data) < piece.length:
            raise FileEndsEarly(piece)
        return data

    def _advance(self, sent: int) -> None:
        outgoing = self._outgoing
        self._conversation.unsent_bytes -= sent
        while sent:
            part = outgoing[0]
            if sent < len(part):
                outgoing[0] = _without(part, sent)
                return
            sent -= len(part)
            del outgoing[0]
            self._warm_file = None  # or it would stay open for as long as the connection


def _without(part: object, count: int) -> memoryview | FileSlice:
    """What is left of a part when so many bytes of it are sent."""
    if type(part) is not FileSlice:
        return memoryview(cast(Buffer, part))[count:]
    return FileSlice(part.file, part.position + count, part.length - count)
