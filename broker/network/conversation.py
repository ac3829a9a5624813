"""The protocol of one connection: bytes in, requests out; answers in, parts to send out. No I/O.

Requests are begun in the order in which they came, and answered in that order. An answer that is
ready before its turn waits in its slot. Taken requests are bounded: no more are handed out while
`MAX_OPEN` of them are open, or while `MAX_UNSENT_BYTES` of answers have not been taken by the peer.

    frame = conversation.take()          dispatch: the next request, or None
    conversation.answer(parts)           dispatch: the request begun last is answered at once
    slot = conversation.park()           dispatch: … or later
    conversation.fulfil(slot, parts)
    conversation.hang_up(reason)         anyone: nothing more is taken; close after the answers

The driver (`connection`, or a simulator) feeds `reader`, calls `serve` of its `Service` with the
conversation, and sends `outgoing`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.framing import FrameReader
from odradek.broker.network.peer import Peer
from odradek.protocol.compiler import Part

# Clients keep up to 5 requests in flight; a few more let the next ones be at hand.
MAX_OPEN: Final = 8
MAX_UNSENT_BYTES: Final = 1024 * 1024


class Driver(Protocol):
    def advance(self) -> None:
        """Begin what may begin, send what is ready, receive again if that makes sense."""
        ...

    def flush(self) -> None:
        """Send what is ready and nothing else: for the midst of another's request."""
        ...


class _NoDriver:
    """Stands in when the connection is gone; without it the two would keep each other alive."""

    def advance(self) -> None:
        pass

    def flush(self) -> None:
        pass


_NO_DRIVER: Final = _NoDriver()


class Service(Protocol):
    """What the network needs of dispatch."""

    def serve(self, conversation: "Conversation") -> None:
        """Begin the requests of a conversation, now or soon; `advance` is called for the rest."""
        ...


class Ending(NamedTuple):
    """Why a connection takes no more requests."""

    reason: str
    is_notable: bool
    """Whether it goes to the log: a peer that does something wrong, not one that leaves."""


PEER_LEFT: Final = Ending("the peer closed the connection", is_notable=False)


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Part] | None = None) -> None:
        self.parts = parts


class Conversation:
    __slots__ = (
        "_input_ended",
        "_reserved",
        "_slots",
        "arrived_at",
        "budget",
        "driver",
        "ending",
        "is_starved",
        "open_requests",
        "outgoing",
        "peer",
        "reader",
        "unsent_bytes",
    )

    def __init__(self, peer: Peer, reader: FrameReader, budget: MemoryBudget) -> None:
        self.peer = peer
        self.reader = reader
        self.budget = budget
        self.driver: Driver = _NO_DRIVER
        self.outgoing: list[Part] = []
        self.unsent_bytes = 0
        self.arrived_at = 0.0
        """When bytes came last, in monotonic seconds; kept by the driver."""
        self.open_requests = 0
        """Taken and not answered yet."""
        self.is_starved = True
        """Whether only more bytes from the peer can give another request."""
        self.ending: Ending | None = None
        """Set when nothing more is taken; the connection closes after the answers still due."""
        self._input_ended = False
        self._reserved = 0
        # Answers that must wait, for themselves or for one before them.
        self._slots: list[Slot] = []

    @property
    def is_finished(self) -> bool:
        return self.ending is not None and not self.open_requests and not self.outgoing

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way but answers: no request, no frame that waits, no end."""
        return not self.open_requests and self.is_starved and self.ending is None

    @property
    def wants_input(self) -> bool:
        return self.is_starved and self.ending is None

    def take(self) -> bytearray | None:
        """The next request to begin, if there is one and the bounds allow it.

        Raises ProtocolError when what comes next is no frame.
        """
        if self.open_requests >= MAX_OPEN or self.unsent_bytes > MAX_UNSENT_BYTES:
            self.is_starved = False
            return None
        if self.ending is not None:
            return None
        frame = self.reader.next_frame()
        if frame is None:
            self.is_starved = True
            if self._input_ended:
                self.ending = PEER_LEFT
            return None
        self.is_starved = self.reader.is_drained
        self.open_requests += 1
        if self._reserved:
            self._reserved = 0
        else:
            self.budget.used_bytes += len(frame)
        return frame

    def answer(self, parts: Sequence[Part]) -> None:
        """Answer the request that was begun last; no parts mean that nothing is sent."""
        # Where no other is open no slot is taken, and need not be looked for in memory of its own.
        if self.open_requests > 1 and self._slots:
            self._slots.append(Slot(parts))
        else:
            self._release(parts)

    def park(self) -> Slot:
        """The request that was begun last will be answered later."""
        slot = Slot()
        self._slots.append(slot)
        return slot

    def fulfil(self, slot: Slot, parts: Sequence[Part]) -> None:
        slot.parts = parts
        slots = self._slots
        while slots and slots[0].parts is not None:
            self._release(slots.pop(0).parts or ())

    def _release(self, parts: Sequence[Part]) -> None:
        self.open_requests -= 1
        if self.driver is _NO_DRIVER:
            return
        self.outgoing.extend(parts)
        for part in parts:
            self.unsent_bytes += len(part)

    def end_input(self) -> None:
        """The peer sends no more. What it sent before is still begun and answered."""
        self._input_ended = True

    def hang_up(self, reason: str, *, is_notable: bool = True) -> None:
        if self.ending is None:
            self.ending = Ending(reason, is_notable)

    def settle(self) -> None:
        """Called when no more requests will be taken for now and the reader is not drained."""
        reader = self.reader
        reader.keep()
        if reader.begun_bytes and not self._reserved:
            self._reserved = reader.begun_bytes
            self.budget.reserve(self._reserved)

    def abandon(self) -> None:
        """The connection is gone: answers that are still to come go nowhere."""
        self.hang_up("the connection is closed", is_notable=False)
        self.driver = _NO_DRIVER
        self.outgoing.clear()
        self._slots.clear()
        if self._reserved:
            self.budget.release(self._reserved)
            self._reserved = 0
