"""How much a real socket holds of what its peer has not taken yet."""

import socket
from collections.abc import Iterator

import pytest
from odradek.broker.network.transport import SocketTransport

LITTLE = 100 * 1024


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        accepted, _ = listening.accept()
        with accepted:
            yield accepted


def held_bytes(connected: socket.socket) -> int:
    return connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def asked_for(connected: socket.socket, size: int) -> int:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    return held_bytes(connected)


def test_a_socket_holds_little_while_it_should_and_then_as_much_as_before(
    connected: socket.socket,
) -> None:
    little = asked_for(connected, LITTLE)
    much = asked_for(connected, LITTLE * 2)
    assert much > little
    transport = SocketTransport(connected)
    for _ in range(2):
        transport.hold_little()
        transport.hold_little()
        assert held_bytes(connected) == little
        transport.hold_as_before()
        assert held_bytes(connected) == much


def test_a_socket_that_was_given_less_keeps_that(connected: socket.socket) -> None:
    less = asked_for(connected, LITTLE // 2)
    transport = SocketTransport(connected)
    transport.hold_little()
    assert held_bytes(connected) == less
    transport.hold_as_before()
    assert held_bytes(connected) == less


def test_a_socket_of_the_systems_size_holds_more_than_a_little_again(
    connected: socket.socket,
) -> None:
    before = held_bytes(connected)
    transport = SocketTransport(connected)
    transport.hold_little()
    little = held_bytes(connected)
    transport.hold_as_before()
    assert little < held_bytes(connected) <= before
