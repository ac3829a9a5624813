"""The network between the machines of a simulation: TCP as processes see it.

Each direction of a connection is a lane that keeps the order of what is sent. A packet takes a
random time; one that is lost is sent again by the system, so it takes longer. A direction between
two machines can be cut: what is under way waits until it is healed. Connections can be reset.

When a process dies, its machine's system resets its connections. When a machine loses power nobody
does: its peers learn of it when they send something to the machine that came up again.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final

from tests.sim.loop import LIFE, Life, SimLoop

KERNEL: Final = Context()
FIRST_FD: Final = 1000
SWIFT: Final = (0.0002, 0.002)
RESEND_SECONDS: Final = (0.2, 0.5)


class Host:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_up = True


class Lane:
    """One direction of a connection; what is handed over is a call on the other side."""

    def __init__(self, network: "Network", source: str, target: str) -> None:
        self._network = network
        self.route = (source, target)
        self._last = 0.0
        self._waiting: deque[Callable[[], None]] = deque()

    def send(self, deliver: Callable[[], None]) -> None:
        loop = self._network.loop
        self._waiting.append(deliver)
        self._last = max(self._last, loop.time() + self._network.delay())
        loop.call_at(self._last, self._arrive, context=KERNEL)

    def _arrive(self) -> None:
        if self.route in self._network.cuts:
            self._network.stalled[self] = None
        elif self._waiting:
            self._waiting.popleft()()

    def flush(self) -> None:
        """The way is free again."""
        for _ in range(len(self._waiting)):
            self._network.loop.call_soon(self._arrive, context=KERNEL)


class End:
    """One side of a connection, owned by a process."""

    def __init__(self, network: "Network", life: Life, address: tuple[str, int]) -> None:
        self.network = network
        self.life = life
        self.address = address
        self.lane: Lane
        self.peer: End
        self.is_closed = False
        self.is_reset = False
        network.ends[self] = None

    @property
    def has_peer(self) -> bool:
        """Whether the other side was ever reached."""
        return hasattr(self, "peer")

    def send(self, data: bytes) -> None:
        peer = self.peer
        self.lane.send(lambda: peer.arrived(data))

    def arrived(self, data: bytes) -> None:
        if self.life.is_dead or self.is_closed:
            self.refuse()
        elif not self.is_reset:
            self.take(data)

    def refuse(self) -> None:
        """Nobody is here for what came: the system says so, if the machine is up."""
        if self.network.host(self.address[0]).is_up:
            peer = self.peer
            self.lane.send(peer.reset)

    def reset(self) -> None:
        if not (self.life.is_dead or self.is_closed or self.is_reset):
            self.is_reset = True
            self.broken()
        self.network.ends.pop(self, None)

    def ended(self) -> None:
        """The peer sends no more."""
        if not (self.life.is_dead or self.is_closed or self.is_reset):
            self.end_input()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if not self.is_reset:
                self.lane.send(self.peer.ended)
            self.network.ends.pop(self, None)

    def abort(self) -> None:
        """The peer may still read what it was sent, or not: the system does not say."""
        if not self.is_closed:
            self.is_closed = True
            if not self.is_reset and self.has_peer:
                is_read = self.network.is_closed_in_order()
                self.lane.send(self.peer.ended if is_read else self.peer.reset)
            self.network.ends.pop(self, None)

    def take(self, data: bytes) -> None:
        raise AssertionError("said by the kind of end")

    def end_input(self) -> None:
        raise AssertionError("said by the kind of end")

    def broken(self) -> None:
        raise AssertionError("said by the kind of end")


class SimSocket(End):
    """What the broker's network uses of a connected socket."""

    def __init__(self, network: "Network", life: Life, address: tuple[str, int]) -> None:
        super().__init__(network, life, address)
        self._fd = network.new_fd(self)
        self._received = bytearray()
        self._is_ended = False

    def take(self, data: bytes) -> None:
        self._received += data
        self.network.loop.poke(self._fd)

    def end_input(self) -> None:
        self._is_ended = True
        self.network.loop.poke(self._fd)

    def broken(self) -> None:
        self.network.loop.poke(self._fd)

    def is_readable(self) -> bool:
        return bool(self._received) or self._is_ended or self.is_reset

    def fileno(self) -> int:
        return self._fd

    def recv_into(self, buffer: memoryview) -> int:
        if self.is_reset:
            raise ConnectionResetError("reset by the peer")
        count = min(len(buffer), len(self._received))
        if not count and not self._is_ended:
            raise BlockingIOError
        buffer[:count] = self._received[:count]
        del self._received[:count]
        return count

    def send(self, data: Any) -> int:  # type: ignore[override]
        if self.is_reset:
            raise ConnectionResetError("reset by the peer")
        super().send(bytes(data))
        return len(data)

    def sendmsg(self, parts: Any, *_: object) -> int:
        return self.send(b"".join(parts))

    def close(self) -> None:
        super().close()
        self.network.sockets.pop(self._fd, None)

    def getsockopt(self, *_: object) -> int:
        return int(self.is_reset)

    def setsockopt(self, *_: object) -> None:
        return None

    def setblocking(self, _: bool) -> None:
        return None

    def getsockname(self) -> tuple[str, int]:
        return self.address


