"""Connections to the other brokers of the cluster.

Where a broker can be reached is looked up each time one is dialled: it may have moved. Small
questions share one connection for each broker; a fetcher has one of its own, since a fetch that
waits for records would hold up everything behind it.

Failures are KafkaError, as `client.connection` raises them.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from odradek.client.connection import Connection, ConnectionOptions, open_connection
from odradek.protocol.endpoints import Endpoint
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)


class Links:
    """One owner: the event loop. `locate` gives a broker's address, None when it has none."""

    def __init__(
        self, *, locate: Callable[[int], Endpoint | None], options: ConnectionOptions
    ) -> None:
        self._locate = locate
        self._options = options
        self._shared: dict[tuple[str, int], Connection] = {}
        self._dialling: dict[tuple[str, int], asyncio.Lock] = {}

    def apart(self) -> "Links":
        """The same with connections of its own, for questions whose answer may take long: answers
        come in the order of the questions, and others would wait behind it."""
        return Links(locate=self._locate, options=self._options)

    async def dial(self, broker_id: int) -> Connection:
        """A new connection, which the caller closes."""
        endpoint = self._locate(broker_id)
        if endpoint is None:
            raise KafkaError(Errors.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known")
        return await open_connection(endpoint.host, endpoint.port, self._options)

    async def ask(
        self, broker_id: int, request: Request, expected: type[R], *, timeout_s: float
    ) -> R:
        """One question to a broker, wherever it is now."""
        endpoint = self._locate(broker_id)
        if endpoint is None:
            raise KafkaError(Errors.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known")
        return await self.ask_at(endpoint, request, expected, timeout_s=timeout_s)

    async def ask_at(
        self, endpoint: Endpoint, request: Request, expected: type[R], *, timeout_s: float
    ) -> R:
        connection = await self._shared_with(endpoint.host, endpoint.port)
        return await connection.request(request, expected, timeout_s=timeout_s)

    async def _shared_with(self, host: str, port: int) -> Connection:
        key = (host, port)
        # Orders the dialling: whoever comes second uses what the first one opened.
        async with self._dialling.setdefault(key, asyncio.Lock()):
            known = self._shared.get(key)
            if known is None or not known.is_open:
                self._shared[key] = known = await open_connection(host, port, self._options)
            return known

    def close(self) -> None:
        for connection in self._shared.values():
            connection.close()
        self._shared.clear()
