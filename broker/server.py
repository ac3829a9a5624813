"""The door of a broker: routes, dispatch and the network, put together.

What answers the routes is not its business; `broker` puts a whole broker together, and tests may
serve any routes of their own. Several servers may live in one process.
"""

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.dispatch import Dispatcher
from odradek.broker.features import Features
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.network.acceptor import MakeSocket
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.deadlines import FRAME_SECONDS
from odradek.broker.network.network import Network
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.readiness import Readers
from odradek.broker.routes import AnyRoute
from odradek.protocol.clock import Clock

# How long connections may take to answer what they have begun when the broker stops.
DRAIN_SECONDS: Final = 3.0


class Server:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        routes: Iterable[AnyRoute] = (),
        frame_seconds: float = FRAME_SECONDS,
        make_socket: MakeSocket = socket.socket,
        features: Features | None = None,
        readers: Readers | None = None,
    ) -> None:
        budget = MemoryBudget(config.queued_max_request_bytes)
        self.routes = VersionsHandler(routes, features).routes
        self.dispatcher = Dispatcher(
            self.routes,
            loop=loop,
            budget=budget,
            handlers=config.num_io_threads,
            max_queued=config.queued_max_requests,
        )
        self.network = Network(
            config,
            loop=loop,
            clock=clock,
            service=self.dispatcher,
            budget=budget,
            frame_seconds=frame_seconds,
            make_socket=make_socket,
            readers=readers,
        )

    @property
    def address(self) -> Address:
        """Where the first listener can be reached."""
        return next(iter(self.network.addresses.values()))

    def local_peer(self) -> Peer:
        """The broker itself, as a client of its own first listener."""
        return Peer(next(iter(self.network.addresses)), self.address, self.address)

    def open(self) -> None:
        """Bind the listeners; clients that dial wait. Raises CannotListen."""
        self.network.open()

    def accept(self) -> None:
        """Serve clients from now on."""
        self.network.start()

    async def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Stop accepting, answer what has begun, close everything."""
        await self.network.stop(drain_seconds)