class ListeningSocket:
    """What the broker's acceptor uses of a socket that listens."""

    def __init__(self, network: "Network") -> None:
        life = LIFE.get()
        assert life is not None, "only processes listen"
        self._network = network
        self.life = life
        self._fd = network.new_fd(self)
        self._address = ("", 0)
        self._backlog: deque[tuple[SimSocket, tuple[str, int]]] = deque()

    def bind(self, address: tuple[str, int]) -> None:
        self._address = address
        if address in self._network.listeners:
            raise OSError(98, "address in use")
        self._network.listeners[address] = self

    def knock(self, connected: SimSocket, source: tuple[str, int]) -> None:
        self._backlog.append((connected, source))
        self._network.loop.poke(self._fd)

    def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        if not self._backlog:
            raise BlockingIOError
        return self._backlog.popleft()

    def is_readable(self) -> bool:
        return bool(self._backlog)

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)
        self._network.sockets.pop(self._fd, None)

    def fileno(self) -> int:
        return self._fd

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setblocking(self, _: bool) -> None:
        return None

    def setsockopt(self, *_: object) -> None:
        return None

    def listen(self, _: int) -> None:
        return None


class Caller(End):
    """The side that dialled: an asyncio transport for a buffered protocol."""

    def __init__(
        self,
        network: "Network",
        life: Life,
        address: tuple[str, int],
        factory: Callable[[], asyncio.BufferedProtocol],
    ) -> None:
        super().__init__(network, life, address)
        self._factory = factory
        self._context = copy_context()
        self.established: asyncio.Future[None] = network.loop.create_future()
        self._protocol: asyncio.BufferedProtocol | None = None

    def connected(self) -> None:
        if self.established.done():
            self.abort()  # given up meanwhile
        else:
            self.established.set_result(None)

    def refused(self) -> None:
        if not self.established.done():
            self.established.set_exception(ConnectionRefusedError("nobody listens there"))

    def open(self) -> "CallerTransport":
        self._protocol = self._factory()
        transport = CallerTransport(self)
        self._protocol.connection_made(transport)
        if self.is_reset:
            self.lose()
        return transport

    def take(self, data: bytes) -> None:
        self._later(self._receive, data)

    def end_input(self) -> None:
        self.is_reset = True
        self._later(self._lost)

    def broken(self) -> None:
        if not self.established.done():
            self.refused()
        elif self._protocol is not None:
            self._later(self._lost)

    def lose(self) -> None:
        self._later(self._lost)

    def _later(self, act: Callable[..., None], *args: object) -> None:
        self.network.loop.call_soon(act, *args, context=self._context)

    def _receive(self, data: bytes) -> None:
        protocol = self._protocol
        assert protocol is not None, "nothing is received before the connection is made"
        rest = memoryview(data)
        while rest and not self.is_closed:
            room = protocol.get_buffer(len(rest))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]  # type: ignore[index]
            protocol.buffer_updated(count)
            rest = rest[count:]

    def _lost(self) -> None:
        protocol, self._protocol = self._protocol, None
        self.is_closed = True
        self.network.ends.pop(self, None)
        if protocol is not None:
            protocol.connection_lost(ConnectionResetError("lost") if self.is_reset else None)


