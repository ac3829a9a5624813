"""Topics through every client that can make, see, widen and delete them, and the refusals."""

import time

import pytest
from odradek.protocol.errors import Errors

from tests.clients.driver import Client, ClientError, Record


def refusal(action: object, *arguments: object, **named: object) -> Errors | None:
    with pytest.raises(ClientError) as refused:
        action(*arguments, **named)  # type: ignore[operator]
    return refused.value.error


def create_when_free(client: Client, topic: str) -> None:
    """Deletion goes on after its answer: Kafka refuses the name until it is done."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return client.create_topic(topic)
        except ClientError as refused:
            if refused.error is not Errors.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                raise


@pytest.mark.ability("create_topic", "list_topics", "describe_topic")
def test_a_new_topic_is_listed_and_described(client: Client, new_name: str) -> None:
    client.create_topic(new_name, partitions=3)
    assert new_name in client.list_topics()
    partitions = sorted(client.describe_topic(new_name), key=lambda partition: partition["id"])
    assert [partition["id"] for partition in partitions] == [0, 1, 2]
    for partition in partitions:
        assert partition["replicas"] == partition["isr"] == [partition["leader"]]


@pytest.mark.ability("list_topics", "describe_topic")
def test_topics_of_others_are_seen(client: Client, reference: Client, new_name: str) -> None:
    reference.create_topic(new_name, partitions=2)
    assert new_name in client.list_topics()
    assert len(client.describe_topic(new_name)) == 2


@pytest.mark.ability("create_topic", "describe_configs")
def test_a_topic_is_created_with_configs(client: Client, new_name: str) -> None:
    client.create_topic(new_name, configs={"retention.ms": "86400000", "cleanup.policy": "compact"})
    configs = client.describe_configs("topic", new_name)
    assert configs["retention.ms"] == {"value": "86400000", "default": False}
    assert configs["cleanup.policy"] == {"value": "compact", "default": False}
    assert configs["max.message.bytes"] == {"value": "1048588", "default": True}


@pytest.mark.ability("create_topic", "validate_only")
def test_a_creation_that_is_only_validated_makes_nothing(client: Client, new_name: str) -> None:
    client.create_topic(new_name, validate_only=True)
    assert new_name not in client.list_topics()


@pytest.mark.ability("create_partitions")
def test_a_topic_gets_more_partitions(client: Client, reference: Client, topic: str) -> None:
    client.create_partitions(topic, 4)
    assert len(reference.describe_topic(topic)) == 4
    reference.produce(topic, [Record(b"in the new one")], partition=3)
    (received,) = client.consume(topic, 1, partition=3)
    assert received.value == b"in the new one"


@pytest.mark.ability("create_partitions")
def test_a_topic_never_gets_fewer_partitions(
    client: Client, reference: Client, new_name: str
) -> None:
    reference.create_topic(new_name, partitions=3)
    assert refusal(client.create_partitions, new_name, 2) is Errors.INVALID_PARTITIONS


@pytest.mark.ability("delete_topic", "list_topics")
def test_a_deleted_topic_is_gone(client: Client, topic: str) -> None:
    client.delete_topic(topic)
    assert topic not in client.list_topics()


@pytest.mark.ability("create_topic", "delete_topic")
def test_a_deleted_name_can_be_used_again_and_is_empty(
    client: Client, reference: Client, topic: str
) -> None:
    reference.produce(topic, [Record(b"old"), Record(b"older")])
    client.delete_topic(topic)
    create_when_free(client, topic)
    assert reference.offset_at(topic, -1) == 0


@pytest.mark.ability("create_topic")
def test_a_topic_is_created_only_once(client: Client, topic: str) -> None:
    assert refusal(client.create_topic, topic) is Errors.TOPIC_ALREADY_EXISTS


@pytest.mark.ability("create_topic")
@pytest.mark.parametrize("name", ["has space", "x" * 250, "naïve"])
def test_a_name_must_be_legal(client: Client, name: str) -> None:
    assert refusal(client.create_topic, name) is Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.ability("create_topic")
def test_a_topic_needs_a_partition(client: Client, new_name: str) -> None:
    assert refusal(client.create_topic, new_name, partitions=0) is Errors.INVALID_PARTITIONS


@pytest.mark.ability("create_topic")
@pytest.mark.parametrize(
    "configs", [{"retention.ms": "soon"}, {"no.such.config": "1"}], ids=["bad value", "unknown"]
)
def test_a_bad_config_makes_no_topic(
    client: Client, reference: Client, new_name: str, configs: dict[str, str]
) -> None:
    assert refusal(client.create_topic, new_name, configs=configs) is Errors.INVALID_CONFIG
    assert new_name not in reference.list_topics()


@pytest.mark.ability("delete_topic")
def test_deleting_an_unknown_topic_is_refused(client: Client, new_name: str) -> None:
    assert refusal(client.delete_topic, new_name) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.ability("describe_topic", "describe_unknown")
def test_describing_an_unknown_topic_is_refused(client: Client, new_name: str) -> None:
    assert refusal(client.describe_topic, new_name) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.ability("consume_unknown")
def test_reading_an_unknown_topic_is_refused(client: Client, new_name: str) -> None:
    assert refusal(client.consume, new_name, 1) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.ability("delete_records")
def test_records_before_an_offset_are_deleted(
    client: Client, reference: Client, topic: str
) -> None:
    reference.produce(topic, [Record(b"%d" % number) for number in range(5)])
    assert client.delete_records(topic, before=3) == 3
    assert reference.offset_at(topic, -2) == 3


@pytest.mark.ability("delete_records", "delete_to_the_end")
def test_all_records_are_deleted_up_to_the_end(
    client: Client, reference: Client, topic: str
) -> None:
    reference.produce(topic, [Record(b"%d" % number) for number in range(5)])
    assert client.delete_records(topic, before=-1) == 5


@pytest.mark.ability("delete_records")
def test_records_that_are_not_there_cannot_be_deleted(
    client: Client, reference: Client, topic: str
) -> None:
    reference.produce(topic, [Record(b"only one")])
    assert refusal(client.delete_records, topic, 7) is Errors.OFFSET_OUT_OF_RANGE
