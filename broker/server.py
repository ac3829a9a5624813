"""The composition root: one broker, put together from its configuration.

Several servers may live in one process, each with its own configuration, clock and files; what
belongs to the process as a whole (signals, the event loop, garbage collection) is in `process`.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.data_dirs import DataDirs, claim
from odradek.broker.dispatch import Dispatcher
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.deadlines import FRAME_SECONDS
from odradek.broker.network.network import Network
from odradek.broker.network.peer import Address, Peer
from odradek.broker.routes import AnyRoute, table_of
from odradek.broker.wanted_topics import WantedTopic, make_topics
from odradek.protocol.clock import Clock
from odradek.storage.files import Files

# How long connections may take to answer what they have begun when the broker stops.
DRAIN_SECONDS: Final = 3.0


class Server:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        files: Files,
        routes: Iterable[AnyRoute] = (),
        frame_seconds: float = FRAME_SECONDS,
    ) -> None:
        self._config = config
        self._files = files
        self._data_dirs: DataDirs | None = None
        budget = MemoryBudget(config.queued_max_request_bytes)
        self._routes = VersionsHandler(routes).routes
        self.dispatcher = Dispatcher(
            self._routes,
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
        )

    @property
    def address(self) -> Address:
        """Where the first listener can be reached."""
        return next(iter(self.network.addresses.values()))

    async def start(self, topics: Sequence[WantedTopic] = ()) -> None:
        """Returns when clients are served. Raises CannotStart or CannotListen, all undone."""
        paths = (self._config.log_dirs or self._config.log_dir).split(",")
        self._data_dirs = claim([path.strip() for path in paths], self._files)
        try:
            self.network.open()
            peer = Peer(next(iter(self.network.addresses)), self.address, self.address)
            await make_topics(topics, table_of(self._routes), peer)
        except BaseException:
            await self.stop(0)
            raise
        self.network.start()

    async def stop(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Stop accepting, answer what has begun, close everything."""
        await self.network.stop(drain_seconds)
        if self._data_dirs is not None:
            self._data_dirs.release()
            self._data_dirs = None
