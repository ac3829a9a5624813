"""An acceptor opens a listener's sockets and hands the connections that come to processors.

Accepting pauses, and the backlog of the operating system fills, when connections come faster than
`max.connection.creation.rate` allows and when the process has no file descriptor left. In the
latter case the socket would stay readable for ever; asking it again and again would burn the
processor without freeing anything.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.broker.network.complaints import Complaints
from odradek.broker.network.limits import ConnectionLimits
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import Clock
from odradek.protocol.endpoints import Endpoint

log: Final = logging.getLogger(__name__)

# Connections accepted in one go, before others are served again.
_BURST: Final = 32
_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_EXHAUSTED_SECONDS: Final = 0.25
_MAPPED_IPV4: Final = "::ffff:"
# Every Linux has this congestion control, and lets any process choose it unless told otherwise. It
# does not pace.
_UNPACED: Final = b"reno"


# How a socket comes to be: the seam for simulations.
MakeSocket = Callable[[socket.AddressFamily, socket.SocketKind], socket.socket]


@dataclass(frozen=True, slots=True)
class SocketOptions:
    backlog: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    """Below zero, the operating system decides."""


class CannotListen(Exception):
    """A listener that cannot be opened, in a sentence for the operator."""

    def __init__(self, endpoint: Endpoint, error: OSError) -> None:
        why = _REASONS.get(error.errno or 0, error.strerror or str(error))
        super().__init__(f"Cannot listen on {endpoint}: {why}.")


_REASONS: Final = {
    errno.EADDRINUSE: "the port is taken by another process",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "this user may not use that port",
}


class Acceptor:
    def __init__(
        self,
        endpoint: Endpoint,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        options: SocketOptions,
        limits: ConnectionLimits,
        complaints: Complaints,
        adopt: Callable[[socket.socket, Peer], None],
        make_socket: MakeSocket,
    ) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._clock = clock
        self._options = options
        self._limits = limits
        self._complaints = complaints
        self._adopt = adopt
        self._make_socket = make_socket
        self._sockets: list[socket.socket] = []
        self._pauses: dict[int, asyncio.TimerHandle] = {}

    @property
    def listener(self) -> str:
        return self._endpoint.listener

    @property
    def addresses(self) -> list[Address]:
        return [_address(listening.getsockname()) for listening in self._sockets]

    def open(self) -> None:
        """Bind. Connections may queue from now on. Raises CannotListen, with nothing bound."""
        try:
            self._bind_all()
        except OSError as error:
            self.close()
            raise CannotListen(self._endpoint, error) from error

    def start(self) -> None:
        """Accept connections."""
        for listening in self._sockets:
            self._loop.add_reader(listening.fileno(), self._on_acceptable, listening)

    def close(self) -> None:
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()

    def _bind_all(self) -> None:
        port = self._endpoint.port
        for family, host in _families(self._endpoint.host):
            listening = self._make_socket(family, socket.SOCK_STREAM)
            self._sockets.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # "" stands for every address of both families on one socket, a name for one.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
            # The window of a connection is agreed on at its start, so it is inherited from here.
            _set_buffer(listening, socket.SO_RCVBUF, self._options.receive_buffer_bytes)
            listening.bind((host, port))
            listening.listen(self._options.backlog)
            port = listening.getsockname()[1]  # a second family shares a port chosen by the system

    def _on_acceptable(self, listening: socket.socket) -> None:
        for _ in range(_BURST):
            delay = self._limits.delay(self._clock.monotonic())
            if delay:
                self._pause(listening, delay)
                return
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._on_accept_failed(listening, error)
                return
            self._welcome(connected, _address(address))

    def _on_accept_failed(self, listening: socket.socket, error: OSError) -> None:
        if error.errno not in _EXHAUSTED:
            log.warning("accepting on %s failed: %s", self._endpoint, error)
        else:
            self._complaints.write(
                self.listener, f"cannot accept connections on {self._endpoint}: {error.strerror}"
            )
        self._pause(listening, _EXHAUSTED_SECONDS)

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        fd = listening.fileno()
        self._loop.remove_reader(fd)
        self._pauses[fd] = self._loop.call_later(seconds, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        fd = listening.fileno()
        self._pauses.pop(fd, None)
        self._loop.add_reader(fd, self._on_acceptable, listening)

    def _welcome(self, connected: socket.socket, address: Address) -> None:
        refusal = self._limits.enter(address.host)
        if refusal is not None:
            connected.close()
            self._complaints.write(address.host, f"refused a connection of {address}: {refusal}")
            return
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            _set_buffer(connected, socket.SO_SNDBUF, self._options.send_buffer_bytes)
            local_address = _address(connected.getsockname())
            if local_address.host == address.host:
                _leave_unpaced(connected)
        except OSError:  # it was broken off before it began
            connected.close()
            self._limits.leave(address.host)
            return
        self._adopt(connected, Peer(self.listener, address, local_address))


def _families(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses to bind for a configured host, each with its family."""
    if not host:
        return [(socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "")]
    found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _set_buffer(one: socket.socket, option: int, size: int) -> None:
    if size >= 0:
        one.setsockopt(socket.SOL_SOCKET, option, size)


def _leave_unpaced(local: socket.socket) -> None:
    """Nothing that could be congested lies between two ends with one address. A system that paces
    all its connections (BBR) slows these down, too: the loopback then carries half as much.

    Where that may not be chosen, all is as it would be without."""
    if hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):
            local.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)


def _address(raw: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    return Address(raw[0].removeprefix(_MAPPED_IPV4), raw[1])
