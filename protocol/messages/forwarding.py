"""A request forwarded from one broker to another, with who sent it."""

from odradek.protocol.schema import Data, Request, Response, blob, boolean, int16, string


class EnvelopeRequest(Request, api_key=58, versions="0", flexible="0+"):
    """Carry a whole request, with its principal and client address."""

    request_data: bytes = blob()
    request_principal: bytes | None = blob(nullable="0+")
    client_host_address: bytes = blob()


class EnvelopeResponse(Response, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = blob(nullable="0+", default=None)
    error_code: int = int16()


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal, serialized for forwarding."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
