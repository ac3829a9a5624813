"""A processor owns connections: it makes them, watches their deadlines and lets them go.

A listener has `num.network.threads` of them and gives new connections to each in turn. All run on
the one event loop, so their number is not about cores: it bounds how many connections one sweep
for deadlines looks at.
"""

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import Final

from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.complaints import Complaints
from odradek.broker.network.connection import Connection, Surroundings
from odradek.broker.network.conversation import Conversation, Ending
from odradek.broker.network.deadlines import Deadlines
from odradek.broker.network.framing import SCRATCH_BYTES, FrameReader
from odradek.broker.network.limits import ConnectionLimits
from odradek.broker.network.peer import Peer
from odradek.broker.network.transport import SocketTransport

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """What holds for every connection of a broker."""

    max_frame_bytes: int
    deadlines: Deadlines
    budget: MemoryBudget
    limits: ConnectionLimits
    complaints: Complaints


class Processor:
    def __init__(self, surroundings: Surroundings, rules: ConnectionRules) -> None:
        self._surroundings = surroundings
        self._rules = rules
        # One event is handled at a time, so all connections may receive into the same bytes.
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # In the order in which they came: sets of objects have another one in every process.
        self._connections: dict[Connection, None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None

    @property
    def connections(self) -> int:
        return len(self._connections)

    def adopt(self, connected: socket.socket, peer: Peer) -> None:
        """Own this socket from now on; its peer was counted by the limits already."""
        reader = FrameReader(self._scratch, self._rules.max_frame_bytes)
        conversation = Conversation(peer, reader, self._rules.budget)
        connection = Connection(
            SocketTransport(connected), conversation, self._surroundings, self._let_go
        )
        self._connections[connection] = None
        if self._sweep is None:
            self._schedule_sweep()
        connection.start()

    async def drain(self, grace_seconds: float) -> None:
        """Let every connection answer what it has begun and close; close the rest in the end."""
        self._drained = asyncio.Event()
        for connection in list(self._connections):
            connection.stop()
        if self._connections:
            try:
                await asyncio.wait_for(self._drained.wait(), grace_seconds)
            except TimeoutError:
                log.info("%d connections did not finish in time", len(self._connections))
        self.close()

    def close(self) -> None:
        """Close everything at once."""
        for connection in list(self._connections):
            connection.close("the broker is stopping", is_notable=False)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _let_go(self, connection: Connection, ending: Ending) -> None:
        peer = connection.conversation.peer
        self._connections.pop(connection, None)
        self._rules.limits.leave(peer.address.host)
        if ending.is_notable:
            self._rules.complaints.write(
                peer.address.host, f"closed the connection of {peer}: {ending.reason}"
            )
        else:
            log.debug("closed the connection of %s: %s", peer, ending.reason)
        if self._drained is not None and not self._connections:
            self._drained.set()

    def _schedule_sweep(self) -> None:
        self._sweep = self._surroundings.loop.call_later(
            self._rules.deadlines.interval, self._close_overdue
        )

    def _close_overdue(self) -> None:
        self._sweep = None
        now = self._surroundings.clock.monotonic()
        deadlines = self._rules.deadlines
        for connection in list(self._connections):
            conversation = connection.conversation
            length = conversation.reader.begun_bytes
            is_being_served = bool(conversation.open_requests) and not conversation.outgoing
            if deadlines.frame_is_late(connection.frame_began_at, length, now):
                connection.close("a request was begun and did not come in time")
            elif deadlines.is_idle(connection.active_at, now, is_being_served=is_being_served):
                connection.close("nothing was heard for too long", is_notable=False)
            elif now - connection.active_at > deadlines.interval and connection.is_broken():
                connection.close("the connection is broken", is_notable=False)
        if self._connections:
            self._schedule_sweep()