class CallerTransport(asyncio.Transport):
    def __init__(self, end: Caller) -> None:
        super().__init__()
        self._end = end

    def write(self, data: Any) -> None:
        if not self._end.is_closed and not self._end.is_reset:
            self._end.send(bytes(data))

    def is_closing(self) -> bool:
        return self._end.is_closed

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._end.is_closed:
            self._end.abort()
            self._end.lose()


class Network:
    def __init__(self, loop: SimLoop, random: Random) -> None:
        self.loop = loop
        self._random = random
        self.hosts: dict[str, Host] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.stalled: dict[Lane, None] = {}
        self.listeners: dict[tuple[str, int], ListeningSocket] = {}
        self.sockets: dict[int, SimSocket | ListeningSocket] = {}
        self.ends: dict[End, None] = {}
        self.delay_seconds = SWIFT
        self.loss = 0.0
        self._next_fd = FIRST_FD
        self._next_port = 30_000
        loop.network = self
        loop.watch_sockets(self._is_readable)

    def host(self, address: str) -> Host:
        if address not in self.hosts:
            self.hosts[address] = Host(address)
        return self.hosts[address]

    def delay(self) -> float:
        seconds = self._random.uniform(*self.delay_seconds)
        if self.loss and self._random.random() < self.loss:
            seconds += self._random.uniform(*RESEND_SECONDS)
        return seconds

    def is_closed_in_order(self) -> bool:
        """Whether a connection that is given up ends after what was sent, not at once."""
        return self._random.random() < 0.5

    def new_fd(self, owner: SimSocket | ListeningSocket) -> int:
        self._next_fd += 1
        self.sockets[self._next_fd] = owner
        return self._next_fd

    def _is_readable(self, fd: int) -> bool:
        found = self.sockets.get(fd)
        return found is not None and found.is_readable()

    def make_socket(self, family: socket.AddressFamily, kind: socket.SocketKind) -> Any:
        return ListeningSocket(self)

    async def connect(
        self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> asyncio.Transport:
        life = LIFE.get()
        assert life is not None, "only processes dial"
        self._next_port += 1
        caller = Caller(self, life, (life.host, self._next_port), factory)
        caller.lane = Lane(self, life.host, host)
        back = Lane(self, host, life.host)
        caller.lane.send(lambda: self._knock(caller, back, (host, port)))
        try:
            await caller.established
        except BaseException:
            self.ends.pop(caller, None)
            raise
        return caller.open()

    def _knock(self, caller: Caller, back: Lane, address: tuple[str, int]) -> None:
        if not self.host(address[0]).is_up:
            return
        listener = self.listeners.get(address)
        if listener is None:
            back.send(caller.refused)
            return
        served = SimSocket(self, listener.life, address)
        served.lane = back
        served.peer, caller.peer = caller, served
        back.send(caller.connected)
        listener.knock(served, caller.address)

    # Faults ---------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        self.cuts.add((source, target))

    def heal(self, *routes: tuple[str, str]) -> None:
        """Undo these cuts, or all of them."""
        self.cuts.difference_update(routes or list(self.cuts))
        for lane in [lane for lane in self.stalled if lane.route not in self.cuts]:
            del self.stalled[lane]
            lane.flush()

    def is_open(self, source: str, target: str) -> bool:
        return (source, target) not in self.cuts and (target, source) not in self.cuts

    def reset_some(self, share: float) -> int:
        """Break connections in the middle, for both sides; gives how many."""
        struck = [end for end in self.ends if self._random.random() < share]
        for end in struck:
            if isinstance(end, Caller) and end.has_peer and not end.is_closed:
                end.reset()
                end.peer.reset()
        return len(struck)

    def process_died(self, life: Life, *, is_power_cut: bool) -> None:
        for listener in [each for each in self.listeners.values() if each.life is life]:
            listener.close()
        for end in [each for each in self.ends if each.life is life]:
            del self.ends[end]
            if not is_power_cut and end.has_peer:
                end.lane.send(end.peer.reset)
