"""Who is on the other side of a connection, and by which door it came in."""

from typing import NamedTuple

ANONYMOUS = "User:ANONYMOUS"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Peer:
    """One per connection, shared by all its requests; authentication gives it its principal."""

    __slots__ = ("address", "listener", "local_address", "principal")

    def __init__(self, listener: str, address: Address, local_address: Address) -> None:
        self.listener = listener
        self.address = address
        self.local_address = local_address
        """What the client dialled: the address to advertise when none is configured."""
        self.principal = ANONYMOUS

    def __str__(self) -> str:
        return f"{self.address} on {self.listener}"
