"""What clients make of each kind of fault: they try again, or give up with the error, as they say.

The broker, the topic and the group are the fixtures' that come with Odradek: these tests are also
users of the plugin.
"""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from odradek.protocol.errors import Errors
from odradek.testing.shared_broker import SharedBroker, SharedFaults

from tests.integration.fault_clients import CLIENTS, Client, Own, Refused
from tests.support.records import read_all


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen


@pytest.fixture
def where(odradek_broker: SharedBroker) -> str:
    return odradek_broker.bootstrap_servers


def written(where: str, topic: str) -> int:
    """How many records a topic has: as many as the offset of the next."""
    return Own().produce(where, topic)


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"])
def test_a_producer_tries_again_after_a_passing_error(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults, error: str
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, error=error, times=2)
    assert client.produce(where, kafka_topic) == 0
    assert rule.hits == 2
    assert written(where, kafka_topic) == 1


@pytest.mark.parametrize("error", [Errors.MESSAGE_TOO_LARGE, Errors.TOPIC_AUTHORIZATION_FAILED])
def test_a_producer_gives_up_on_a_final_error(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults, error: Errors
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, error=error.name)
    with pytest.raises(Refused) as refused:
        client.produce(where, kafka_topic, idempotent=False)
    assert refused.value.code == error
    assert rule.hits == 1
    kafka_faults.clear()
    assert written(where, kafka_topic) == 0


