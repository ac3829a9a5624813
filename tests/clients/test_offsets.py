"""Where a log begins and ends, as clients see it, and reading outside of it."""

import pytest
from odradek.protocol.errors import Errors

from tests.clients.driver import EARLIEST, LATEST, Client, ClientError, Record


def numbers(count: int) -> list[Record]:
    return [Record(b"%d" % number) for number in range(count)]


@pytest.mark.ability("offset_at")
def test_an_empty_partition_begins_and_ends_at_zero(client: Client, topic: str) -> None:
    assert client.offset_at(topic, EARLIEST) == 0
    assert client.offset_at(topic, LATEST) == 0


@pytest.mark.ability("offset_at")
def test_the_end_is_one_past_the_last_record(client: Client, reference: Client, topic: str) -> None:
    reference.produce(topic, numbers(3))
    assert client.offset_at(topic, EARLIEST) == 0
    assert client.offset_at(topic, LATEST) == 3


@pytest.mark.ability("consume", "offset_at")
def test_deleted_records_move_the_beginning(client: Client, reference: Client, topic: str) -> None:
    reference.produce(topic, numbers(6))
    assert reference.delete_records(topic, before=4) == 4
    assert client.offset_at(topic, EARLIEST) == 4
    received = client.consume(topic, 2, offset=EARLIEST)
    assert [(record.offset, record.value) for record in received] == [(4, b"4"), (5, b"5")]


@pytest.mark.ability("out_of_range")
def test_reading_past_the_end_is_refused(client: Client, reference: Client, topic: str) -> None:
    reference.produce(topic, numbers(3))
    with pytest.raises(ClientError) as refused:
        client.consume(topic, 1, offset=100)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE


@pytest.mark.ability("below_start")
def test_reading_what_was_deleted_is_refused(client: Client, reference: Client, topic: str) -> None:
    reference.produce(topic, numbers(6))
    reference.delete_records(topic, before=4)
    with pytest.raises(ClientError) as refused:
        client.consume(topic, 1, offset=1)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE
