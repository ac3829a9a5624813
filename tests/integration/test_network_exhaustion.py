"""Peers that take too much: connections, descriptors, memory, time. The others are served."""

import errno
import os
import resource
import struct
import time
from contextlib import ExitStack, suppress

import pytest
from odradek.protocol.frames import encode_request
from odradek.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

from tests.support.network_probe import MEGABYTE, SLACK_BYTES, NetworkProbe, wait_for
from tests.support.raw_client import RawClient, close_all


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def echo(size: int, correlation_id: int = 1) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=bytes(size)), 1, correlation_id, "x")


def send_for_ever(client: RawClient, data: bytes) -> None:
    """Ends with a TimeoutError, when the server reads no more."""
    while True:
        client.send(data)


def is_refused(server: NetworkProbe, source: str | None = None) -> bool:
    """Whether a new connection is closed at once; one that is not asks for the versions."""
    with RawClient(server.port, source=source) as client:
        try:
            server.check_serves(client)
        except (ConnectionError, BrokenPipeError):
            return True
        return False


def test_ten_thousand_idle_connections_cost_little_and_disturb_nobody(loop: str) -> None:
    count, spare = 10_000, 2_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + spare:
        pytest.skip(f"a process may have {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    settings = f"socket.listen.backlog.size={count}"
    with NetworkProbe(settings, loop=loop, files=count + spare) as server:
        # What the allocator keeps of the first wave serves the second: nothing leaks.
        kept = []
        for _ in range(2):
            clients = [server.client() for _ in range(count)]
            wait_for(
                lambda: server.open_files() >= server.baseline_files + count,
                "all are accepted",
                timeout=60,
            )
            assert server.resident_bytes() < server.baseline_bytes + 100 * MEGABYTE
            for client in (*clients[:3], *clients[-3:]):
                server.check_serves(client)
            close_all(clients)
            wait_for(lambda: server.open_files() <= server.baseline_files, "files are closed")
            kept.append(server.resident_bytes())
        assert kept[1] < kept[0] + SLACK_BYTES
        server.check_serves(server.bystander)


def test_connections_over_the_total_are_closed_and_the_others_live(loop: str) -> None:
    with NetworkProbe("max.connections=5", loop=loop) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(4)]
        for client in clients:
            server.check_serves(client)
        assert is_refused(server)
        assert is_refused(server)
        for client in clients:
            server.check_serves(client)
        clients[0].close()
        wait_for(lambda: not is_refused(server), "a place is free again")


def test_connections_of_one_address_are_limited_and_those_of_others_are_not(loop: str) -> None:
    with (
        NetworkProbe(
            "max.connections.per.ip=3", "max.connections.per.ip.overrides=127.0.0.7:1", loop=loop
        ) as server,
        server.client() as second,
        server.client() as third,
    ):
        server.check_serves(second)
        server.check_serves(third)
        assert is_refused(server)
        assert not is_refused(server, source="127.0.0.5")
        with server.client(source="127.0.0.7") as only:
            server.check_serves(only)
            assert is_refused(server, source="127.0.0.7")


def test_a_listener_may_have_a_cap_of_its_own(loop: str) -> None:
    with (
        NetworkProbe(
            "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0",
            "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
            "inter.broker.listener.name=IN",
            "listener.name.out.max.connections=1",
            loop=loop,
        ) as server,
        RawClient(server.ports["OUT"]) as first,
    ):
        server.check_serves(first)
        with RawClient(server.ports["OUT"]) as second:
            assert second.is_closed()
        with RawClient(server.ports["IN"]) as other:
            server.check_serves(other)


def test_connections_over_the_creation_rate_wait_for_their_turn(loop: str) -> None:
    with NetworkProbe("max.connection.creation.rate=20", loop=loop) as server:
        began = time.monotonic()
        clients = [server.client() for _ in range(30)]
        for client in clients:
            server.check_serves(client)
        assert time.monotonic() - began > 0.4
        close_all(clients)
        server.check_well()


