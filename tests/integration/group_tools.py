"""Kafka's own tools on groups, and the records that groups leave behind."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.integration.group_party import Party
from tests.support.java import java_tool

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS_TOPIC = "__consumer_offsets"


def tool(version: str, main_class: str, bootstrap: str, *args: str | Path) -> str:
    done = java_tool(version, main_class, "--bootstrap-server", bootstrap, *args)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def rows_of(table: str, group: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.startswith(f"{group} ")]


def formatted(party: Party, version: str, formatter: str) -> list[Any]:
    """What a formatter prints of the group's records: JSON documents without anything between."""
    package = "org.apache.kafka.tools.consumer"
    text = tool(
        version,
        CONSOLE,
        party.bootstrap,
        *("--topic", OFFSETS_TOPIC, "--from-beginning", "--timeout-ms", "8000"),
        *("--formatter", f"{package}.{formatter}"),
    ).strip()
    decoder, found = json.JSONDecoder(), []
    while text:
        document, end = decoder.raw_decode(text)
        if document["key"]["data"]["group"] == party.group:
            found.append(document)
        text = text[end:].lstrip()
    return found


def read_records(bootstrap: str, group: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of records that tell of the group, in the order of the log."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{group}-reader"})
    topic = consumer.list_topics(OFFSETS_TOPIC, timeout=10).topics[OFFSETS_TOPIC]
    consumer.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in topic.partitions])
    found = []
    while (message := consumer.poll(3.0)) is not None:
        if message.key() is not None and group.encode() in message.key():
            found.append((message.key(), message.value()))
    consumer.close()
    return found
