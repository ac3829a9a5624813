"""Kafka's own command-line tools, of 3.9 and of 4.2, against the broker.

Each tool is a Java program of its own and takes a second to start, so a test does with few runs
what it can. kafka-topics.sh and its like are only names for these classes.
"""

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.clients.driver import EARLIEST, Client, Record
from tests.support.java import java_tool
from tests.support.parts import require

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
# These moved between the two versions.
CONSOLE_PRODUCER = {
    KAFKA_ON_ZOOKEEPER: "kafka.tools.ConsoleProducer",
    KAFKA_ON_KRAFT: "org.apache.kafka.tools.ConsoleProducer",
}
API_VERSIONS = {
    KAFKA_ON_ZOOKEEPER: "kafka.admin.BrokerApiVersionsCommand",
    KAFKA_ON_KRAFT: "org.apache.kafka.tools.BrokerApiVersionsCommand",
}

Tool = Callable[..., str]


# Where both versions of a tool send the same requests, one will do.
either = pytest.mark.parametrize("version", [KAFKA_ON_ZOOKEEPER], indirect=True)


@pytest.fixture(params=[KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT])
def version(request: pytest.FixtureRequest) -> str:
    require(f"kafka-{request.param}")
    return str(request.param)


@pytest.fixture
def run(version: str, announce: Callable[[str], None]) -> Tool:
    """Runs a tool; what it printed, if it succeeded."""

    def run_it(main_class: str, *arguments: str | Path, stdin: str | None = None) -> str:
        announce(f"tools-{version}")
        done = java_tool(version, main_class, *arguments, stdin=stdin)
        assert done.returncode == 0, f"{main_class}: {done.stdout}\n{done.stderr}"
        return done.stdout

    return run_it


@pytest.fixture
def tool(run: Tool, bootstrap: str) -> Tool:
    """Runs a tool against the broker, whose address nearly all tools take in one way."""
    return partial(run_with, run, ("--bootstrap-server", bootstrap))


def run_with(run: Tool, where: tuple[str, str], main_class: str, *rest: str, **named: str) -> str:
    return run(main_class, *where, *rest, **named)


