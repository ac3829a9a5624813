"""What a handler may know about a request beside the request itself."""

from odradek.broker.network.peer import Address, Peer
from odradek.protocol.frames import RequestHeader


class RequestContext:
    """One per request. Slots and properties: it is made on the hot path, and read off it."""

    __slots__ = ("arrived", "ending", "header", "peer")

    def __init__(self, header: RequestHeader, peer: Peer, arrived: float) -> None:
        self.header = header
        self.peer = peer
        self.arrived = arrived
        """Monotonic seconds: when the last byte of the request came."""
        self.ending: str | None = None

    def hang_up(self, reason: str) -> None:
        """Close the connection after the answer to this request, or instead of it if it is None."""
        self.ending = reason

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def correlation_id(self) -> int:
        return self.header.correlation_id

    @property
    def client_id(self) -> str:
        """Empty when the client gave none: Kafka makes no difference either."""
        return self.header.client_id or ""

    @property
    def listener(self) -> str:
        return self.peer.listener

    @property
    def peer_address(self) -> Address:
        return self.peer.address

    @property
    def local_address(self) -> Address:
        """The address the client dialled."""
        return self.peer.local_address

    @property
    def principal(self) -> str:
        return self.peer.principal
