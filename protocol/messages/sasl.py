"""Authentication."""

from odradek.protocol.schema import STRING, Request, Response, array, blob, int16, int64, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1"):
    """Agree on a SASL mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(STRING)


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    """Carry one SASL token each way."""

    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+", default=0)
