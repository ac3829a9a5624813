"""A real Kafka 3.9 takes over the data of `odradek serve`, and Odradek takes it back.

Odradek's files go to Kafka's log directory as they are, and its metadata, which has ZooKeeper's own
shape, to ZooKeeper. After a clean stop Kafka has nothing to recover and nothing to complain of;
after a kill it recovers. Either way it serves the same records, and appends to them.
"""

import asyncio
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kazoo.client import KazooClient
from odradek.controller.store import MetadataStore
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import SystemClock
from odradek.protocol.records import (
    EndTxnMarker,
    ProducerStamp,
    Record,
    build_batch,
    end_txn_marker,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.validation import Origin

from tests.integration.consumed import (
    ISOLATIONS,
    READ_UNCOMMITTED,
    Findings,
    consume_all,
    open_logs,
    read_all,
)
from tests.integration.dumped_segments import dump, log_files
from tests.integration.kafka_made import EAGER, SMALL, TOPICS, Filler, wait_for_chores
from tests.integration.odradek_process import Odradek
from tests.support.kafka import KafkaBroker
from tests.support.zookeeper import ZooKeeper

CLEAN, KILLED = "stopped cleanly", "killed"
SETTINGS = {**EAGER, "log.flush.offset.checkpoint.interval.ms": 200}
COMMITTED = {"codecs": 17, "idempotent": 42}
GROUP = "readers"

# What Kafka says when it has to mend something, at whatever level.
_MENDING = re.compile(
    r"Recovering unflushed|[Ss]tray|[Cc]orrupt|rebuilding index|Could not find|[Ii]nvalid"
)
_STORAGE_WORRY = re.compile(
    r"(WARN|ERROR|FATAL) (kafka\.log|kafka\.server\.(Log|Replica)|.*storage)"
)


@dataclass
class Handover:
    """Odradek's data, Kafka's view of it, and what either of them served in turn."""

    ours: Path
    served: Findings
    by_kafka: Findings
    with_more: Findings
    committed: dict[str, int]
    kafkas_words: list[str]
    served_again: Findings


async def nodes_of(path: Path) -> dict[str, bytes]:
    """Everything in a metadata file: paths and contents, parents first."""
    store = EmbeddedStore(clock=SystemClock(), path=path)
    nodes: dict[str, bytes] = {}
    await _collect(store.session(), "", nodes)
    await store.close()
    return nodes


async def _collect(store: MetadataStore, path: str, nodes: dict[str, bytes]) -> None:
    if path:
        nodes[path], _ = await store.get(path)
    for name in await store.children(path or "/"):
        await _collect(store, f"{path}/{name}", nodes)


def move_metadata(path: Path, connect: str, chroot: str) -> None:
    nodes = asyncio.run(nodes_of(path))
    client = KazooClient(connect)
    client.start()
    try:
        for name, data in nodes.items():
            client.create(f"{chroot}{name}", data, makepath=True)
    finally:
        client.stop()
        client.close()


def commit_offsets(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = [Place(topic, 0, offset) for topic, offset in COMMITTED.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed_offsets(bootstrap: str) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    places = consumer.committed([Place(topic, 0) for topic in COMMITTED], timeout=30)
    consumer.close()
    return {place.topic: place.offset for place in places}


def append_transactions(data_dir: Path) -> Findings:
    """Two producers' transactions, committed and aborted, straight into the log; what a consumer
    is to see of them."""
    logs = open_logs(data_dir, SMALL)
    log = logs.get(TopicPartition("transactions", 0))
    assert log is not None
    epoch = log.epochs.latest_epoch
    now_ms = SystemClock().now_ms()
    for turn in range(30):
        for producer in (7001, 7002):
            stamp = ProducerStamp(producer, 0, turn * 2, is_transactional=True)
            value = b"%d of %d" % (turn, producer)
            records = [Record(n, now_ms + turn, b"key", value * 5) for n in range(2)]
            log.append_as_leader(
                bytearray(build_batch(records, producer=stamp)), leader_epoch=epoch
            )
        if turn % 3 == 2:
            for producer in (7001, 7002):
                marker = end_txn_marker(
                    EndTxnMarker(commit=(turn + producer) % 2 == 0, coordinator_epoch=0),
                    producer_id=producer,
                    producer_epoch=0,
                    timestamp=now_ms + turn,
                )
                log.append_as_leader(
                    bytearray(marker), leader_epoch=epoch, origin=Origin.COORDINATOR
                )
    found = read_all(logs, ["transactions"])
    logs.close(0)
    return found


def let_kafka_take_over(
    folder: Path, ours: Path, served: Findings, zookeeper: ZooKeeper
) -> Handover:
    chroot = f"/handover/{folder.name}"
    kafka = KafkaBroker(
        folder, zookeeper=f"{zookeeper.connect}{chroot}", broker_id=0, overrides=EAGER
    )
    shutil.copytree(ours, kafka.log_dir)
    move_metadata(kafka.log_dir / "metadata.db", zookeeper.connect, chroot)
    with kafka:
        by_kafka = consume_all(kafka.bootstrap, TOPICS)
        committed = committed_offsets(kafka.bootstrap)
        assert kafka.process is not None
        words = kafka.process.output
        filler = Filler(kafka.bootstrap)
        filler.fill_plain()
        filler.fill_idempotent()
        filler.fill_compacted()
        # Else it may compact what it has just served, before it stops.
        wait_for_chores(kafka.log_dir, kafka.process)
        with_more = consume_all(kafka.bootstrap, TOPICS)
    with Odradek(kafka.log_dir, settings={"log.cleaner.enable": "false"}) as odradek:
        served_again = consume_all(odradek.bootstrap, TOPICS)
    return Handover(ours, served, by_kafka, with_more, committed, words, served_again)


@pytest.fixture(scope="module")
def handovers(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Handover]:
    folder = tmp_path_factory.mktemp("handover")
    odradek = Odradek(folder / "ours", settings=SETTINGS)
    with odradek:
        filler = Filler(odradek.bootstrap)
        filler.create_topics()
        filler.fill_plain()
        filler.fill_compacted()
        filler.fill_idempotent()
        filler.delete_records()
        commit_offsets(odradek.bootstrap)
        wait_for_chores(odradek.data_dir, odradek.process)
        served = consume_all(odradek.bootstrap, TOPICS)
        odradek.stop()
    served.update(append_transactions(odradek.data_dir))
    clean = shutil.copytree(odradek.data_dir, folder / "clean")
    with odradek:
        filler = Filler(odradek.bootstrap)
        filler.fill_plain()
        filler.fill_idempotent()
        served_later = consume_all(odradek.bootstrap, TOPICS)
        odradek.kill()
    killed = shutil.copytree(odradek.data_dir, folder / "killed")
    return {
        CLEAN: let_kafka_take_over(folder / "kafka-1", clean, served, zookeeper),
        KILLED: let_kafka_take_over(folder / "kafka-2", killed, served_later, zookeeper),
    }


@pytest.fixture(params=[CLEAN, KILLED])
def handover(request: pytest.FixtureRequest, handovers: dict[str, Handover]) -> Handover:
    return handovers[request.param]


each_topic = pytest.mark.parametrize("topic", TOPICS)
each_isolation = pytest.mark.parametrize("isolation", ISOLATIONS)


def test_kafkas_tool_finds_nothing_wrong_in_the_brokers_files(
    handovers: dict[str, Handover],
) -> None:
    handover = handovers[CLEAN]
    directories = [handover.ours / f"{topic}-0" for topic in TOPICS]
    dumped = dump(log_files(directories), "--deep-iteration", "--print-data-log")
    # Of a compacted log, Kafka's own too, the tool tells where records are gone. And a batch that
    # stays without records, as the last of its producer, has a timestamp in its header and in the
    # index, but none for the tool.
    emptied = [b for b in dumped.batches(handover.ours / "compacted-0") if not b.record_count]
    expected = (
        "is followed by",
        "/compacted-0/",
        *(f"Index timestamp: {batch.max_timestamp}, log timestamp: -1" for batch in emptied),
    )
    assert not [c for c in dumped.complaints if not any(part in c for part in expected)]
    for topic in TOPICS:
        records = dumped.records(handover.ours / f"{topic}-0")
        rows = handover.served[topic, READ_UNCOMMITTED].rows
        seen = [
            (r.offset, r.timestamp, r.key, r.value, r.header_keys, r.leader_epoch)
            for r in records
            if r.marker is None and r.offset >= handover.served[topic, READ_UNCOMMITTED].start
        ]
        assert seen == [
            (
                row.offset,
                row.timestamp,
                None if row.key is None else row.key.decode(),
                None if row.value is None else row.value.decode(),
                tuple(name for name, _ in row.headers),
                row.leader_epoch,
            )
            for row in rows
        ]


def test_kafkas_tool_decodes_the_brokers_committed_offsets(handovers: dict[str, Handover]) -> None:
    directories = sorted(handovers[CLEAN].ours.glob("__consumer_offsets-*"))
    dumped = dump(log_files(directories, (".log",)), "--offsets-decoder")
    assert not dumped.complaints
    found = {}
    for directory in directories:
        for record in dumped.records(directory):
            key, value = json.loads(record.key or ""), json.loads(record.value or "")
            if key["data"]["group"] == GROUP and "topic" in key["data"]:
                found[key["data"]["topic"]] = value["data"]["offset"]
    assert found == COMMITTED


@each_topic
@each_isolation
def test_kafka_serves_the_same_records(handover: Handover, topic: str, isolation: str) -> None:
    assert handover.by_kafka[topic, isolation] == handover.served[topic, isolation]
    if topic != "empty":
        assert len(handover.served[topic, isolation].rows) > 50


def test_kafka_has_nothing_to_mend_after_a_clean_stop(handovers: dict[str, Handover]) -> None:
    words = handovers[CLEAN].kafkas_words
    assert [line for line in words if "since clean shutdown file was found" in line]
    assert not [line for line in words if _MENDING.search(line) or _STORAGE_WORRY.search(line)]


def test_kafka_recovers_after_a_kill_and_cuts_nothing(handovers: dict[str, Handover]) -> None:
    words = handovers[KILLED].kafkas_words
    assert [line for line in words if "Recovering unflushed segment" in line]
    assert not [line for line in words if "truncat" in line.lower() and "codecs" in line]
    assert not [line for line in words if _STORAGE_WORRY.search(line)]


def test_kafka_knows_the_groups_committed_offsets(handover: Handover) -> None:
    assert handover.committed == COMMITTED


@each_topic
@each_isolation
def test_odradek_takes_over_what_kafka_appended(
    handover: Handover, topic: str, isolation: str
) -> None:
    assert handover.served_again[topic, isolation] == handover.with_more[topic, isolation]
    if topic not in ("empty", "compacted", "transactions"):
        before, after = handover.served[topic, isolation], handover.with_more[topic, isolation]
        assert after.rows[: len(before.rows)] == before.rows
        assert len(after.rows) > len(before.rows) + 500
