"""Kafka's own tools on a cluster of ours, and Kafka's own classes on what it keeps in ZooKeeper."""

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.cluster_processes import ProcessCluster
from tests.support.java import java_tool
from tests.support.load import Load, check_nothing_lost
from tests.support.records import Writer, read_all

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
ORACLE = Path(__file__).parent / "java" / "ZNodeOracle.java"

_numbers = count()
ALL = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/tools-{next(_numbers)}"
    # Small bites, so that a throttle has something to hold up.
    bites = {"replica.fetch.max.bytes": 10_000}
    directory = tmp_path_factory.mktemp("cluster")
    with ProcessCluster(directory, connect, len(ALL), overrides=bites) as made:
        yield made
        assert not made.alarms()


def tool(cluster: ProcessCluster, main_class: str, *arguments: str | Path) -> str:
    where = ("--bootstrap-server", cluster.bootstrap)
    done = java_tool(KAFKA_ON_ZOOKEEPER, main_class, *where, *arguments)
    assert done.returncode == 0, f"{main_class}: {done.stdout}\n{done.stderr}"
    return done.stdout


def rows(described: str) -> list[dict[str, str]]:
    """The partitions that kafka-topics describes, each as its columns."""
    lines = [line for line in described.splitlines() if "\tPartition: " in line]
    return [dict(re.findall(r"(\w+): (\S*)", line)) for line in lines]


def moves(file: Path, topic: str, replicas: list[int], partitions: range) -> Path:
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": topic, "partition": index, "replicas": replicas}
                    for index in partitions
                ],
            }
        )
    )
    return file


def test_kafka_topics_describes_leaders_replicas_and_who_is_missing(cluster):
    cluster.make("described", partitions=4, replicas=4)
    shown = rows(tool(cluster, TOPICS, "--describe", "--topic", "described"))
    told = cluster.partitions("described")
    assert [
        (int(row["Leader"]), row["Replicas"], sorted(row["Isr"].split(","))) for row in shown
    ] == [(p.leader, ",".join(map(str, p.replicas)), ["1", "2", "3", "4"]) for p in told.values()]
    cluster.stop(4)
    cluster.until("described", lambda p: 4 not in p.isr)
    lacking = ("--describe", "--topic", "described", "--under-replicated-partitions")
    assert [row["Partition"] for row in rows(tool(cluster, TOPICS, *lacking))] == list("0123")
    cluster.start(4)
    cluster.until("described", lambda p: len(p.isr) == 4)
    assert rows(tool(cluster, TOPICS, *lacking)) == []


