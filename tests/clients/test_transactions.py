"""Every client that knows transactions: they commit, abort, carry offsets, and fence."""

import pytest
from odradek.protocol.errors import Errors

from tests.clients.driver import Client, ClientError, Record, Transaction


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.ability("transactions")
def test_what_a_client_commits_is_read_and_what_it_aborts_is_not(
    client: Client, reference: Client, topic: str
) -> None:
    transactions = [
        Transaction((b"a", b"b")),
        Transaction((b"never",), commit=False),
        Transaction((b"c",)),
        Transaction((b"nor", b"this"), commit=False),
    ]
    client.transact(topic, topic, transactions)
    reference.produce(topic, [Record(b"end")])
    found = reference.consume(topic, 4, committed=True)
    assert values_of(found) == [b"a", b"b", b"c", b"end"]


@pytest.mark.ability("reads_committed")
def test_aborted_records_are_passed_over(client: Client, reference: Client, topic: str) -> None:
    reference.transact(
        topic, topic, [Transaction((b"a",)), Transaction((b"x", b"y"), commit=False)]
    )
    reference.produce(topic, [Record(b"end")])
    assert values_of(client.consume(topic, 2, committed=True)) == [b"a", b"end"]
    everything = values_of(client.consume(topic, 4))
    assert everything == [b"a", b"x", b"y", b"end"]


@pytest.mark.ability("transactions")
def test_a_transactional_id_is_used_again(client: Client, reference: Client, topic: str) -> None:
    for number in range(3):
        client.transact(topic, topic, [Transaction((b"%d" % number,))])
    assert values_of(reference.consume(topic, 3, committed=True)) == [b"0", b"1", b"2"]


@pytest.mark.ability("offsets_in_transactions")
def test_offsets_of_a_group_travel_with_the_transaction(
    client: Client, reference: Client, topic: str
) -> None:
    group = f"{topic}-group"
    client.transact(
        topic,
        topic,
        [
            Transaction((b"a", b"b"), group=group, offset=1),
            Transaction((b"x",), commit=False, group=group, offset=5),
        ],
    )
    (next_one,) = reference.consume_in_group(topic, group, 1)
    assert next_one.value == b"b"


@pytest.mark.ability("transactions")
def test_a_producer_is_fenced_by_the_next_one_of_its_transactional_id(
    client: Client, reference: Client, topic: str
) -> None:
    with pytest.raises(ClientError) as fenced:
        client.be_fenced(topic, topic)
    assert fenced.value.error in (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH), fenced
    reference.produce(topic, [Record(b"end")])
    assert values_of(reference.consume(topic, 1, committed=True)) == [b"end"]
