"""Every client in a consumer group: it joins, reads, commits, leaves, and goes on from there."""

import pytest

from tests.clients.driver import Client, Record


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.ability("groups")
def test_a_group_goes_on_where_it_left_off(client: Client, reference: Client, topic: str) -> None:
    group = f"{topic}-{client.name}"
    reference.produce(topic, [Record(b"a"), Record(b"b"), Record(b"c")])
    first = client.consume_in_group(topic, group, 3)
    assert values_of(first) == [b"a", b"b", b"c"]
    reference.produce(topic, [Record(b"d"), Record(b"e")])
    second = client.consume_in_group(topic, group, 2)
    assert values_of(second) == [b"d", b"e"]
    assert [record.offset for record in second] == [3, 4]


@pytest.mark.ability("groups")
def test_another_client_takes_over_a_groups_offsets(
    client: Client, reference: Client, topic: str
) -> None:
    group = f"{topic}-{client.name}"
    reference.produce(topic, [Record(b"a"), Record(b"b")])
    assert values_of(client.consume_in_group(topic, group, 2)) == [b"a", b"b"]
    reference.produce(topic, [Record(b"c")])
    assert values_of(reference.consume_in_group(topic, group, 1)) == [b"c"]