def test_kafka_leader_election_brings_preferred_leaders_back(cluster):
    cluster.make("elected", partitions=4, replicas=4)
    preferred = cluster.partitions("elected")[0].replicas[0]
    cluster.stop(preferred)
    cluster.start(preferred)
    cluster.until("elected", lambda p: len(p.isr) == 4)
    assert cluster.partitions("elected")[0].leader != preferred
    said = tool(cluster, ELECT, "--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election (PREFERRED)" in said
    cluster.until("elected", lambda p: p.leader == p.replicas[0])
    one = ("--topic", "elected", "--partition", "0")
    again = tool(cluster, ELECT, "--election-type", "preferred", *one)
    assert "Valid replica already elected for partitions elected-0" in again


def test_kafka_reassign_partitions_moves_under_load_and_verifies(cluster, tmp_path):
    cluster.make("moved", partitions=3, replicas=2, **{"min.insync.replicas": "2"})
    load = Load(cluster.bootstrap, "moved")
    load.wait_for_progress(range(3))
    for target in ([3, 4], [1, 2]):
        file = moves(tmp_path / "moves.json", "moved", target, range(3))
        wish = ("--reassignment-json-file", file)
        assert "Successfully started" in tool(cluster, REASSIGN, *wish, "--execute")
        cluster.until("moved", lambda p, t=target: (list(p.replicas), sorted(p.isr)) == (t, t))
        verified = tool(cluster, REASSIGN, *wish, "--verify")
        for index in range(3):
            assert f"Reassignment of partition moved-{index} is completed." in verified
        load.wait_for_progress(range(3))
    check_nothing_lost(cluster.bootstrap, "moved", 3, load.finish())
    for number in (3, 4):
        assert not list(cluster.brokers[number].data_dir.glob("moved-[0-9]"))


def test_kafka_reassign_partitions_is_throttled_and_cancelled(cluster, tmp_path):
    cluster.make("kept", partitions=1, replicas=2)
    before = cluster.partitions("kept")[0].replicas
    writer = Writer(cluster.bootstrap, "kept", **{"batch.size": 10_000})
    writer.write(range(30_000))
    writer.finish()
    target = min(set(ALL) - set(before))
    wish = ("--reassignment-json-file", moves(tmp_path / "moves.json", "kept", [target], range(1)))
    tool(cluster, REASSIGN, *wish, "--execute", "--throttle", "1000")
    assert f"adding: {target}. removing:" in tool(cluster, REASSIGN, "--list")
    assert cluster.partitions("kept")[0].leader in before
    assert "Successfully cancelled" in tool(cluster, REASSIGN, *wish, "--cancel")
    cluster.until("kept", lambda p: p.replicas == before)
    assert "No partition reassignments found" in tool(cluster, REASSIGN, "--list")
    tool(cluster, REASSIGN, *wish, "--execute")
    cluster.until("kept", lambda p: p.replicas == (target,) == p.isr)
    assert len(read_all(cluster.bootstrap, "kept", 1)) == 30_000


def test_kafka_configs_reach_every_broker(cluster):
    cluster.make("configured", partitions=4, replicas=4)
    of_topic = ("--entity-type", "topics", "--entity-name", "configured")
    tool(cluster, CONFIGS, *of_topic, "--alter", "--add-config", "retention.ms=60000")
    for number in (ALL[0], ALL[-1]):
        where = ("--bootstrap-server", cluster.brokers[number].bootstrap)
        done = java_tool(KAFKA_ON_ZOOKEEPER, CONFIGS, *where, *of_topic, "--describe")
        assert "retention.ms=60000" in done.stdout
    everywhere = ("--entity-type", "brokers", "--entity-default")
    tool(cluster, CONFIGS, *everywhere, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tool(cluster, CONFIGS, *everywhere, "--describe")


def test_kafka_log_dirs_shows_every_brokers_replicas(cluster):
    cluster.make("weighed", partitions=1, replicas=4)
    writer = Writer(cluster.bootstrap, "weighed")
    writer.write(range(1000))
    writer.finish()
    answer = tool(cluster, LOG_DIRS, "--describe", "--topic-list", "weighed")
    (found,) = (json.loads(line) for line in answer.splitlines() if line.startswith("{"))
    replicas = {
        broker["broker"]: partition
        for broker in found["brokers"]
        for folder in broker["logDirs"]
        for partition in folder["partitions"]
    }
    assert sorted(replicas) == ALL
    assert len({partition["size"] for partition in replicas.values()}) == 1
    assert {partition["offsetLag"] for partition in replicas.values()} == {0}


def test_kafkas_classes_read_what_the_cluster_keeps_in_zookeeper(cluster):
    cluster.make("kept-well", partitions=2, replicas=3, **{"retention.ms": "60000"})
    done = java_tool(KAFKA_ON_ZOOKEEPER, str(ORACLE), cluster.zookeeper, "kept-well")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"controller {cluster.controller()} " in done.stdout
    for number, broker in cluster.brokers.items():
        (line,) = (line for line in lines if line.startswith(f"broker {number} "))
        assert line.endswith(f"[PLAINTEXT://127.0.0.1:{broker.port}]")
    assert "config {retention.ms=60000}" in lines
    for index, partition in cluster.partitions("kept-well").items():
        (line,) = (line for line in lines if line.startswith(f"partition kept-well-{index} "))
        replicas, isr = list(partition.replicas), ", ".join(map(str, partition.isr))
        assert f"replicas {replicas} adding [] leader {partition.leader}" in line
        assert f"epoch {partition.epoch} isr List({isr}) version" in line
