"""SASL exchanges, by the examples of RFC 5802 and RFC 7677, and what makes a client refuse."""

import pytest
from odradek.client.security import plain_exchange, scram_exchange
from odradek.protocol.errors import KafkaError

SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_plain_sends_user_and_password_in_one_token() -> None:
    assert list(plain_exchange("ann", "secret")) == [b"\0ann\0secret"]


def test_scram_proves_the_password_and_checks_the_server() -> None:
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_scram_refuses_a_server_that_does_not_know_the_password() -> None:
    exchange = scram_exchange("SCRAM-SHA-256", "user", "other", "rOprNGfwEbeRWgbNEkqO")
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(KafkaError, match="could not prove"):
        exchange.send(SERVER_FINAL)


@pytest.mark.parametrize("first", [b"r=other,s=AA==,i=4096", b"r=nonce1,s=AA==,i=10", b"nothing"])
def test_scram_refuses_a_foreign_nonce_or_too_few_iterations(first: bytes) -> None:
    exchange = scram_exchange("SCRAM-SHA-512", "user", "pencil", "nonce")
    next(exchange)
    with pytest.raises(KafkaError, match="not acceptable"):
        exchange.send(first)


def test_names_are_escaped() -> None:
    assert next(scram_exchange("SCRAM-SHA-512", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"
