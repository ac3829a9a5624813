"""Bad frames: what a peer may send and what becomes of its connection.

After every case the server is alive, serves a connection that was there before, and has given
back all memory and descriptors.
"""

import random
import struct
from collections.abc import Iterator

import pytest
from odradek.protocol.frames import encode_request
from odradek.protocol.messages.groups import LeaveGroupRequest
from odradek.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.messages.versions import ApiVersionsRequest, ApiVersionsResponse

from tests.support.network_probe import MEGABYTE, NetworkProbe, wait_for
from tests.support.raw_client import RawClient, framed, header

ECHO = 36
API_VERSIONS = 18
LEAVE_GROUP = 13
LIMIT = 100 * MEGABYTE


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def running(request: pytest.FixtureRequest) -> Iterator[NetworkProbe]:
    with NetworkProbe(loop=request.param) as probe:
        yield probe


@pytest.fixture
def server(running: NetworkProbe) -> Iterator[NetworkProbe]:
    yield running
    running.check_well()


@pytest.fixture
def client(server: NetworkProbe) -> Iterator[RawClient]:
    with server.client() as client:
        yield client


def echo_of(client: RawClient, data: bytes, version: int = 2) -> bytes:
    response = client.ask(SaslAuthenticateRequest(auth_bytes=data), version)
    assert isinstance(response, SaslAuthenticateResponse)
    return response.auth_bytes


@pytest.mark.parametrize("length", [-1, -(2**31)])
def test_a_negative_length_closes_the_connection(client: RawClient, length: int) -> None:
    client.send(struct.pack(">i", length))
    assert client.is_closed()


@pytest.mark.parametrize("length", [LIMIT + 1, 2**31 - 1])
def test_a_length_over_the_limit_closes_the_connection_before_anything_is_allocated(
    server: NetworkProbe, client: RawClient, length: int
) -> None:
    client.send(struct.pack(">i", length))
    assert client.is_closed()
    assert server.resident_bytes() < server.baseline_bytes + 16 * MEGABYTE


def test_a_length_of_zero_closes_the_connection(client: RawClient) -> None:
    client.send(struct.pack(">i", 0))
    assert client.is_closed()


@pytest.mark.parametrize("sent", [b"\0", b"\0\0\0", b"\0\0\0\x10", b"\0\0\0\x10partial"])
def test_a_truncated_frame_and_the_end_of_the_stream_close_the_connection(
    client: RawClient, sent: bytes
) -> None:
    client.send(sent)
    client.half_close()
    assert client.is_closed()


def test_a_partial_body_does_not_hold_a_full_size_buffer(server: NetworkProbe) -> None:
    clients = [server.client() for _ in range(20)]
    for client in clients:
        client.send(struct.pack(">i", LIMIT) + b"x" * 1000)
    server.check_serves(server.bystander)
    assert server.resident_bytes() < server.baseline_bytes + 16 * MEGABYTE
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\xff" * 64,
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["http", "tls", "ones", "ssh"],
)
def test_another_protocol_on_the_port_closes_the_connection(
    client: RawClient, greeting: bytes
) -> None:
    client.send(greeting)
    assert client.is_closed()


def test_random_bytes_close_the_connection_or_are_waited_for_at_no_cost(
    server: NetworkProbe,
) -> None:
    chance = random.Random(7)
    for _ in range(50):
        with server.client() as client:
            client.send(chance.randbytes(chance.randrange(1, 3000)))
            client.half_close()
            assert client.is_closed()


def test_a_frame_in_single_bytes_works(client: RawClient) -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"drop by drop")
    client.dribble(encode_request(request, 2, 5, "slow"))
    correlation_id, response = client.read_response(SaslAuthenticateRequest, 2)
    assert correlation_id == 5
    assert response == SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=b"drop by drop"
    )


@pytest.mark.parametrize("size", [1, 100, 16_000, 65_532, 65_536, 1_000_000, 5_000_000])
def test_frames_of_every_size_arrive_as_they_were_sent(client: RawClient, size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert echo_of(client, data, version=1) == data
    assert echo_of(client, b"after", version=1) == b"after"


@pytest.mark.parametrize("body", [b"\0", b"\0\x12", b"\0\x12\0\0", b"\0\x12\0\0\0\0\0\x01\0"])
def test_a_header_cut_short_closes_the_connection(client: RawClient, body: bytes) -> None:
    client.send_frame(body)
    assert client.is_closed()


def test_a_client_id_past_the_end_of_the_frame_closes_the_connection(client: RawClient) -> None:
    client.send_frame(struct.pack(">hhih", ECHO, 0, 1, 1000) + b"short")
    assert client.is_closed()


@pytest.mark.parametrize("api_key", [-1, -32768, 93, 32767, 0, 3])
def test_an_api_key_that_is_unknown_or_not_served_closes_the_connection(
    client: RawClient, api_key: int
) -> None:
    client.send_frame(header(api_key, 0) + bytes(20))
    assert client.is_closed()


@pytest.mark.parametrize("version", [-1, 3, 32767, -32768])
def test_a_version_that_is_not_served_closes_the_connection(
    client: RawClient, version: int
) -> None:
    client.send_frame(header(ECHO, version) + bytes(20))
    assert client.is_closed()


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    server: NetworkProbe, client: RawClient, version: int
) -> None:
    client.send_frame(header(API_VERSIONS, version, correlation_id=77) + b"future fields")
    correlation_id, response = client.read_response(ApiVersionsRequest, 0)
    assert correlation_id == 77
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 35
    ranges = [(each.api_key, each.min_version, each.max_version) for each in response.api_keys]
    assert ranges == [(API_VERSIONS, 0, 4)]
    server.check_serves(client)