def test_metadata_is_asked_again_until_there_is_a_leader(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(
        api="Metadata", topic=kafka_topic, error="LEADER_NOT_AVAILABLE", times=2
    )
    assert client.produce(where, kafka_topic) == 0
    assert rule.hits == 2


def test_a_consumer_fetches_again_after_a_passing_error(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    for _ in range(3):
        client.produce(where, kafka_topic)
    rule = kafka_faults.add(api="Fetch", topic=kafka_topic, error="NOT_LEADER_OR_FOLLOWER", times=3)
    assert client.consume(where, kafka_topic, 3) == [b"v"] * 3
    assert rule.hits == 3


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
        ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_member_asks_its_coordinator_again(
    client: Client,
    where: str,
    kafka_topic: str,
    kafka_group: str,
    kafka_faults: SharedFaults,
    api: str,
    error: str,
) -> None:
    client.produce(where, kafka_topic)
    rule = kafka_faults.add(api=api, group=kafka_group, error=error, times=2)
    client.join_and_commit(where, kafka_topic, kafka_group)
    assert rule.hits == 2


def test_a_commit_that_is_refused_for_good_is_told(
    client: Client, where: str, kafka_topic: str, kafka_group: str, kafka_faults: SharedFaults
) -> None:
    client.produce(where, kafka_topic)
    kafka_faults.add(api="OffsetCommit", group=kafka_group, error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(Refused) as refused:
        client.join_and_commit(where, kafka_topic, kafka_group)
    assert refused.value.code == Errors.GROUP_AUTHORIZATION_FAILED


# Connections --------------------------------------------------------------------------------


def test_a_producer_comes_back_when_its_connection_breaks_before_the_work(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, drop="connection", times=2)
    assert client.produce(where, kafka_topic, idempotent=False) == 0
    assert rule.hits == 2
    assert written(where, kafka_topic) == 1


def test_a_record_whose_answer_is_lost_is_written_once_by_an_idempotent_producer(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, drop="answer", times=2)
    assert client.produce(where, kafka_topic) == 0
    assert rule.hits == 2
    assert written(where, kafka_topic) == 1


def test_a_record_whose_answer_is_lost_is_written_twice_by_any_other_producer(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    kafka_faults.add(api="Produce", topic=kafka_topic, drop="answer", times=1)
    assert client.produce(where, kafka_topic, idempotent=False) == 1
    assert written(where, kafka_topic) == 2


def test_a_record_whose_answer_is_late_is_written_once_by_an_idempotent_producer(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, delay_ms=60_000, times=1)
    assert client.produce(where, kafka_topic, request_timeout_ms=1000) == 0
    assert rule.hits == 1
    assert written(where, kafka_topic) == 1


def test_a_consumer_comes_back_when_its_connection_breaks(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    for _ in range(3):
        client.produce(where, kafka_topic)
    rule = kafka_faults.add(api="Fetch", topic=kafka_topic, drop="connection", times=2)
    assert client.consume(where, kafka_topic, 3) == [b"v"] * 3
    assert rule.hits == 2


def test_a_member_comes_back_when_its_connection_breaks(
    client: Client, where: str, kafka_topic: str, kafka_group: str, kafka_faults: SharedFaults
) -> None:
    client.produce(where, kafka_topic)
    rule = kafka_faults.add(api="JoinGroup", group=kafka_group, drop="connection", times=1)
    client.join_and_commit(where, kafka_topic, kafka_group)
    assert rule.hits == 1


# Whom ---------------------------------------------------------------------------------------


def test_a_fault_of_one_client_is_not_met_by_others(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(
        api="Produce", topic=kafka_topic, client_id=client.name, error="MESSAGE_TOO_LARGE"
    )
    for other in CLIENTS:
        if other is client:
            with pytest.raises(Refused):
                other.produce(where, kafka_topic)
        else:
            other.produce(where, kafka_topic)
    assert rule.hits == 1


def test_a_fault_of_another_partition_is_not_met(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    another = kafka_faults.add(
        api="Produce", topic=kafka_topic, partition=1, error="MESSAGE_TOO_LARGE"
    )
    assert client.produce(where, kafka_topic) == 0
    assert another.hits == 0
    own = kafka_faults.add(api="Produce", topic=kafka_topic, partition=0, error="MESSAGE_TOO_LARGE")
    with pytest.raises(Refused):
        client.produce(where, kafka_topic)
    assert own.hits == 1


# When ---------------------------------------------------------------------------------------


def test_a_producer_waits_for_an_answer_that_is_a_little_late(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, delay_ms=300)
    began = time.monotonic()
    assert client.produce(where, kafka_topic) == 0
    assert time.monotonic() - began >= 0.3
    assert rule.hits == 1


def test_only_the_nth_of_a_producers_requests_fails(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(api="Produce", topic=kafka_topic, nth=2, error="MESSAGE_TOO_LARGE")
    assert client.produce(where, kafka_topic, idempotent=False) == 0
    with pytest.raises(Refused):
        client.produce(where, kafka_topic, idempotent=False)
    assert client.produce(where, kafka_topic, idempotent=False) == 1
    assert rule.hits == 1


def test_a_producer_gets_through_errors_that_come_by_chance(
    client: Client, where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    rule = kafka_faults.add(
        api="Produce", topic=kafka_topic, probability=0.5, seed=1, error="NOT_ENOUGH_REPLICAS"
    )
    assert [client.produce(where, kafka_topic) for _ in range(4)] == [0, 1, 2, 3]
    assert rule.hits > 0
    assert rule.seen == rule.hits + 4


# Transactions -------------------------------------------------------------------------------


def test_nothing_is_lost_when_the_answer_to_a_batch_is_and_its_transaction_is_aborted(
    where: str, kafka_topic: str, kafka_faults: SharedFaults
) -> None:
    """librdkafka gives the sequence of the batch to the next one. Were that taken for a
    repetition, it would be told that its records are written, at offsets that are aborted."""
    broken: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": where,
            "transactional.id": kafka_topic,
            "retry.backoff.ms": 5000,
            "retry.backoff.max.ms": 5000,
            "error_cb": broken.append,
            "log_level": 2,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    kafka_faults.add(api="Produce", topic=kafka_topic, drop="answer", times=1)
    producer.produce(kafka_topic, b"1")
    while not broken:
        producer.poll(0.1)
    producer.abort_transaction(30)

    def write_again() -> None:
        producer.begin_transaction()
        producer.produce(kafka_topic, b"2")
        producer.commit_transaction(30)

    with pytest.raises(KafkaException) as refused:
        write_again()
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_PRODUCER_ID
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(30)
    write_again()
    assert read_all(where, kafka_topic, 1) == [2]
