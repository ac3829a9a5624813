"""Large messages: close to the limit they pass, over it they are refused by name."""

import random

import pytest
from odradek.protocol.errors import Errors

from tests.clients.driver import Client, ClientError, Record

LARGE = random.Random(9).randbytes(450_000).hex().encode()  # 900 KB of text, no codec helps much


@pytest.mark.ability("produce", "consume")
def test_a_message_of_900_kilobytes_passes(client: Client, topic: str) -> None:
    client.produce(topic, [Record(LARGE)])
    (received,) = client.consume(topic, 1)
    assert received.value == LARGE


@pytest.mark.ability("too_large")
def test_a_message_over_the_limit_of_its_topic_is_refused(
    client: Client, reference: Client, new_name: str
) -> None:
    reference.create_topic(new_name, configs={"max.message.bytes": "10000"})
    with pytest.raises(ClientError) as refused:
        client.produce(new_name, [Record(LARGE)])
    assert refused.value.error is Errors.MESSAGE_TOO_LARGE
    client.produce(new_name, [Record(b"a small one")])
    (received,) = client.consume(new_name, 1)
    assert received.value == b"a small one"


@pytest.mark.ability("produce", "consume")
def test_a_topic_may_allow_larger_messages(
    client: Client, reference: Client, new_name: str
) -> None:
    reference.create_topic(new_name, configs={"max.message.bytes": "5000000"})
    client.produce(new_name, [Record(LARGE * 3)])
    (received,) = client.consume(new_name, 1)
    assert received.value == LARGE * 3
