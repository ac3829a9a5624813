"""Kafka's own tools on our transactions: kafka-transactions, the formatter, and DumpLogSegments."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.types import TopicPartition

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.behaviours.txn_asking import Producer
from tests.support.java import java_tool
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP = "kafka.tools.DumpLogSegments"
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
VERSIONS = (KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT)
STATE_TOPIC = "__transaction_state"

pytestmark = pytest.mark.needs("java")

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    """It does not verify transactions, as brokers before 3.6 did not: they can be made to hang."""
    overrides = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": 1,
        "offsets.topic.num.partitions": 4,
    }
    with OdradekBroker(tmp_path_factory.mktemp("odradek"), overrides=overrides) as started:
        yield started


@pytest.fixture
def topic(broker: OdradekBroker, fresh: Fresh) -> str:
    name = fresh("topic")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def tool(version: str, main_class: str, *args: str | Path) -> str:
    done = java_tool(version, main_class, *args)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def rows_of(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


@pytest.mark.parametrize("version", VERSIONS)
def test_transactions_are_listed_and_described(
    broker: OdradekBroker, topic: str, fresh: Fresh, version: str
) -> None:
    def transactions(*args: str) -> str:
        return tool(version, TRANSACTIONS, "--bootstrap-server", broker.bootstrap, *args)

    name = fresh("transactional")
    with Producer(broker.port, name) as producer:
        producer.init().write(topic, b"a")
        listed = {row[0]: row[1:] for row in rows_of(transactions("list"))}
        assert listed[name][1:] == [str(producer.id), "Ongoing"]
        (row,) = rows_of(transactions("describe", "--transactional-id", name))
        assert row[1:5] == [name, str(producer.id), "0", "Ongoing"]
        assert row[-1] == f"{topic}-0"
        (writer,) = rows_of(
            transactions("describe-producers", "--topic", topic, "--partition", "0")
        )
        assert writer[:2] == [str(producer.id), "0"]
        assert writer[-1] == "0"
        producer.end(commit=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hanging_transaction_is_found_and_aborted(
    broker: OdradekBroker, topic: str, fresh: Fresh, version: str
) -> None:
    def transactions(*args: str) -> str:
        return tool(version, TRANSACTIONS, "--bootstrap-server", broker.bootstrap, *args)

    with Producer(broker.port, fresh("transactional")) as producer:
        # It never said that the partition is part of its transaction, so nobody will end it there.
        assert producer.init().produce(topic, b"hangs").error_code == 0
        looking = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
        (found,) = rows_of(transactions(*looking))
        assert found[:2] == [topic, "0"]
        assert str(producer.id) in found
        transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert rows_of(transactions(*looking)) == []


def documents(text: str) -> Iterator[Any]:
    """JSON documents without anything between."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_formatter_prints_our_records(
    broker: OdradekBroker, topic: str, fresh: Fresh, version: str
) -> None:
    name = fresh("transactional")
    with Producer(broker.port, name) as producer:
        producer.init().write(topic, b"a")
        producer.end(commit=True)
        producer.wait_for_state("CompleteCommit")
    printed = tool(
        version,
        CONSOLE,
        *("--bootstrap-server", broker.bootstrap, "--topic", STATE_TOPIC, "--from-beginning"),
        *("--formatter", FORMATTER, "--timeout-ms", "8000"),
    )
    mine = [each for each in documents(printed) if each["key"]["data"]["transactionalId"] == name]
    assert [record["value"]["data"]["transactionStatus"] for record in mine] == [0, 1, 2, 4]
    opened = mine[1]["value"]["data"]
    assert opened["producerId"] == producer.id
    assert opened["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]


def test_dump_log_segments_decodes_our_transaction_log(
    broker: OdradekBroker, topic: str, fresh: Fresh
) -> None:
    name = fresh("transactional")
    producer = LibrdkafkaProducer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.commit_transaction(30)
    segment = broker.data_dir / f"{STATE_TOPIC}-0" / ("0" * 20 + ".log")
    dumped = tool(
        KAFKA_ON_ZOOKEEPER,
        DUMP,
        "--files",
        segment,
        "--transaction-log-decoder",
        "--deep-iteration",
    )
    mine = [line for line in dumped.splitlines() if name in line]
    assert len(mine) >= 3
    assert all("isvalid: true" in line or "payload" in line for line in mine)
    assert any("CompleteCommit" in line for line in mine)


def test_an_offset_of_a_transaction_is_where_the_tools_expect_it(
    broker: OdradekBroker, topic: str, fresh: Fresh
) -> None:
    group = fresh("group")
    where = TopicPartition(topic, 0)
    with Producer(broker.port, fresh("transactional")) as producer:
        producer.init().add_offsets(group)
        producer.commit_offset(group, where, 7)
        producer.end(commit=True)
        producer.wait_for_state("CompleteCommit")
    described = tool(
        KAFKA_ON_ZOOKEEPER,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", broker.bootstrap, "--describe", "--group", group),
    )
    (row,) = [line.split() for line in described.splitlines() if line.startswith(f"{group} ")]
    assert row[1:4] == [topic, "0", "7"]


# Byte for byte --------------------------------------------------------------------------------


def make_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)


def raw_records(bootstrap: str, transactional_id: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of an id, without what differs by nature: producer ids and times."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{transactional_id}-reader"})
    topic = consumer.list_topics(STATE_TOPIC, timeout=10).topics[STATE_TOPIC]
    consumer.assign([Place(STATE_TOPIC, number, 0) for number in topic.partitions])
    found = []
    while (message := consumer.poll(3.0)) is not None:
        if message.error() is None and message.key() == b"\0\0" + _string(transactional_id):
            value = message.value()
            found.append((message.key(), value[:2] + value[10:-16]))
    consumer.close()
    return found


def _string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def live_a_little(port: int, topic: str, transactional_id: str) -> None:
    with Producer(port, transactional_id) as producer:
        producer.init()
        for commit in (True, False):
            producer.write(topic, b"a", partition=1)
            producer.write(topic, b"b")
            producer.add_offsets(f"{topic}-group")
            assert producer.end(commit=commit) == 0
        producer.wait_for_state("CompleteAbort")
        producer.init()


def test_our_records_are_kafkas_byte_for_byte(
    broker: OdradekBroker, kafka_on_zookeeper: KafkaBroker, fresh: Fresh
) -> None:
    name = fresh("bytes")
    found = []
    for server in (broker, kafka_on_zookeeper):
        make_topic(server.bootstrap, name)
        live_a_little(server.port, name, name)
        found.append(raw_records(server.bootstrap, name))
    ours, theirs = found
    assert len(ours) == 12
    # Kafka writes the topics and partitions of a transaction in no order at all.
    assert [(key, sorted(value)) for key, value in ours] == [
        (key, sorted(value)) for key, value in theirs
    ]
