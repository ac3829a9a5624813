"""Kafka's own tools on our groups: kafka-consumer-groups, and the formatters of the records."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.integration.group_party import Party
from tests.integration.group_tools import GROUPS, formatted, read_records, rows_of, tool
from tests.support.java import java_tool
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

VERSIONS = (KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT)

pytestmark = pytest.mark.needs("java")

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    with OdradekBroker(tmp_path_factory.mktemp("odradek")) as started:
        yield started


@pytest.fixture
def party(broker: OdradekBroker, fresh: Fresh) -> Iterator[Party]:
    with Party(broker.bootstrap, fresh("tools"), partitions=2) as made:
        yield made


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "c"})
    wanted = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_consumer_groups_lists_describes_resets_and_deletes(party: Party, version: str) -> None:
    party.send(20)
    commit(party.bootstrap, party.group, party.topic, 4, 6)

    def groups(*args: str) -> str:
        return tool(version, GROUPS, party.bootstrap, *args)

    of_group = ("--group", party.group)
    assert party.group in groups("--list").split()
    described = {row[2]: row[3:6] for row in rows_of(groups("--describe", *of_group), party.group)}
    assert described == {"0": ["4", "10", "6"], "1": ["6", "10", "4"]}
    state = rows_of(groups("--describe", "--state", *of_group), party.group)
    assert state[0][-2:] == ["Empty", "0"]
    reset = ("--reset-offsets", "--to-earliest", "--topic", party.topic, "--execute")
    groups(*reset, *of_group)
    assert party.committed() == {0: 0, 1: 0}
    groups("--delete-offsets", "--topic", party.topic, *of_group)
    assert party.committed() == {0: -1001, 1: -1001}
    commit(party.bootstrap, party.group, party.topic, 1, 1)
    groups("--delete", *of_group)
    assert party.group not in groups("--list").split()


@pytest.mark.parametrize("version", VERSIONS)
def test_consumer_groups_shows_members_and_refuses_to_delete_them(
    party: Party, version: str
) -> None:
    member = party.join("confluent")
    party.wait_shared([member], each=2)
    of_group = ("--group", party.group)
    shown = tool(
        version, GROUPS, party.bootstrap, "--describe", "--members", "--verbose", *of_group
    )
    assert "/127.0.0.1" in shown
    assert "(0,1)" in shown or f"{party.topic}:0,1" in shown
    states = tool(version, GROUPS, party.bootstrap, "--list", "--state", "stable")
    assert rows_of(states, party.group)[0][-1] == "Stable"
    refused = java_tool(
        version, GROUPS, "--bootstrap-server", party.bootstrap, "--delete", *of_group
    )
    assert "not empty" in (refused.stdout + refused.stderr).lower()


@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_formatters_print_our_records(party: Party, version: str) -> None:
    member = party.join("confluent")
    party.wait_shared([member], each=2)
    party.send(2)
    party.wait_all_read()
    member.leave()
    offsets = formatted(party, version, "OffsetsMessageFormatter")
    keys = [record["key"]["data"] for record in offsets]
    assert {"group": party.group, "topic": party.topic, "partition": 0} in keys
    assert offsets[0]["value"]["version"] == 3
    assert offsets[0]["value"]["data"]["offset"] == 1
    groups = formatted(party, version, "GroupMetadataMessageFormatter")
    assert [record["value"]["version"] for record in groups] == [3] * len(groups)
    assert groups[0]["value"]["data"]["generation"] == 1
    assert groups[0]["value"]["data"]["members"][0]["clientHost"] == "/127.0.0.1"
    assert groups[-1]["value"]["data"]["members"] == []


# Byte for byte --------------------------------------------------------------------------------


def raw_records(bootstrap: str, group: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values that tell of the group, with times made 0.

    In the order of the keys: of one commit, Kafka writes the partitions in no order at all.
    """
    found = [(key, without_times(key, value)) for key, value in read_records(bootstrap, group)]
    return sorted(found, key=lambda record: record[0])


def without_times(key: bytes, value: bytes | None) -> bytes | None:
    if value is None:
        return None
    if key[:2] == b"\x00\x01":
        return value[:-8] + bytes(8)
    # version, protocol type, generation, protocol (null), leader (null), then the time
    at = 2 + 2 + int.from_bytes(value[2:4], "big") + 4 + 2 + 2
    return value[:at] + bytes(8) + value[at + 8 :]


def write_some(bootstrap: str, group: str, topic: str) -> None:
    with Party(bootstrap, group, partitions=2) as party:
        assert party.topic == topic
        commit(bootstrap, group, topic, 4, 6)
        tombstone = ("--delete-offsets", "--topic", f"{topic}:1", "--group", group)
        tool(KAFKA_ON_ZOOKEEPER, GROUPS, bootstrap, *tombstone)
        party.group = group
        member = party.join("confluent")
        party.wait_shared([member], each=2)
        member.leave()


def test_our_records_are_kafkas_byte_for_byte(
    broker: OdradekBroker, kafka_on_zookeeper: KafkaBroker, fresh: Fresh
) -> None:
    group = fresh("bytes")
    for bootstrap in (broker.bootstrap, kafka_on_zookeeper.bootstrap):
        write_some(bootstrap, group, f"{group}-topic")
    ours = raw_records(broker.bootstrap, group)
    theirs = raw_records(kafka_on_zookeeper.bootstrap, group)
    # The generation with a member names it by a random id: everything else must be the same.
    assert [key for key, _ in ours] == [key for key, _ in theirs]
    for (_, our_value), (_, their_value) in zip(ours, theirs, strict=True):
        if our_value is None or b"rdkafka-" not in our_value:
            assert our_value == their_value
        else:
            assert their_value is not None
            assert len(our_value) == len(their_value)
