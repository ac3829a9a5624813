"""Frames: header versions, the quirks of ApiVersions, and requests and responses there and back."""

from random import Random

import pytest
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import Errors, ProtocolError
from odradek.protocol.frames import (
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    join_bytes,
    read_request_header,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from odradek.protocol.messages.groups import HeartbeatRequest
from odradek.protocol.messages.headers import RequestHeader, ResponseHeader
from odradek.protocol.messages.replicas import ControlledShutdownRequest
from odradek.protocol.messages.versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.registry import API_KEYS, api

from tests.support.messages import Maker

LENGTH = 4


class FileSlice:
    """Something that is sent in the place of bytes, known here by its length alone."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


def test_only_the_oldest_controlled_shutdown_has_a_header_without_client() -> None:
    without = [
        (key, version)
        for key in API_KEYS
        for version in api(key).versions
        if api(key).request_header_version(version) == 0
    ]
    assert without == [(ControlledShutdownRequest.api_key, 0)]


def test_api_versions_is_answered_with_the_oldest_header_in_every_version() -> None:
    described = api(ApiVersionsRequest.api_key)
    assert {described.response_header_version(version) for version in described.versions} == {0}


@pytest.mark.parametrize(
    ("version", "header"),
    [
        (0, b"\x00\x0c\x00\x00\x00\x00\x00\x07\x00\x02me"),
        (3, b"\x00\x0c\x00\x03\x00\x00\x00\x07\x00\x02me"),
        (4, b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x02me\x00"),
    ],
)
def test_a_client_name_keeps_its_two_byte_length_in_flexible_headers(
    version: int, header: bytes
) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(request, version, 7, "me")
    assert frame[LENGTH:].startswith(header)
    assert frame[:LENGTH] == len(frame[LENGTH:]).to_bytes(4, "big")


def test_the_fast_header_reader_agrees_with_the_declared_headers() -> None:
    for key in API_KEYS:
        for version in api(key).versions:
            request = Maker(Random(key)).message(api(key).request, version)
            for client_id in (None, "", "client-7", "grüße"):
                frame = encode_request(request, version, -9, client_id)[LENGTH:]
                header_version = api(key).request_header_version(version)
                declared = decode(RequestHeader, header_version, frame)
                found = read_request_header(frame)
                assert (found.api.key, found.version, found.correlation_id) == (
                    declared.request_api_key,
                    declared.request_api_version,
                    declared.correlation_id,
                )
                assert found.client_id == declared.client_id
                assert frame[: found.body] == encode(declared, header_version)
                assert decode_request(frame, found) == request


def test_unknown_tags_in_headers_are_skipped() -> None:
    frame = encode_request(
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, 7, None
    )[LENGTH:]
    tags = b"\x02\x05\x03abc\xff\x01\x00"
    tagged = frame[:10] + tags + frame[11:]
    header = read_request_header(tagged)
    assert header.body == 10 + len(tags)
    assert decode_request(tagged, header) == decode_request(frame, read_request_header(frame))


def test_every_response_is_read_back_with_its_correlation_id() -> None:
    for key in API_KEYS:
        described = api(key)
        for version in described.versions:
            response = Maker(Random(key)).message(described.response, version)
            parts = encode_response(response, version, 99)
            frame = b"".join(part for part in parts if isinstance(part, bytes))
            assert frame[:LENGTH] == (len(frame) - LENGTH).to_bytes(4, "big")
            assert decode_response(frame[LENGTH:], described.request, version) == (99, response)
            header_version = described.response_header_version(version)
            declared = encode(ResponseHeader(correlation_id=99), header_version)
            assert frame[LENGTH:].startswith(declared)


def test_an_unknown_version_of_api_versions_can_still_be_answered() -> None:
    header = b"\x00\x12\x00\x63\x00\x00\x00\x2a" + b"whatever a newer client says"
    with pytest.raises(UnsupportedVersion) as caught:
        read_request_header(header)
    asked = caught.value
    assert (asked.api.name, asked.version, asked.correlation_id) == ("ApiVersions", 99, 42)
    answer = ApiVersionsResponse(
        error_code=Errors.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    )
    assert encode_response(answer, 0, asked.correlation_id) == [
        bytes.fromhex("00000010 0000002a 0023 00000001 0012 0000 0004")
    ]


@pytest.mark.parametrize("version", [-1, 5, 32767, -32768])
def test_a_version_that_nobody_declared_is_refused(version: int) -> None:
    frame = b"\x00\x0c" + version.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(UnsupportedVersion, match=f"Heartbeat has no version {version}"):
        read_request_header(frame)


@pytest.mark.parametrize("key", [-1, 93, 32767])
def test_an_unknown_api_is_refused(key: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(ProtocolError, match="unknown api key") as caught:
        read_request_header(frame)
    assert not isinstance(caught.value, UnsupportedVersion)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\x00\x0c\x00\x04\x00\x00\x00",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\x00\x05abc",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\x7f\xffabc",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff\x01",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff\x01\x00\x05ab",
        b"\x00\x0c\x00\x04\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_header_that_ends_early_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(frame)


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01"])
def test_a_response_header_that_ends_early_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response(frame, FetchRequest, 13)


def test_records_are_sent_as_they_are_between_joined_bytes() -> None:
    slices = [FileSlice(70_000), FileSlice(5)]
    partitions = [
        FetchPartitionData(partition_index=i, error_code=0, high_watermark=9, records=records)
        for i, records in enumerate([slices[0], FileSlice(0), None, slices[1]])
    ]
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=partitions)]
    )
    parts = encode_response(response, 13, 5)
    assert [type(part) for part in parts] == [bytes, FileSlice, bytes, FileSlice, bytes]
    assert [part for part in parts if isinstance(part, FileSlice)] == slices
    first = parts[0]
    assert isinstance(first, bytes)
    assert int.from_bytes(first[:LENGTH], "big") == sum(map(len, parts)) - LENGTH


def test_joining_keeps_order_and_puts_bytes_around_every_slice() -> None:
    view, empty = memoryview(b"view"), FileSlice(0)
    assert join_bytes([b"a", b"b", view, b"", empty, b"c"]) == [b"ab", view, b"c"]
    assert join_bytes([view, b"a"]) == [b"", view, b"a"]
    assert join_bytes([]) == [b""]
