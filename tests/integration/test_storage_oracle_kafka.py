"""Our storage opens what a real Kafka 3.9 wrote, stopped cleanly or killed, and reads the same."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from odradek.protocol.types import TopicPartition, id_to_text
from odradek.storage.checkpoints import LEADER_EPOCHS, LOG_STARTS
from odradek.storage.epochs import EpochEntry
from odradek.storage.log import Log
from odradek.storage.logs import Logs
from odradek.storage.producer_snapshots import decode

from tests.integration.consumed import (
    ISOLATIONS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Findings,
    consume_all,
    open_logs,
    read,
)
from tests.integration.dumped_segments import LOG_FILES, Dump, dump, log_files
from tests.integration.kafka_made import (
    DELETED_BELOW,
    EAGER,
    SMALL,
    TOPICS,
    Filler,
    wait_for_chores,
)
from tests.support.kafka import KafkaBroker
from tests.support.zookeeper import ZooKeeper

CLEAN, KILLED = "stopped cleanly", "killed"


@dataclass
class KafkaMade:
    """Kafka's data at one moment, and what its consumers had read of it."""

    path: Path  # stays as Kafka left it
    consumed: Findings
    logs: Logs | None = None

    def open(self) -> Logs:
        if self.logs is None:
            copied = shutil.copytree(self.path, self.path.with_name(f"opened {self.path.name}"))
            self.logs = open_logs(copied, SMALL)
        return self.logs

    def log(self, topic: str) -> Log:
        log = self.open().get(TopicPartition(topic, 0))
        assert log is not None
        return log

    def close(self) -> None:
        if self.logs is not None:
            self.logs.close()


@dataclass
class Oracle:
    """Kafka's own directory as a clean stop left it, and copies of it."""

    path: Path
    copies: dict[str, KafkaMade]

    def directory(self, topic: str) -> Path:
        return self.path / f"{topic}-0"

    def epochs(self, topic: str) -> list[EpochEntry]:
        lines = (self.directory(topic) / LEADER_EPOCHS).read_text().splitlines()[2:]
        return [EpochEntry(*map(int, line.split())) for line in lines]