def test_a_frame_that_comes_too_slowly_closes_its_connection(loop: str) -> None:
    with NetworkProbe("frame.seconds=0.5", loop=loop) as server:
        with server.client() as client:
            began = time.monotonic()
            client.send(struct.pack(">i", 1000))
            while time.monotonic() - began < 10:
                try:
                    client.send(b"x")
                except OSError:
                    break
                client.socket.settimeout(0.1)
                try:
                    if client.is_closed():
                        break
                except TimeoutError:
                    continue
            assert 0.4 < time.monotonic() - began < 5
        server.check_well()


def test_a_silent_connection_is_closed_and_one_that_talks_or_waits_is_not(loop: str) -> None:
    with (
        NetworkProbe("connections.max.idle.ms=500", loop=loop) as server,
        server.client() as silent,
        server.client() as talking,
    ):
        deadline = time.monotonic() + 10
        silent.socket.settimeout(0.1)
        closed = False
        while not closed and time.monotonic() < deadline:
            server.check_serves(talking)
            try:
                closed = silent.is_closed()
            except TimeoutError:
                continue
        assert closed
        server.check_serves(talking)


def test_a_client_that_never_reads_is_held_to_a_bounded_buffer_and_closed_when_idle(
    loop: str,
) -> None:
    with NetworkProbe("connections.max.idle.ms=3000", loop=loop) as server:
        with server.client(receive_buffer=4096, timeout=0.5) as client:
            with pytest.raises(TimeoutError):
                send_for_ever(client, echo(200_000))
            assert server.resident_bytes() < server.baseline_bytes + 16 * MEGABYTE
            server.bystander.close()
            server.bystander = server.client()
            server.check_serves(server.bystander)
            wait_for(lambda: server.open_files() <= server.baseline_files, "it is closed")
        server.check_serves(server.bystander)


def test_many_large_frames_at_once_stay_within_the_request_memory(loop: str) -> None:
    size = 20 * MEGABYTE
    budget = 30 * MEGABYTE
    settings = (f"queued.max.request.bytes={budget}", f"socket.request.max.bytes={size}")
    with NetworkProbe(*settings, loop=loop) as server:
        clients = [server.client(timeout=60) for _ in range(8)]
        highest = server.resident_bytes()
        frame = struct.pack(">i", size)
        for client in clients:
            client.send(frame + bytes(100))
        # Frames that have begun hold their place; the others wait, and nobody is closed.
        for client in clients:
            client.socket.settimeout(0.05)
            with suppress(TimeoutError):
                client.send(bytes(5 * MEGABYTE))
            highest = max(highest, server.resident_bytes())
        assert highest < server.baseline_bytes + budget + size
        close_all(clients)
        wait_for(lambda: server.open_files() <= server.baseline_files, "all are closed")
        server.check_well()


def test_large_frames_that_had_to_wait_for_memory_are_answered(loop: str) -> None:
    size = 4 * MEGABYTE
    settings = (f"queued.max.request.bytes={size}", f"socket.request.max.bytes={size}")
    with NetworkProbe(*settings, loop=loop) as server:
        clients = [server.client() for _ in range(6)]
        # The first one begins and takes all memory; the others must wait until it is answered.
        whole = echo(size - 100)
        clients[0].send(whole[:1000])
        for client in clients[1:]:
            client.send(echo(1000))
        clients[0].send(whole[1000:])
        for client, expected in zip(clients, [size - 100] + [1000] * 5, strict=True):
            _, response = client.read_response(SaslAuthenticateRequest, 1)
            assert isinstance(response, SaslAuthenticateResponse)
            assert len(response.auth_bytes) == expected
        close_all(clients)
        server.check_well()


def test_without_descriptors_nothing_spins_and_everyone_connected_is_served(loop: str) -> None:
    with NetworkProbe("socket.listen.backlog.size=100", loop=loop, files=40) as server:
        clients = [server.client() for _ in range(60)]
        server.process.wait_for_line(os.strerror(errno.EMFILE))
        before = server.cpu_seconds()
        began = time.monotonic()
        while time.monotonic() - began < 1:
            server.check_serves(server.bystander)
            time.sleep(0.05)
        assert server.cpu_seconds() - before < 0.3
        server.check_serves(clients[0])
        # Descriptors that become free go to those who waited.
        for client in clients[:-10]:
            client.close()
        server.check_serves(clients[-1])
        close_all(clients)
        server.check_well()
