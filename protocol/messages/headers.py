"""What stands before every request and every response."""

from odradek.protocol.schema import Data, int16, int32, string


class RequestHeader(Data, versions="0-2", flexible="2+"):
    """The api, its version, a correlation id and who asks."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string("1+", nullable="1+", default=None, compact=False)


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    """The correlation id of the request that is answered."""

    correlation_id: int = int32()
