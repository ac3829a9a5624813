"""Endpoints as they are written."""

import pytest
from odradek.protocol.endpoints import Endpoint, SecurityProtocol, parse_endpoint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", ("PLAINTEXT", "", 9092)),
        (" internal://broker-1.example:0 ", ("INTERNAL", "broker-1.example", 0)),
        ("SSL://[::1]:9093", ("SSL", "::1", 9093)),
        ("A_B-C://10.0.0.1:1", ("A_B-C", "10.0.0.1", 1)),
    ],
)
def test_a_listener_is_name_host_and_port(text: str, expected: tuple[str, str, int]) -> None:
    assert parse_endpoint(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "localhost:9092", "A://host", "A://host:port", "://h:1", "A://::1:9092", "A://h:1/"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not of the form NAME://host:port"):
        parse_endpoint(text)


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_must_be_a_port(port: str) -> None:
    with pytest.raises(ValueError, match="port outside 0 to 65535"):
        parse_endpoint(f"A://host:{port}")


@pytest.mark.parametrize("text", ["A://host:1", "A://[fe80::1]:1", "A://:0"])
def test_an_endpoint_writes_itself_as_it_is_read(text: str) -> None:
    name, host, port = parse_endpoint(text)
    assert str(Endpoint(name, SecurityProtocol.PLAINTEXT, host, port)) == text


def test_protocols_say_what_they_use() -> None:
    assert [p.name for p in SecurityProtocol if p.uses_tls] == ["SSL", "SASL_SSL"]
    assert [p.name for p in SecurityProtocol if p.uses_sasl] == ["SASL_PLAINTEXT", "SASL_SSL"]
