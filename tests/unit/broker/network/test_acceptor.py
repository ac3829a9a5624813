"""What an acceptor makes of a real socket before others get it."""

import asyncio
import logging
import socket

import pytest
from odradek.broker.network import acceptor
from odradek.broker.network.acceptor import Acceptor, SocketOptions
from odradek.broker.network.complaints import Complaints
from odradek.broker.network.limits import ConnectionCaps, ConnectionLimits
from odradek.protocol.clock import SystemClock
from odradek.protocol.endpoints import Endpoint, SecurityProtocol

HERE, ALSO_HERE = "127.0.0.1", "127.0.0.2"
DEADLINE_SECONDS = 30

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="the congestion control is chosen on Linux only"
)


def congestion_control(one: socket.socket) -> bytes:
    name = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0")


async def accepted_from(host: str) -> socket.socket:
    loop, clock = asyncio.get_running_loop(), SystemClock()
    accepted: asyncio.Future[socket.socket] = loop.create_future()
    accepting = Acceptor(
        Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, HERE, 0),
        loop=loop,
        clock=clock,
        options=SocketOptions(backlog=1, send_buffer_bytes=-1, receive_buffer_bytes=-1),
        limits=ConnectionLimits(ConnectionCaps(), clock.monotonic()),
        complaints=Complaints(logging.getLogger(__name__), clock),
        adopt=lambda connected, peer: accepted.set_result(connected),
        make_socket=socket.socket,
    )
    accepting.open()
    accepting.start()
    try:
        port = accepting.addresses[0].port
        with socket.create_connection((HERE, port), source_address=(host, 0)):
            return await asyncio.wait_for(accepted, DEADLINE_SECONDS)
    finally:
        accepting.close()


def test_a_connection_from_the_same_address_is_not_paced() -> None:
    with asyncio.run(accepted_from(HERE)) as connected:
        assert congestion_control(connected) == b"reno"


def test_where_that_may_not_be_chosen_the_connection_is_as_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "_UNPACED", b"no such control")
    with socket.socket() as untouched, asyncio.run(accepted_from(HERE)) as connected:
        assert congestion_control(connected) == congestion_control(untouched)


def test_any_other_connection_is_left_to_the_system() -> None:
    with socket.socket() as untouched, asyncio.run(accepted_from(ALSO_HERE)) as connected:
        assert congestion_control(connected) == congestion_control(untouched)
