"""The network of a broker, put together from its configuration.

Each listener has an acceptor and `num.network.threads` processors of its own, as in Kafka; the
broker's caps on connections, its request memory and the threads for cold reads are shared.
"""

import asyncio
import logging
import socket
from itertools import cycle
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.network.acceptor import Acceptor, CannotListen, MakeSocket, SocketOptions
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.cold_reads import ColdReads
from odradek.broker.network.complaints import Complaints
from odradek.broker.network.connection import Surroundings
from odradek.broker.network.conversation import Service
from odradek.broker.network.deadlines import FRAME_SECONDS, Deadlines
from odradek.broker.network.limits import ConnectionCaps, ConnectionLimits, parse_overrides
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.processor import ConnectionRules, Processor
from odradek.broker.network.readiness import LoopReaders, Readers
from odradek.broker.settings.network import AcceptorSettings
from odradek.protocol.clock import Clock
from odradek.protocol.endpoints import Endpoint

log: Final = logging.getLogger(__name__)


class Listener:
    """One acceptor and the processors that share its connections in turn."""

    def __init__(
        self,
        endpoint: Endpoint,
        processors: list[Processor],
        limits: ConnectionLimits,
        *,
        options: SocketOptions,
        surroundings: Surroundings,
        complaints: Complaints,
        make_socket: MakeSocket,
    ) -> None:
        self.name = endpoint.listener
        self.limits = limits
        self.processors = processors
        self._in_turn = cycle(processors)
        self.acceptor = Acceptor(
            endpoint,
            loop=surroundings.loop,
            clock=surroundings.clock,
            options=options,
            limits=limits,
            complaints=complaints,
            adopt=self._adopt,
            make_socket=make_socket,
        )

    def _adopt(self, connected: socket.socket, peer: Peer) -> None:
        next(self._in_turn).adopt(connected, peer)


class Network:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        service: Service,
        budget: MemoryBudget,
        frame_seconds: float = FRAME_SECONDS,
        make_socket: MakeSocket = socket.socket,
        readers: Readers | None = None,
    ) -> None:
        """`make_socket` makes the sockets that listen, and thereby all that connect to them."""
        self._budget = budget
        self._frame_seconds = frame_seconds
        self._make_socket = make_socket
        self._complaints = Complaints(log, clock)
        self._cold_reads = ColdReads(loop)
        self._surroundings = Surroundings(
            loop, clock, service, self._cold_reads, readers or LoopReaders(loop)
        )
        self._limits = ConnectionLimits(_broker_caps(config), clock.monotonic())
        self._listeners = [
            self._listener(endpoint, config) for endpoint in config.listener_endpoints.bound
        ]

    @property
    def connections(self) -> int:
        return self._limits.total

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each listener can be reached, by its name; known once it is open."""
        return {each.name: each.acceptor.addresses[0] for each in self._listeners}

    @property
    def ports(self) -> dict[str, int]:
        return {name: address.port for name, address in self.addresses.items()}

    def open(self) -> None:
        """Bind all listeners, or none. Raises CannotListen."""
        try:
            for listener in self._listeners:
                listener.acceptor.open()
        except CannotListen:
            self._close_acceptors()
            raise

    def start(self) -> None:
        """Accept connections on every listener."""
        for listener in self._listeners:
            listener.acceptor.start()

    def apply(self, config: BrokerConfig) -> None:
        """Take over what may change while the broker runs: the caps on connections."""
        self._limits.caps = _broker_caps(config)
        for listener in self._listeners:
            listener.limits.caps = _listener_caps(config.for_listener(listener.name))

    async def stop(self, grace_seconds: float) -> None:
        """Accept nothing more, answer what has begun, close."""
        self._close_acceptors()
        processors = [each for listener in self._listeners for each in listener.processors]
        await asyncio.gather(*(each.drain(grace_seconds) for each in processors))
        self._cold_reads.close()

    def _close_acceptors(self) -> None:
        for listener in self._listeners:
            listener.acceptor.close()

    def _listener(self, endpoint: Endpoint, config: BrokerConfig) -> Listener:
        scope = config.for_listener(endpoint.listener)
        now = self._surroundings.clock.monotonic()
        limits = ConnectionLimits(_listener_caps(scope), now, within=self._limits)
        rules = ConnectionRules(
            max_frame_bytes=config.socket_request_max_bytes,
            deadlines=Deadlines(_idle_seconds(config), self._frame_seconds),
            budget=self._budget,
            limits=limits,
            complaints=self._complaints,
        )
        return Listener(
            endpoint,
            [Processor(self._surroundings, rules) for _ in range(scope.num_network_threads)],
            limits,
            options=_socket_options(config),
            surroundings=self._surroundings,
            complaints=self._complaints,
            make_socket=self._make_socket,
        )


def _broker_caps(config: BrokerConfig) -> ConnectionCaps:
    return ConnectionCaps(
        total=config.max_connections,
        creations_per_second=config.max_connection_creation_rate,
        per_host=config.max_connections_per_ip,
        overrides=parse_overrides(config.max_connections_per_ip_overrides),
    )


def _listener_caps(scope: AcceptorSettings) -> ConnectionCaps:
    return ConnectionCaps(
        total=scope.max_connections, creations_per_second=scope.max_connection_creation_rate
    )


def _idle_seconds(config: BrokerConfig) -> float | None:
    idle_ms = config.connections_max_idle_ms
    return idle_ms / 1000 if idle_ms >= 0 else None


def _socket_options(config: BrokerConfig) -> SocketOptions:
    return SocketOptions(
        backlog=config.socket_listen_backlog_size,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )
