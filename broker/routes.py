"""Which handler answers which request: a list of values, from which all else is derived.

Handler classes offer their routes; dispatch makes its table of them, and ApiVersions its answer.
An API without a route is not advertised and not answered.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from odradek.broker.context import RequestContext
from odradek.broker.later import Later
from odradek.broker.network.peer import Peer
from odradek.protocol.compiler import Part
from odradek.protocol.errors import KafkaError
from odradek.protocol.frames import RequestHeader
from odradek.protocol.schema import Request, Response, Versions

R = TypeVar("R", bound=Request)
Asked = TypeVar("Asked", bound=Request, contravariant=True)

Answer: TypeAlias = Response | Awaitable[Response | None] | None


class Shortcut(Protocol[Asked]):
    """A way around decoding for requests like others before them."""

    def answer(self, frame: bytearray, peer: Peer) -> Sequence[Part] | Later[Sequence[Part]] | None:
        """Serve a request; None, with nothing done, when it has to be decoded."""
        ...

    def learn(self, frame: bytearray, header: RequestHeader, request: Asked) -> None:
        """Look at a request that was decoded, and that its handler has begun to serve."""
        ...


@dataclass(frozen=True, slots=True)
class Route(Generic[R]):
    """`handler` is stage one: it runs at once, in the order of the connection's requests.

    It returns the response, None when none is ever sent, or an awaitable: stage two, which may
    end later and lets the connection's next request begin meanwhile. A `Later` is cheaper than a
    future, and that than a coroutine; both mean that the handler has let go of the request's
    records. An `async def` as handler has no stage one: its body begins after requests behind it
    may have begun.

    `failure` makes the response that tells of a KafkaError; it must not fail itself.
    """

    request: type[R]
    versions: Versions
    handler: Callable[[R, RequestContext], Answer]
    failure: Callable[[R, KafkaError], Response]
    unsupported: Callable[[], Response] | None = None
    """The answer, in version 0, to a version outside the range; without it the peer is cut off."""

    shortcut: Shortcut[R] | None = None
    """Serves requests without decoding them, where it can."""


AnyRoute: TypeAlias = Route[Any]


def table_of(routes: Iterable[AnyRoute]) -> dict[int, AnyRoute]:
    """The routes by api key."""
    table: dict[int, AnyRoute] = {}
    for route in routes:
        name = route.request.__name__
        assert route.request.api_key not in table, f"two routes for {name}"
        assert route.versions.last is not None, f"{name} is served in versions without an end"
        for version in (route.versions.first, route.versions.last):
            assert version in route.request.versions, f"{name} has no version {version}"
        table[route.request.api_key] = route
    return table
