"""Requests of a connection are begun in order and answered in order, whatever waits in between."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.frames import encode_request
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from odradek.protocol.messages.sasl import SaslAuthenticateRequest
from odradek.protocol.messages.versions import ApiVersionsRequest
from odradek.protocol.schema import Request

from tests.support.network_probe import MEGABYTE, NetworkProbe
from tests.support.raw_client import RawClient


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
        # Once it is accepted, what it sends is begun before what others send later.
        server.check_serves(client)
        yield client


def parked(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=0, member_id="")


def parked_coroutine(group: str) -> SyncGroupRequest:
    return SyncGroupRequest(group_id=group, generation_id=0, member_id="", assignments=[])


def free(group: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group)


def failing(how: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=how)


def echo(data: bytes = b"x") -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=data)


def test_1000_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    frames = [encode_request(echo(b"x" * 50), 2, number, "raw") for number in range(1000)]
    client.send(b"".join(frames))
    assert client.read_correlation_ids(1000) == list(range(1000))


def test_pipelined_requests_of_many_connections_are_answered_in_order(
    server: NetworkProbe,
) -> None:
    clients = [server.client() for _ in range(20)]
    burst = b"".join(encode_request(echo(), 2, number, "raw") for number in range(200))
    for client in clients:
        client.send(burst)
    for client in clients:
        assert client.read_correlation_ids(200) == list(range(200))
        client.close()


@pytest.mark.parametrize("wait", [parked, parked_coroutine], ids=["future", "coroutine"])
def test_a_parked_request_does_not_keep_the_next_one_from_beginning(
    client: RawClient, wait: type
) -> None:
    # Only the second request sets the first one free: were it not begun, none would be answered.
    client.request(wait("own"), 2, correlation_id=1)
    client.request(free("own"), 2, correlation_id=2)
    assert client.read_correlation_ids(2) == [1, 2]


def test_a_parked_request_holds_back_the_answers_behind_it(
    server: NetworkProbe, client: RawClient
) -> None:
    client.request(parked("held"), 2, correlation_id=1)
    for number in (2, 3, 4):
        client.request(echo(), 2, correlation_id=number)
    # A round trip of another connection, sent later, shows that the three were begun meanwhile.
    server.check_serves(server.bystander)
    assert client.has_nothing_to_read()
    server.bystander.ask(free("held"), 2)
    assert client.read_correlation_ids(4) == [1, 2, 3, 4]


def test_no_more_than_a_few_requests_of_a_connection_are_open(
    server: NetworkProbe, client: RawClient
) -> None:
    # Eight may be open; the ninth, which would set the others free, has to wait like the rest.
    client.send(b"".join(encode_request(parked("full"), 2, n, "raw") for n in range(8)))
    client.request(free("full"), 2, correlation_id=8)
    for _ in range(3):
        server.check_serves(server.bystander)
    assert client.has_nothing_to_read()
    server.bystander.ask(free("full"), 2)
    assert client.read_correlation_ids(9) == list(range(9))


def test_a_request_without_an_answer_leaves_no_gap(client: RawClient) -> None:
    client.request(echo(), 2, correlation_id=1)
    client.request(failing("silence"), 2, correlation_id=2)
    client.request(echo(), 2, correlation_id=3)
    assert client.read_correlation_ids(2) == [1, 3]


def test_requests_sent_before_the_end_of_the_stream_are_answered(
    server: NetworkProbe, client: RawClient
) -> None:
    client.request(parked("leaving"), 2, correlation_id=0)
    client.send(b"".join(encode_request(echo(), 2, n, "raw") for n in range(1, 50)))
    client.half_close()
    server.bystander.ask(free("leaving"), 2)
    assert client.read_correlation_ids(50) == list(range(50))
    assert client.is_closed()


def test_a_reset_while_requests_are_parked_is_survived(server: NetworkProbe) -> None:
    for _ in range(20):
        client = server.client()
        server.check_serves(client)
        client.request(parked("reset"), 2)
        client.request(parked_coroutine("reset"), 2)
        client.abort()
    server.bystander.ask(free("reset"), 2)


@pytest.mark.parametrize(
    ("how", "code"), [("kafka error", 16), ("bug", -1), ("later", 16), ("not encodable", -1)]
)
def test_a_failure_is_answered_with_its_code(client: RawClient, how: str, code: int) -> None:
    response = client.ask(failing(how), 2)
    assert isinstance(response, FindCoordinatorResponse)
    assert response.error_code == code
    client.ask(echo(), 2)


def test_a_handler_that_finds_bad_bytes_closes_the_connection(client: RawClient) -> None:
    client.request(failing("bad bytes"), 2)
    assert client.is_closed()


def test_a_handler_may_hang_up_after_its_answer(client: RawClient) -> None:
    client.ask(failing("hang up"), 2)
    assert client.is_closed()


def test_a_bug_in_a_handler_is_logged_once_with_its_traceback() -> None:
    with NetworkProbe() as server, server.client() as client:
        client.ask(failing("bug"), 2)
        server.process.wait_for_line("ValueError: a bug in a handler")
        text = "\n".join(server.process.output)
        assert text.count("Traceback") == 1


def fetch(path: Path, *ranges: tuple[int, int]) -> FetchRequest:
    partitions = [
        FetchPartition(partition=number, fetch_offset=start, partition_max_bytes=length)
        for number, (start, length) in enumerate(ranges)
    ]
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=str(path), partitions=partitions)]
    )


def records_of(response: object) -> list[bytes]:
    assert isinstance(response, FetchResponse)
    return [
        bytes(partition.records)  # type: ignore[call-overload]
        for topic in response.responses
        for partition in topic.partitions
    ]


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    data = os.urandom(5 * MEGABYTE)
    path = tmp_path_factory.mktemp("segments") / "00000000000000000000.log"
    path.write_bytes(data)
    with path.open() as file:
        os.fsync(file.fileno())
    return path, data


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 100)],
        [(10, 16 * 1024 + 1)],
        [(0, 5 * MEGABYTE)],
        [(1000 * n, 1000) for n in range(300)],
        [(0, 50), (MEGABYTE, 2 * MEGABYTE), (77, 1), (4 * MEGABYTE, 300_000), (3, 3)],
    ],
    ids=["small", "over small", "large", "many small", "mixed"],
)
def test_slices_of_files_arrive_byte_for_byte(
    client: RawClient,
    segment: tuple[Path, bytes],
    ranges: list[tuple[int, int]],
    is_cold: bool,
) -> None:
    path, data = segment
    if is_cold:
        drop_from_cache(path)
    records = records_of(client.ask(fetch(path, *ranges), 4))
    assert records == [data[start : start + length] for start, length in ranges]


def test_slices_of_pipelined_requests_arrive_in_order(
    client: RawClient, segment: tuple[Path, bytes]
) -> None:
    path, data = segment
    drop_from_cache(path)
    requests: list[Request] = [fetch(path, (n * 500_000, 400_000)) for n in range(10)]
    for number, request in enumerate(requests):
        client.request(request, 4, correlation_id=number)
    for number in range(10):
        correlation_id, response = client.read_response(FetchRequest, 4)
        assert correlation_id == number
        start = number * 500_000
        assert records_of(response) == [data[start : start + 400_000]]


def test_a_slice_past_the_end_of_its_file_closes_the_connection(
    client: RawClient, segment: tuple[Path, bytes]
) -> None:
    path, data = segment
    client.request(fetch(path, (len(data) - 100_000, 200_000)), 4)
    with pytest.raises(ConnectionError):
        client.read_frame()


def drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_stop_answers_what_has_begun_and_takes_no_more() -> None:
    size = 8 * MEGABYTE  # more than the sockets hold, so that the answer is on its way for long
    with NetworkProbe() as server, server.client() as client, server.client() as idle:
        server.check_serves(idle)
        client.request(echo(b"x" * size), 1)
        begin = client.read_exactly(4)
        os.kill(server.process.pid, signal.SIGTERM)
        assert idle.is_closed()
        assert int.from_bytes(begin) > size
        assert len(client.read_exactly(int.from_bytes(begin))) > size
        assert client.is_closed()
        assert server.process.wait() == 0


def test_every_listener_is_served_and_known_by_its_name() -> None:
    listeners = "A://127.0.0.1:0,B://127.0.0.2:0,C://[::1]:0"
    protocols = "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"
    with NetworkProbe(
        f"listeners={listeners}",
        f"listener.security.protocol.map={protocols}",
        "inter.broker.listener.name=A",
    ) as server:
        assert set(server.ports) == {"A", "B", "C"}
        for host, name in (("127.0.0.1", "A"), ("127.0.0.2", "B"), ("::1", "C")):
            with RawClient(server.ports[name], host=host) as client:
                response = client.ask(failing("where am I"), 2)
                assert isinstance(response, FindCoordinatorResponse)
                assert response.host == host


def test_all_interfaces_serve_both_families_on_one_port() -> None:
    with NetworkProbe("listeners=PLAINTEXT://:0") as server:
        for host in ("127.0.0.1", "::1"):
            with RawClient(server.port, host=host) as client:
                response = client.ask(failing("where am I"), 2)
                assert isinstance(response, FindCoordinatorResponse)
                assert response.host == host
                client.ask(ApiVersionsRequest(), 0)