@pytest.fixture(scope="module")
def oracle(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("kafka-made")
    chroot = "/kafka-made"
    broker = KafkaBroker(
        folder / "kafka",
        zookeeper=f"{zookeeper.connect}{chroot}",
        overrides=EAGER,
    )
    copies = {}
    with broker:
        copies[KILLED] = KafkaMade(folder / "killed", fill_and_kill(broker))
        shutil.copytree(broker.log_dir, copies[KILLED].path)
        zookeeper.wait_until_gone(f"{chroot}/brokers/ids/{broker.broker_id}")
        broker.start()
        copies[CLEAN] = KafkaMade(folder / "clean", consume_all(broker.bootstrap, TOPICS))
    shutil.copytree(broker.log_dir, copies[CLEAN].path)
    yield Oracle(broker.log_dir, copies)
    for made in copies.values():
        made.close()


def fill_and_kill(broker: KafkaBroker) -> Findings:
    filler = Filler(broker.bootstrap)
    filler.create_topics()
    filler.fill_plain()
    filler.fill_compacted()
    filler.fill_idempotent()
    filler.delete_records()
    producers = filler.fill_transactions()
    assert broker.process is not None
    wait_for_chores(broker.log_dir, broker.process)
    consumed = consume_all(broker.bootstrap, TOPICS)
    broker.kill()
    del producers  # until now, lest they end their open transaction
    return consumed


@pytest.fixture(scope="module")
def dumped(oracle: Oracle) -> Dump:
    """What Kafka's tool says of the files that are not records."""
    directories = [oracle.directory(topic) for topic in TOPICS]
    return dump(log_files(directories, (".snapshot", ".txnindex")))


@pytest.fixture(params=[CLEAN, KILLED])
def made(request: pytest.FixtureRequest, oracle: Oracle) -> KafkaMade:
    return oracle.copies[request.param]


each_topic = pytest.mark.parametrize("topic", TOPICS)


def test_kafka_told_the_stories_as_intended(made: KafkaMade) -> None:
    seen = {topic: made.consumed[topic, READ_UNCOMMITTED] for topic in TOPICS}
    assert len(seen["codecs"].rows) == 750
    assert seen["deleted"].start == seen["deleted"].rows[0].offset == DELETED_BELOW
    assert len(seen["compacted"].rows) < 200 < seen["compacted"].end
    committed = made.consumed["transactions", READ_COMMITTED]
    assert len(committed.rows) < len(seen["transactions"].rows) * 0.8
    assert committed.end < seen["transactions"].end


@each_topic
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_log_gives_what_kafkas_consumers_got(made: KafkaMade, topic: str, isolation: str) -> None:
    log = made.log(topic)
    assert read(log, isolation) == made.consumed[topic, isolation]
    assert not log.damage


@each_topic
def test_leader_epochs_are_kafkas(oracle: Oracle, made: KafkaMade, topic: str) -> None:
    log = made.log(topic)
    # An epoch without a record says nothing; Kafka drops it too when it loads a log.
    with_records = [e for e in oracle.epochs(topic) if e.start_offset < log.log_end_offset]
    assert log.epochs.entries == with_records


@each_topic
def test_producers_are_known_as_kafka_knows_them(
    oracle: Oracle, made: KafkaMade, dumped: Dump, topic: str
) -> None:
    log = made.log(topic)
    snapshots = list(dumped.of(oracle.directory(topic), ".snapshot"))
    expected = sorted(snapshots[-1].producers) if snapshots else []
    ours = sorted(tuple(entry.to_snapshot()) for entry in log.producers.entries())
    assert ours == expected
    if topic == "transactions":
        assert len(ours) == 3
        assert [entry[-1] >= 0 for entry in ours].count(True) == 1


def test_aborted_transactions_are_those_kafka_lists(
    oracle: Oracle, made: KafkaMade, dumped: Dump
) -> None:
    files = dumped.of(oracle.directory("transactions"), ".txnindex")
    expected = [tuple(row) for file in files for row in file.aborted]
    segments = made.log("transactions").segments
    assert [tuple(txn) for segment in segments for txn in segment.transactions] == expected
    assert len(expected) == 6


@each_topic
def test_topic_ids_are_read(oracle: Oracle, made: KafkaMade, topic: str) -> None:
    topic_id = made.open().topic_id(TopicPartition(topic, 0))
    assert topic_id is not None
    text = (oracle.directory(topic) / "partition.metadata").read_text()
    assert text == f"version: 0\ntopic_id: {id_to_text(topic_id)}"


@pytest.fixture(scope="module")
def remade(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the killed Kafka's logs only the batches are kept; all other files we make again."""
    copied = tmp_path_factory.mktemp("remade") / "logs"
    shutil.copytree(oracle.copies[KILLED].path, copied)
    for path in log_files(copied / f"{topic}-0" for topic in TOPICS):
        if path.suffix != ".log":
            path.unlink()
    for checkpoint in copied.glob("*-checkpoint"):
        if checkpoint.name != LOG_STARTS:
            checkpoint.unlink()
    logs = open_logs(copied, SMALL)
    for log in logs:
        log.update_high_watermark(log.log_end_offset)
        log.apply_retention()  # as Kafka did: a segment below the log start goes
    logs.close()
    return copied


@each_topic
def test_files_made_again_from_the_batches_are_kafkas_own(
    oracle: Oracle, remade: Path, topic: str
) -> None:
    theirs, ours = oracle.directory(topic), remade / f"{topic}-0"
    kept = [path for path in ours.iterdir() if path.suffix != ".deleted"]
    if topic == "deleted":
        # A snapshot from below the log start is of no use; Kafka removes it when it loads the log.
        kept = [p for p in kept if p.suffix != ".snapshot" or int(p.stem) > DELETED_BELOW]
    assert sorted(path.name for path in kept) == sorted(path.name for path in theirs.iterdir())
    for path in kept:
        if path.suffix not in LOG_FILES:
            continue
        made, expected = path.read_bytes(), (theirs / path.name).read_bytes()
        if path.suffix == ".snapshot":
            assert sorted(decode(made)) == sorted(decode(expected))
        else:
            assert made == expected, path.name
