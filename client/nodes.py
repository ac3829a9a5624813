"""The connections of one client, by address and channel, opened when first needed.

Requests that wait at the broker (Fetch, JoinGroup) hold back whatever follows on the same
connection, so small urgent requests have a channel of their own. A broker that cannot be reached
is left alone for a while that grows with each failure.
"""

import asyncio
from enum import Enum, auto
from random import Random

from odradek.client.connection import Connection, ConnectionOptions, open_connection
from odradek.client.retry import Backoff
from odradek.client.settings import ClientSettings
from odradek.client.view import Node
from odradek.protocol.errors import KafkaError


class Channel(Enum):
    CONTROL = auto()
    DATA = auto()
    GROUP = auto()


Key = tuple[str, int, Channel]


class Nodes:
    def __init__(
        self, settings: ClientSettings, options: ConnectionOptions, random: Random
    ) -> None:
        self._options = options
        self._backoff = Backoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random
        )
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, asyncio.Task[Connection]] = {}
        self._failures: dict[Key, int] = {}

    def connected(self, node: Node, channel: Channel = Channel.CONTROL) -> Connection | None:
        """The connection if there is one that works."""
        connection = self._open.get((node.host, node.port, channel))
        return connection if connection is not None and connection.is_open else None

    async def connect(self, node: Node, channel: Channel = Channel.CONTROL) -> Connection:
        """The connection, made if need be. Raises KafkaError."""
        key = (node.host, node.port, channel)
        connection = self._open.get(key)
        if connection is not None and connection.is_open:
            return connection
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._connect(key))
            opening.add_done_callback(_look)
            self._opening[key] = opening
        return await asyncio.shield(opening)

    async def close(self) -> None:
        for opening in list(self._opening.values()):
            opening.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        connections = list(self._open.values())
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    async def _connect(self, key: Key) -> Connection:
        host, port, _ = key
        try:
            if failures := self._failures.get(key, 0):
                await asyncio.sleep(self._backoff.pause_s(failures))
            try:
                connection = await open_connection(host, port, self._options)
            except KafkaError:
                self._failures[key] = failures + 1
                raise
            self._failures.pop(key, None)
            self._open[key] = connection
            return connection
        finally:
            del self._opening[key]


def _look(task: "asyncio.Task[Connection]") -> None:
    """Whoever asked may have gone; an error that nobody hears is no news for the log."""
    if not task.cancelled():
        task.exception()