def test_a_body_that_does_not_parse_closes_the_connection(client: RawClient) -> None:
    client.send_frame(header(ECHO, 0) + b"\0\0")
    assert client.is_closed()


def test_bytes_after_a_valid_body_are_ignored(server: NetworkProbe, client: RawClient) -> None:
    client.send_frame(header(ECHO, 0) + struct.pack(">i3s", 3, b"abc") + b"and more")
    _, response = client.read_response(SaslAuthenticateRequest, 0)
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.auth_bytes == b"abc"
    server.check_serves(client)


@pytest.mark.parametrize("count", [1000, 2**31 - 1, -1, -2, -(2**31)])
def test_an_array_count_that_cannot_be_closes_the_connection(
    server: NetworkProbe, client: RawClient, count: int
) -> None:
    # LeaveGroup v3: group id, then an array of members that may not be null.
    client.send_frame(header(LEAVE_GROUP, 3) + b"\0\x01g" + struct.pack(">i", count) + b"\0\0")
    assert client.is_closed()
    assert server.resident_bytes() < server.baseline_bytes + 16 * MEGABYTE


def test_null_for_a_field_that_may_not_be_null_closes_the_connection(client: RawClient) -> None:
    client.send_frame(header(LEAVE_GROUP, 0) + struct.pack(">hh", -1, -1))
    assert client.is_closed()


def test_a_string_over_32767_bytes_closes_the_connection(client: RawClient) -> None:
    length = b"\x81\x80\x02"  # 32,768 as the compact form of a string of 32,768 bytes
    body = header(LEAVE_GROUP, 4) + b"\0" + length + b"g" * 32_768 + b"\x01\0"
    client.send_frame(body)
    assert client.is_closed()


@pytest.mark.parametrize(
    "tags",
    [b"\x80\x80\x80\x80\x80\x01", b"\x01\x63\xff\xff\xff\xff\x0f", b"\x01\x63\x7fabc"],
    ids=["varint over 5 bytes", "tag of 4 GiB", "tag past the end"],
)
def test_tagged_fields_that_lie_close_the_connection(client: RawClient, tags: bytes) -> None:
    client.send_frame(header(API_VERSIONS, 3) + tags)
    assert client.is_closed()


def test_unknown_tagged_fields_are_skipped(server: NetworkProbe, client: RawClient) -> None:
    software = b"\x04raw\x021"
    client.send_frame(header(API_VERSIONS, 3) + b"\x01\x63\x02hi" + software + b"\x01\x64\x01x")
    _, response = client.read_response(ApiVersionsRequest, 3)
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 0


def test_text_that_is_not_utf8_is_replaced(server: NetworkProbe, client: RawClient) -> None:
    name = b"\xff\xfe\x80"
    prefix = struct.pack(">hhih", LEAVE_GROUP, 0, 1, len(name)) + name
    client.send_frame(prefix + struct.pack(">h3sh", 3, name, 0))
    client.read_response(LeaveGroupRequest, 0)
    server.check_serves(client)


def test_a_null_client_id_is_as_good_as_any(client: RawClient) -> None:
    client.request(SaslAuthenticateRequest(auth_bytes=b"who"), 2, 3, client_id=None)
    correlation_id, _ = client.read_response(SaslAuthenticateRequest, 2)
    assert correlation_id == 3


@pytest.mark.parametrize("name", ["", " ", "-x", "x-", "a b", "Ω", "x" * 40 + "\n"])
def test_an_illegal_software_name_is_an_invalid_request(
    server: NetworkProbe, client: RawClient, name: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    response = client.ask(request, 3)
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 42
    assert response.api_keys == []
    server.check_serves(client)


def test_requests_before_a_bad_frame_are_answered(client: RawClient) -> None:
    good = encode_request(SaslAuthenticateRequest(auth_bytes=b"good"), 2, 9, "raw")
    client.send(good + good + framed(header(93, 0)) + good)
    assert client.read_correlation_ids(2) == [9, 9]
    assert client.is_closed()


def test_a_bad_peer_gets_one_line_in_the_log_and_no_traceback() -> None:
    with NetworkProbe() as server:
        for _ in range(30):
            with server.client(source="127.0.0.9") as client:
                client.send(b"GET / HTTP/1.1\r\n\r\n")
                assert client.is_closed()
        wait_for(lambda: bool(server.complaints()), "the peer is written about")
        assert len(server.complaints()) == 1
        assert "127.0.0.9" in server.complaints()[0]
        assert "HTTP" in server.complaints()[0]
        assert not any("Traceback" in line for line in server.process.output)
