"""Where a broker can be reached: a named listener with its security, host and port.

Endpoints are values that every layer passes on: they are configured at the broker, registered in
the metadata store, and carried in requests between brokers.
"""

import re
from dataclasses import dataclass
from enum import IntEnum


class SecurityProtocol(IntEnum):
    """How a listener protects and authenticates; the numbers are those of the protocol."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`host` is empty for all interfaces, `port` 0 for any free one: both while bound to."""

    listener: str
    security: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


_FORM = re.compile(r"([^:/]+)://(\[[0-9a-fA-F:.%a-z]+\]|[^\[\]:/]*):(-?[0-9]+)")


def parse_endpoint(text: str) -> tuple[str, str, int]:
    """(listener name, host, port) of `NAME://host:port`. Raises ValueError with a sentence."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is not of the form NAME://host:port")
    name, host, port = match[1].upper(), match[2].strip("[]"), int(match[3])
    if not 0 <= port <= 65535:
        raise ValueError(f"{text.strip()!r} has a port outside 0 to 65535")
    return name, host, port
