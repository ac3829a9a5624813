"""Listeners, as configured and as advertised."""

import pytest
from odradek.broker.listeners import Listeners, read_listeners
from odradek.broker.settings.network import ListenerSettings
from odradek.protocol.endpoints import Endpoint, SecurityProtocol
from odradek.protocol.settings import SettingsError


def read(**texts: str) -> Listeners:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    return read_listeners(ListenerSettings(ListenerSettings.table.parse(named)))


def read_named(**texts: str) -> Listeners:
    return read(listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL", **texts)


def problem(**texts: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(**texts)
    return caught.value.problems[0]


def test_one_plain_listener_is_the_default() -> None:
    listeners = read()
    assert listeners.bound == (Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 9092),)
    assert listeners.advertised == listeners.bound
    assert (listeners.inter_broker, listeners.control_plane) == ("PLAINTEXT", "PLAINTEXT")


def test_listeners_have_names_and_the_map_gives_their_protocol() -> None:
    listeners = read_named(
        listeners="inside://:19092, OUTSIDE://0.0.0.0:9092",
        advertised_listeners="INSIDE://b1:19092,OUTSIDE://kafka.example:443",
        inter_broker_listener_name="inside",
    )
    assert [e.security.name for e in listeners.bound] == ["PLAINTEXT", "SASL_SSL"]
    assert [str(e) for e in listeners.advertised] == [
        "INSIDE://b1:19092",
        "OUTSIDE://kafka.example:443",
    ]
    assert listeners.inter_broker == "INSIDE"


def test_a_renamed_listener_serves_brokers_by_its_protocol() -> None:
    listeners = read_named(listeners="OUTSIDE://:2,INSIDE://:1")
    assert listeners.inter_broker == "INSIDE"


def test_what_is_advertised_is_filled_in_once_the_sockets_are_open() -> None:
    listeners = read(listeners="PLAINTEXT://:0,SSL://10.0.0.1:9093")
    advertised = listeners.advertised_at("box", {"PLAINTEXT": 41234, "SSL": 9093})
    assert [str(e) for e in advertised] == ["PLAINTEXT://box:41234", "SSL://10.0.0.1:9093"]


def test_listeners_of_kraft_controllers_are_not_opened() -> None:
    listeners = read(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093", controller_listener_names="CONTROLLER"
    )
    assert [e.listener for e in listeners.bound] == ["PLAINTEXT"]


def test_one_port_may_serve_both_families_of_addresses() -> None:
    listeners = read(listeners="PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092")
    assert len(listeners.bound) == 2


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"listeners": "PLAINTEXT:9092"}, "listeners: 'PLAINTEXT:9092' is not of the form"),
        ({"listeners": " , "}, "listeners must name at least one listener"),
        ({"listeners": "INSIDE://:1"}, "listeners: listener.security.protocol.map does not name"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners names PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "listeners: port 1 is used twice"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "PLAINTEXT://0.0.0.0:1 cannot be advertised"),
        ({"advertised_listeners": "SSL://a:1"}, "advertised.listeners: SSL is not in listeners"),
        ({"advertised_listeners": "PLAINTEXT://a:x"}, "advertised.listeners: 'PLAINTEXT://a:x'"),
        ({"listener_security_protocol_map": "A"}, "listener.security.protocol.map: 'A' is not"),
        ({"listener_security_protocol_map": "A:TLS"}, "listener.security.protocol.map: 'TLS' is"),
        ({"listener_security_protocol_map": "A:SSL,a:SSL"}, "listener.security.protocol.map names"),
        ({"inter_broker_listener_name": "SSL"}, "The listener between brokers, SSL, is not adver"),
        ({"security_inter_broker_protocol": "SSL"}, "The listener between brokers, SSL, is not"),
        (
            {"security_inter_broker_protocol": "SSL", "inter_broker_listener_name": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        ({"control_plane_listener_name": "SSL"}, "control.plane.listener.name: SSL is not in"),
        ({"control_plane_listener_name": "PLAINTEXT"}, "control.plane.listener.name and the"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(texts: dict[str, str], expected: str) -> None:
    assert problem(**texts).startswith(expected)


def test_a_control_plane_of_its_own() -> None:
    listeners = read(listeners="PLAINTEXT://:1,SSL://:2", control_plane_listener_name="SSL")
    assert (listeners.inter_broker, listeners.control_plane) == ("PLAINTEXT", "SSL")
