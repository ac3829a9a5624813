"""What all parts of the admin client share: whom to ask, and when to ask again.

Calls about several things return a value or a KafkaError for each of them, so that one failure does
not hide the others; `raise_failures` turns the first into an exception. Calls about one thing, and
calls that fail as a whole, raise.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.connection import Connection
from odradek.client.identity import MOVED_COORDINATOR
from odradek.client.retry import until_done
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.schema import Request, Response

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Response)
T = TypeVar("T")

Results = dict[K, V | KafkaError]


def raise_failures(results: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The results if all are well; raises the first failure."""
    good: dict[K, V] = {}
    for key, value in results.items():
        if isinstance(value, KafkaError):
            raise value
        good[key] = value
    return good


def failure(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(Errors.of(code), message or None) if code else None


def check(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(Errors.of(code), message or None)


class AdminBase:
    settings: AdminSettings
    _cluster: Cluster

    @property
    def _timeout_s(self) -> float:
        return self.settings.default_api_timeout_ms / 1000

    @property
    def _timeout_ms(self) -> int:
        return self.settings.request_timeout_ms

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await until_done(attempt, backoff=self._cluster.backoff, timeout_s=self._timeout_s)

    async def _ask_any(self, request: Request, expected: type[R]) -> R:
        async def ask() -> R:
            connection = await self._cluster.any_connection()
            return await connection.request(request, expected)

        return await self._retry(ask)

    async def _ask_controller(
        self, request: Request, expected: type[R], codes: Callable[[R], list[int]]
    ) -> R:
        """Ask whoever is controller; `codes` are the errors that may say it is another one."""

        async def ask() -> R:
            connection = await self._cluster.controller()
            answer = await connection.request(request, expected)
            if Errors.NOT_CONTROLLER in codes(answer):
                await self._cluster.refresh()
                raise KafkaError(Errors.NOT_CONTROLLER)
            return answer

        return await self._retry(ask)

    async def _ask_broker(self, node_id: int, request: Request, expected: type[R]) -> R:
        async def ask() -> R:
            connection = await self._cluster.connection(node_id)
            return await connection.request(request, expected)

        return await self._retry(ask)

    async def _ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Request,
        expected: type[R],
        code: Callable[[R], int],
    ) -> R:
        """Ask a coordinator; raises what `code` finds in its answer."""

        async def ask() -> R:
            answer = await self._cluster.ask_coordinator(kind, key, request, expected)
            if code(answer) in MOVED_COORDINATOR:
                self._cluster.forget_coordinator(kind, key)
            check(code(answer))
            return answer

        return await self._retry(ask)

    async def _connections(self) -> dict[int, Connection]:
        """A connection to every broker of the cluster."""

        async def ask() -> dict[int, Connection]:
            await self._cluster.refresh()
            return {node: await self._cluster.connection(node) for node in self._cluster.view.nodes}

        return await self._retry(ask)
