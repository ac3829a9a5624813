"""Records go in and come out: keys, headers, nulls, order, acks, producers that never repeat."""

import pytest

from tests.clients.driver import Client, Record

HELLO = Record(b"hello", key=b"greeting")


def contents(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


@pytest.mark.ability("produce", "consume")
def test_records_come_back_in_order_with_consecutive_offsets(client: Client, topic: str) -> None:
    sent = [Record(f"value {number}".encode(), key=b"%d" % number) for number in range(10)]
    client.produce(topic, sent)
    received = client.consume(topic, 10)
    assert contents(received) == contents(sent)
    assert [record.offset for record in received] == list(range(10))


@pytest.mark.ability("reports_offsets")
def test_a_producer_learns_the_offsets_of_its_records(client: Client, topic: str) -> None:
    assert client.produce(topic, [HELLO, HELLO]) == [0, 1]
    assert client.produce(topic, [HELLO]) == [2]


@pytest.mark.ability("consume")
def test_a_reader_starts_at_any_offset(client: Client, reference: Client, topic: str) -> None:
    reference.produce(topic, [Record(b"%d" % number) for number in range(5)])
    received = client.consume(topic, 2, offset=3)
    assert [(record.offset, record.value) for record in received] == [(3, b"3"), (4, b"4")]


@pytest.mark.ability("headers")
def test_headers_keep_their_order_their_doubles_and_their_bytes(client: Client, topic: str) -> None:
    headers = (("trace", b"1"), ("trace", b"2"), ("language", "größer".encode()))
    client.produce(topic, [Record(b"with headers", headers=headers)])
    (received,) = client.consume(topic, 1)
    assert received.headers == headers


@pytest.mark.ability("null_values")
def test_a_value_may_be_null(client: Client, topic: str) -> None:
    client.produce(topic, [Record(None, key=b"deleted")])
    (received,) = client.consume(topic, 1)
    assert (received.key, received.value) == (b"deleted", None)


@pytest.mark.ability("binary")
def test_keys_and_values_are_bytes_and_not_text(client: Client, topic: str) -> None:
    everything = bytes(range(256))
    client.produce(topic, [Record(everything, key=everything[::-1])])
    (received,) = client.consume(topic, 1)
    assert (received.key, received.value) == (everything[::-1], everything)


@pytest.mark.ability("empty_values")
def test_empty_is_not_null(client: Client, topic: str) -> None:
    client.produce(topic, [Record(b"", key=b"")])
    (received,) = client.consume(topic, 1)
    assert (received.key, received.value) == (b"", b"")


@pytest.mark.ability("produce", "consume")
def test_partitions_are_apart(client: Client, reference: Client, new_name: str) -> None:
    reference.create_topic(new_name, partitions=3)
    for partition in range(3):
        client.produce(new_name, [Record(b"%d" % partition)], partition=partition)
    for partition in range(3):
        (received,) = client.consume(new_name, 1, partition=partition)
        assert (received.offset, received.value) == (0, b"%d" % partition)


@pytest.mark.ability("produce", "acks")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_leads_to_a_stored_record(
    client: Client, reference: Client, topic: str, acks: str
) -> None:
    client.produce(topic, [HELLO], acks=acks)
    assert contents(reference.consume(topic, 1)) == [(b"greeting", b"hello")]


@pytest.mark.ability("idempotent")
def test_an_idempotent_producer_writes_each_record_once(client: Client, topic: str) -> None:
    client.produce(topic, [Record(b"%d" % number) for number in range(20)], idempotent=True)
    received = client.consume(topic, 20)
    assert [record.value for record in received] == [b"%d" % number for number in range(20)]
    assert client.offset_at(topic, -1) == 20


@pytest.mark.ability("auto_create")
def test_a_producer_may_write_to_a_topic_that_is_not_there_yet(
    client: Client, reference: Client, new_name: str
) -> None:
    client.produce(new_name, [HELLO])
    assert contents(reference.consume(new_name, 1)) == [(b"greeting", b"hello")]


@pytest.mark.ability("produce", "consume")
def test_a_thousand_records_of_one_job_all_arrive(client: Client, topic: str) -> None:
    sent = [Record(b"%04d" % number + bytes(200)) for number in range(1000)]
    client.produce(topic, sent)
    received = client.consume(topic, 1000)
    assert [record.value for record in received] == [record.value for record in sent]
