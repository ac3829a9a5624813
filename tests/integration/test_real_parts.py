"""The harness itself: real servers start, serve, crash and come back under its hands."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import java_tool
from tests.support.kafka import KafkaBroker
from tests.support.network import answers_ruok
from tests.support.zookeeper import ZooKeeper


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, key=b"key", value=value)
    assert producer.flush(30) == 0


def consume_one(bootstrap: str, topic: str) -> bytes | None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"readers of {topic}",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None, "no record came in 30 s"
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_real_kafka_takes_a_record_and_gives_it_back(each_kafka: KafkaBroker) -> None:
    produce(each_kafka.bootstrap, "there-and-back", b"hello")
    assert consume_one(each_kafka.bootstrap, "there-and-back") == b"hello"


def test_kafkas_own_tools_read_a_topic_and_its_files(kafka_on_zookeeper: KafkaBroker) -> None:
    broker = kafka_on_zookeeper
    produce(broker.bootstrap, "looked-at", b"seen by the tool")
    listed = broker.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, "--list"
    )
    assert "looked-at" in listed.split()
    segment = broker.partition_dir("looked-at") / "00000000000000000000.log"
    dumped = broker.tool("kafka.tools.DumpLogSegments", "--files", segment, "--print-data-log")
    assert "seen by the tool" in dumped


@pytest.mark.needs(f"kafka-{KAFKA_ON_ZOOKEEPER}")
def test_a_tool_that_fails_says_so_by_its_status() -> None:
    done = java_tool(KAFKA_ON_ZOOKEEPER, "kafka.tools.DumpLogSegments")
    assert done.returncode != 0
    assert "--files" in done.stderr


def test_a_killed_zookeeper_comes_back_on_its_port(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as server:
        server.kill()
        assert not answers_ruok(server.port)
        server.start()
        assert answers_ruok(server.port)


def test_a_killed_kafka_keeps_its_records(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    connect = f"{zookeeper.connect}/killed"
    with KafkaBroker(tmp_path, zookeeper=connect) as broker:
        produce(broker.bootstrap, "kept", b"still here")
        broker.kill()
        zookeeper.wait_until_gone(f"/killed/brokers/ids/{broker.broker_id}")
        broker.start()
        assert consume_one(broker.bootstrap, "kept") == b"still here"
