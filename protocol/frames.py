"""Frames: four bytes of length, a header, a message. No I/O happens here.

A request is taken apart in two steps, so that a server can look at the header before it spends
anything on the body: `read_request_header`, then `decode_request`. Responses are encoded to parts;
records inside stay what the handler gave (bytes, or slices of files that are sent by sendfile).
"""

from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from odradek.protocol.compiler import Part, decode_from, encode_into
from odradek.protocol.errors import ProtocolError
from odradek.protocol.primitives import Buffer, read_uvarint, skip_tagged_fields
from odradek.protocol.registry import Api, api
from odradek.protocol.schema import Array, Message, Nested, Records, Request, Response

LENGTH: Final = Struct(">i")
_HEADER: Final = Struct(">hhi")
_HEADER_WITH_CLIENT: Final = Struct(">hhih")


class RequestHeader(NamedTuple):
    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: int
    """Where in the frame the message begins."""


class UnsupportedVersion(ProtocolError):
    """A version nobody declared. Only ApiVersions is answered then; others are cut off."""

    def __init__(self, api: Api, version: int, correlation_id: int) -> None:
        super().__init__(f"{api.name} has no version {version}")
        self.api = api
        self.version = version
        self.correlation_id = correlation_id


def read_request_header(frame: Buffer) -> RequestHeader:
    """The header of a request frame (without its length). Raises ProtocolError."""
    try:
        key, version, correlation_id = _HEADER.unpack_from(frame)
        known = _request_headers.get((key, version))
        described, header_version = known or _request_header(key, version, correlation_id)
        if header_version == 0:
            return RequestHeader(described, version, correlation_id, None, _HEADER.size)
        (length,) = _CLIENT_LENGTH.unpack_from(frame, _HEADER.size)
        position = _HEADER_WITH_CLIENT.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise ProtocolError("client id ends past the end of the frame")
            client_id = frame[position:end].decode("utf-8", "replace")
            position = end
        if header_version == 2:
            count, position = read_uvarint(frame, position)
            if count:
                position = skip_tagged_fields(frame, count, position)
    except (StructError, IndexError):
        raise ProtocolError("request header ends early") from None
    return RequestHeader(described, version, correlation_id, client_id, position)


_CLIENT_LENGTH: Final = Struct(">h")

# (api key, version) -> what stands before such a message. Filled with what exists alone, so a peer
# that makes up keys and versions does not fill it.
_request_headers: Final[dict[tuple[int, int], tuple[Api, int]]] = {}
# For a response also whether it has records, which may be slices of files.
_response_headers: Final[dict[tuple[int, int], tuple[Struct, bool]]] = {}


def _request_header(key: int, version: int, correlation_id: int) -> tuple[Api, int]:
    described = api(key)
    if version not in described.versions:
        raise UnsupportedVersion(described, version, correlation_id)
    found = described, described.request_header_version(version)
    _request_headers[key, version] = found
    return found


def _response_header(key: int, version: int) -> tuple[Struct, bool]:
    described = api(key)
    header = _RESPONSE_HEADERS[described.response_header_version(version)]
    found = header, _has_records(described.response)
    _response_headers[key, version] = found
    return found


def _has_records(message: type[Message]) -> bool:
    for field in message.fields:
        kind = field.kind.of if isinstance(field.kind, Array) else field.kind
        if isinstance(kind, Records) or (isinstance(kind, Nested) and _has_records(kind.struct)):
            return True
    return False


def decode_request(frame: Buffer, header: RequestHeader) -> Request:
    message, _ = decode_from(header.api.request, header.version, frame, header.body)
    return message


def encode_request(
    request: Request, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A whole request frame, its length included."""
    described = api(request.api_key)
    header_version = described.request_header_version(version)
    parts: list[Any] = [b"", _HEADER.pack(request.api_key, version, correlation_id)]
    if header_version > 0:
        name = None if client_id is None else client_id.encode()
        parts.append(
            _CLIENT_LENGTH.pack(-1) if name is None else _CLIENT_LENGTH.pack(len(name)) + name
        )
    if header_version == 2:
        parts.append(b"\x00")
    encode_into(request, version, parts)
    parts[0] = LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)


def encode_response(response: Response, version: int, correlation_id: int) -> list[Part]:
    """A whole response frame as parts: neighbouring bytes joined, other parts as they are."""
    key = response.api_key
    known = _response_headers.get((key, version))
    header, has_records = known or _response_header(key, version)
    parts: list[Any] = []
    encode_into(response, version, parts)
    joined = join_bytes(parts) if has_records else [b"".join(parts)]
    length = header.size - LENGTH.size + sum(map(len, joined))
    joined[0] = header.pack(length, correlation_id) + joined[0]
    return joined


# The length, the correlation id and, from v1 on, an empty section of tagged fields.
_RESPONSE_HEADERS: Final = (Struct(">ii"), Struct(">iix"))


def join_bytes(parts: list[Any]) -> list[Any]:
    """Join each run of bytes into one, so that it takes one system call to send.

    Bytes come first and last, though they may be empty, and between any two other parts.
    """
    joined: list[Any] = []
    start = 0
    for index, part in enumerate(parts):
        if type(part) is bytes:
            continue
        if len(part):
            joined += (b"".join(parts[start:index]), part)
            start = index + 1
        else:
            parts[index] = b""
    joined.append(b"".join(parts[start:]))
    return joined


def decode_response(frame: Buffer, request: type[Request], version: int) -> tuple[int, Response]:
    """The correlation id and message of a response frame (without its length)."""
    described = api(request.api_key)
    try:
        (correlation_id,) = LENGTH.unpack_from(frame)
        position = LENGTH.size
        if described.response_header_version(version) == 1:
            count, position = read_uvarint(frame, position)
            if count:
                position = skip_tagged_fields(frame, count, position)
    except (StructError, IndexError):
        raise ProtocolError("response header ends early") from None
    message, _ = decode_from(described.response, version, frame, position)
    return correlation_id, message