def test_kafka_topics(tool: Tool, reference: Client, new_name: str) -> None:
    options = ("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert "Created topic" in tool(TOPICS, "--create", "--topic", new_name, *options)
    assert new_name in tool(TOPICS, "--list").split()
    described = tool(TOPICS, "--describe", "--topic", new_name)
    assert "PartitionCount: 2" in described
    assert "retention.ms=60000" in described
    tool(TOPICS, "--alter", "--topic", new_name, "--partitions", "3")
    assert len(reference.describe_topic(new_name)) == 3
    tool(TOPICS, "--delete", "--topic", new_name)
    assert new_name not in reference.list_topics()


def test_kafka_configs_of_a_topic(tool: Tool, reference: Client, topic: str) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(CONFIGS, *of_topic, "--alter", "--add-config", "retention.ms=60000,cleanup.policy=compact")
    assert "retention.ms=60000" in tool(CONFIGS, *of_topic, "--describe")
    assert "max.message.bytes=1048588" in tool(CONFIGS, *of_topic, "--describe", "--all")
    tool(CONFIGS, *of_topic, "--alter", "--delete-config", "retention.ms")
    configs = reference.describe_configs("topic", topic)
    assert configs["retention.ms"]["default"]
    assert configs["cleanup.policy"]["value"] == "compact"


@either
def test_kafka_configs_of_a_broker(tool: Tool, reference: Client) -> None:
    (broker,) = reference.describe_cluster()["brokers"]
    of_broker = ("--entity-type", "brokers", "--entity-name", str(broker["id"]))
    tool(CONFIGS, *of_broker, "--alter", "--add-config", "log.cleaner.threads=2")
    described = tool(CONFIGS, *of_broker, "--describe")
    assert "log.cleaner.threads=2" in described
    assert "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2" in described
    tool(CONFIGS, *of_broker, "--alter", "--delete-config", "log.cleaner.threads")
    assert reference.describe_configs("broker", str(broker["id"]))["log.cleaner.threads"] == {
        "value": "1",
        "default": True,
    }


def test_kafka_console_producer_and_consumer(tool: Tool, version: str, topic: str) -> None:
    lines = "".join(f"key{number}:value{number}\n" for number in range(5))
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    tool(CONSOLE_PRODUCER[version], "--topic", topic, *keyed, stdin=lines)
    shown = ("--property", "print.key=true", "--property", "print.offset=true")
    until = ("--max-messages", "3", "--timeout-ms", "20000")
    where = ("--topic", topic, "--partition", "0", "--offset", "2")
    read = tool(CONSOLE_CONSUMER, *where, *shown, *until).splitlines()
    records = [line.split("\t") for line in read if line.startswith("Offset:")]
    assert records == [
        [f"Offset:{number}", f"key{number}", f"value{number}"] for number in (2, 3, 4)
    ]


@either
def test_kafka_get_offsets(tool: Tool, reference: Client, new_name: str) -> None:
    reference.create_topic(new_name, partitions=2)
    now_ms = int(time.time() * 1000)
    records = [Record(b"a", timestamp=now_ms), Record(b"b", timestamp=now_ms + 1)]
    reference.produce(new_name, records, partition=1)
    latest = tool(GET_OFFSETS, "--topic", new_name)
    assert sorted(latest.split()) == [f"{new_name}:0:0", f"{new_name}:1:2"]
    of_second = ("--topic-partitions", f"{new_name}:1")
    assert tool(GET_OFFSETS, *of_second, "--time", "max-timestamp").strip() == f"{new_name}:1:1"
    assert tool(GET_OFFSETS, *of_second, "--time", "earliest").strip() == f"{new_name}:1:0"


@either
def test_kafka_log_dirs(tool: Tool, reference: Client, topic: str) -> None:
    reference.produce(topic, [Record(bytes(3000))])
    answer = tool(LOG_DIRS, "--describe", "--topic-list", topic)
    (brokers,) = (json.loads(line) for line in answer.splitlines() if line.startswith("{"))
    (folder,) = brokers["brokers"][0]["logDirs"]
    assert folder["error"] is None
    (partition,) = folder["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert 3000 < partition["size"] < 4000


@either
def test_kafka_delete_records(tool: Tool, reference: Client, topic: str, tmp_path: Path) -> None:
    reference.produce(topic, [Record(b"%d" % number) for number in range(5)])
    wish = {"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}
    file = tmp_path / "delete.json"
    file.write_text(json.dumps(wish))
    answer = tool(DELETE_RECORDS, "--offset-json-file", file)
    assert re.search(rf"partition: {re.escape(topic)}-0\s+low_watermark: 3", answer)
    assert reference.offset_at(topic, EARLIEST) == 3


def test_kafka_broker_api_versions(tool: Tool, version: str) -> None:
    answer = tool(API_VERSIONS[version])
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "ApiVersions(18)", "CreateTopics(19)"):
        assert re.search(rf"{re.escape(api)}: \d+ to \d+ \[usable: \d+\]", answer), api


@either
def test_kafka_cluster_id(run: Tool, bootstrap: str, reference: Client) -> None:
    answer = run(CLUSTER, "cluster-id", "--bootstrap-server", bootstrap)
    assert f"Cluster ID: {reference.describe_cluster()['cluster_id']}" in answer


def test_kafka_producer_perf_test(run: Tool, bootstrap: str, reference: Client, topic: str) -> None:
    load = ("--topic", topic, "--num-records", "20000", "--record-size", "200")
    properties = (f"bootstrap.servers={bootstrap}", "acks=all", "compression.type=lz4")
    answer = run(PRODUCER_PERF, *load, "--throughput", "-1", "--producer-props", *properties)
    assert "20000 records sent" in answer
    assert reference.offset_at(topic, -1) == 20000
