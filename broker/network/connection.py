"""The driver of one connection: a non-blocking transport on the event loop around a conversation.

Each event (bytes came, room to send, an answer is ready) ends in `advance`, which begins what may
begin, sends what is ready, and decides whether to receive or to wait for room. Reading stops while
the bounds of the conversation are reached, the request memory is used up, or the peer has left.

Hot code: one `recv`, one `send` and no task per request. Measured by benchmarks/network.py, see
docs/performance.md.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from odradek.broker.network.cold_reads import ColdReads
from odradek.broker.network.conversation import Conversation, Ending, Service
from odradek.broker.network.floor import Floor
from odradek.broker.network.readiness import Readers
from odradek.broker.network.sender import FileEndsEarly, Progress, Sender
from odradek.broker.network.transport import Transport
from odradek.protocol.clock import Clock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of a broker share."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    service: Service
    cold_reads: ColdReads
    readers: Readers
    floor: Floor = field(default_factory=Floor)


class Connection:
    __slots__ = (
        "_clock",
        "_fd",
        "_floor",
        "_is_closed",
        "_is_preparing",
        "_is_receiving",
        "_is_waiting_to_send",
        "_loop",
        "_on_close",
        "_reader",
        "_readers",
        "_receive",
        "_sender",
        "_service",
        "_surroundings",
        "_transport",
        "active_at",
        "conversation",
        "frame_began_at",
    )

    def __init__(
        self,
        transport: Transport,
        conversation: Conversation,
        surroundings: Surroundings,
        on_close: Callable[["Connection", Ending], None],
    ) -> None:
        self._transport = transport
        self._fd = transport.fileno()
        self._receive = transport.receive_into
        self._surroundings = surroundings
        self._loop = surroundings.loop
        self._clock = surroundings.clock.monotonic
        self._service = surroundings.service
        self._readers = surroundings.readers
        self._floor = surroundings.floor
        self._on_close = on_close
        self._sender = Sender(conversation, transport, surroundings.floor)
        self._reader = conversation.reader
        self._is_receiving = False
        self._is_waiting_to_send = False
        self._is_preparing = False
        self._is_closed = False
        self.conversation = conversation
        conversation.driver = self
        self.active_at = self._clock()
        """When bytes last went either way."""
        self.frame_began_at: float | None = None
        """Since when the end of a frame is awaited."""

    def start(self) -> None:
        self.resume_receiving()

    def stop(self) -> None:
        """Take no more requests; close when those that were taken are answered."""
        self.conversation.hang_up("the broker is stopping", is_notable=False)
        self.advance()

    def on_readable(self) -> None:
        """Bytes came: receive, begin what may begin, answer."""
        if self._receive_some():
            self.advance()

    def begin(self) -> bool:
        """The same, but leave the rest to `answer`: others have something to say first."""
        if not self._receive_some():
            return False
        conversation = self.conversation
        self._service.serve(conversation)
        if not self._reader.is_drained:
            # The next one receives into the same bytes.
            conversation.settle()
        return True

    def advance(self) -> None:
        if self._is_closed:
            return
        self._service.serve(self.conversation)
        self.answer()

    def answer(self) -> None:
        """Send what is ready, and go on receiving, or not."""
        if self._is_closed:
            return
        conversation = self.conversation
        while conversation.outgoing and not self._is_waiting_to_send and not self._is_preparing:
            self._send()
            if self._is_closed:
                return
            if not conversation.is_starved:
                # What was sent may have made room for requests that had to wait.
                self._service.serve(conversation)
        if not self._reader.is_drained:
            conversation.settle()
        if not conversation.is_starved or conversation.ending is not None:
            self._rest_or_close()
            return
        if not self._is_receiving:
            self.resume_receiving()
        if self._reader.is_drained:
            self.frame_began_at = None
        elif self.frame_began_at is None:
            self.frame_began_at = self._clock()

    def flush(self) -> None:
        is_held_up = self._is_waiting_to_send or self._is_preparing
        if self.conversation.outgoing and not is_held_up and not self._is_closed:
            self._send()

    def is_broken(self) -> bool:
        """Whether the peer is gone and no event will say so.

        When a reset comes together with the last bytes, uvloop reports both at once and then never
        again: the bytes are received and the reset is still to be found out.
        """
        return self._transport.is_broken()

    def close(self, reason: str, *, is_notable: bool = True) -> None:
        """Close now, whatever is still due."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_receiving()
        self._stop_waiting_to_send()
        self._transport.close()
        self._sender.forget()
        self.conversation.budget.forget(self)
        self.conversation.abandon()
        self._on_close(self, Ending(reason, is_notable))

    def resume_receiving(self) -> None:
        if not self._is_closed and not self._is_receiving:
            self._is_receiving = True
            self._readers.add(self._fd, self)

    def _stop_receiving(self) -> None:
        if self._is_receiving:
            self._is_receiving = False
            self._readers.remove(self._fd)

    def _receive_some(self) -> bool:
        conversation = self.conversation
        reader = self._reader
        budget = conversation.budget
        if budget.used_bytes >= budget.limit_bytes and not reader.begun_bytes:
            self._stop_receiving()
            budget.wait(self)
            return False
        try:
            count = self._receive(reader.space())
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.close(str(error), is_notable=False)
            return False
        self.active_at = conversation.arrived_at = self._clock()
        self._floor.heard(conversation)
        if not count:
            conversation.end_input()
        else:
            if not reader.begun_bytes:
                self.frame_began_at = None
            reader.received(count)
        return True

    def _rest_or_close(self) -> None:
        self._stop_receiving()
        self.frame_began_at = None
        if self.conversation.is_finished and self.conversation.ending is not None:
            reason, is_notable = self.conversation.ending
            self.close(reason, is_notable=is_notable)

    def _send(self) -> None:
        try:
            progress = self._sender.send()
        except OSError as error:
            self.close(str(error), is_notable=isinstance(error, FileEndsEarly))
            return
        if progress is Progress.FULL:
            self._wait_to_send()
            return
        if self._is_waiting_to_send:
            self._stop_waiting_to_send()
        if progress is Progress.COLD:
            self._is_preparing = True
            piece = self._sender.cold_piece()
            self._surroundings.cold_reads.prepare(piece, self._on_prepared)

    def _wait_to_send(self) -> None:
        if not self._is_waiting_to_send:
            self._is_waiting_to_send = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _stop_waiting_to_send(self) -> None:
        if self._is_waiting_to_send:
            self._is_waiting_to_send = False
            self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        self.active_at = self._clock()
        self._send()
        # While the peer cannot take what is ready, more answers would only pile up.
        if not self._is_waiting_to_send:
            self.advance()

    def _on_prepared(self, failure: BaseException | None) -> None:
        self._is_preparing = False
        if failure is not None:
            self.close(f"reading ahead failed: {failure}")
            return
        self.active_at = self._clock()
        self.advance()
