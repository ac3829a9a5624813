"""Topics of every kind, filled through a real client: for brokers whose files are then compared."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.clock import SystemClock
from odradek.protocol.types import TopicPartition as Partition
from odradek.storage.checkpoints import CLEANER_OFFSETS, LOG_STARTS, read_offsets
from odradek.storage.files import OsFiles

from tests.support.network import wait_until
from tests.support.processes import Process

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {
    "segment.bytes": "20000",
    "index.interval.bytes": "1000",
    "segment.index.bytes": "40000",
    "retention.ms": "-1",
}
TOPICS: Mapping[str, Mapping[str, str]] = {
    "codecs": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "idempotent": {},
    "transactions": {},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "5000",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "deleted": {},
    "empty": {},
}
TRANSACTIONAL = frozenset({"transactions"})
DELETED_BELOW = 333
# For brokers, theirs and ours, that are to do their chores at once.
EAGER: Mapping[str, object] = {
    "log.cleaner.backoff.ms": 200,
    "log.segment.delete.delay.ms": 0,
    "log.flush.start.offset.checkpoint.interval.ms": 200,
    "log.initial.task.delay.ms": 200,
    "offsets.topic.num.partitions": 4,
}
_SECONDS = 30


class Filler:
    """Fills topics with the same records every time, whatever broker serves them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._random = Random(5)
        self._written = 0
        # Recent, for producers are forgotten a day after the timestamp of their last record.
        self._first_timestamp = SystemClock().now_ms() - 3_600_000

    def create_topics(self) -> None:
        # Asked before there is a controller, librdkafka would wait very long for one.
        while self.admin.list_topics(timeout=_SECONDS).controller_id < 0:
            pass
        made = self.admin.create_topics(
            [NewTopic(name, 1, 1, config={**SMALL, **own}) for name, own in TOPICS.items()]
        )
        for future in made.values():
            future.result(_SECONDS)

    def producer(self, codec: str = "none", **settings: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "batch.num.messages": 7,
                "linger.ms": 20,
                **settings,
            }
        )

    def send(self, producer: Producer, topic: str, count: int, *, keys: int = 0) -> None:
        """Hand over records of all shapes; they are there after a flush or a commit."""
        rng = self._random
        for _ in range(count):
            self._written += 1
            key = b"key %d" % rng.randrange(keys) if keys else rng.choice([None, b"", b"key"])
            noise = b"%d: " % self._written + rng.randbytes(rng.randrange(60)).hex().encode()
            headers: list[tuple[str, str | bytes | None]] = [
                ("no", b"%d" % self._written),
                ("", None),
            ]
            producer.produce(
                topic,
                key=key,
                value=rng.choice([None, b"", noise, noise, noise]),
                headers=headers[: rng.randrange(3)],
                timestamp=self._first_timestamp + self._written * 100 + rng.randrange(5000),
                partition=0,
            )

    def fill_plain(self) -> None:
        for codec in CODECS:
            producer = self.producer(codec, acks="1")
            for topic in ("codecs", "append-time", "deleted"):
                self.send(producer, topic, 150)
            flush(producer)

    def fill_idempotent(self) -> None:
        producers = [self.producer(codec, **{"enable.idempotence": True}) for codec in CODECS[:3]]
        for _ in range(5):
            for producer in producers:
                self.send(producer, "idempotent", 40)
                flush(producer)

    def fill_compacted(self) -> None:
        for codec in CODECS:
            producer = self.producer(codec, **{"enable.idempotence": True})
            self.send(producer, "compacted", 150, keys=30)
            flush(producer)

    def delete_records(self) -> None:
        place = TopicPartition("deleted", 0, DELETED_BELOW)
        for future in self.admin.delete_records([place]).values():
            future.result(_SECONDS)

    def fill_transactions(self) -> list[Producer]:
        """Interleaved transactions, every third one aborted. The last one is left open: it is as
        long as somebody keeps the producers."""
        settings = {"transaction.timeout.ms": 900_000}
        producers = [
            self.producer(codec, **settings, **{"transactional.id": f"filler {codec}"})
            for codec in CODECS[1:4]
        ]
        for producer in producers:
            producer.init_transactions(_SECONDS)
        for turn in range(6):
            for producer in producers:
                producer.begin_transaction()
            for _ in range(3):
                for producer in producers:
                    self.send(producer, "transactions", 5)
                    flush(producer)
            for number, producer in enumerate(producers):
                if (turn + number) % 3:
                    producer.commit_transaction(_SECONDS)
                else:
                    producer.abort_transaction(_SECONDS)
        last = producers[-1]
        last.begin_transaction()
        self.send(last, "transactions", 5)
        flush(last)
        self._follow_the_open_transaction()
        return producers

    def _follow_the_open_transaction(self) -> None:
        producer = self.producer()
        self.send(producer, "transactions", 20)
        flush(producer)


def wait_for_chores(log_dir: Path, broker: Process) -> None:
    """Until all but the active segment of the compacted topic is compacted, and the log start of
    the topic with deleted records is noted."""

    def checkpointed(name: str, topic: str) -> int:
        offsets = read_offsets(OsFiles(), str(log_dir / name)).offsets
        return offsets.get(Partition(topic, 0), 0)

    def are_done() -> bool:
        active = max(int(path.stem) for path in (log_dir / "compacted-0").glob("*.log"))
        is_cleaned = checkpointed(CLEANER_OFFSETS, "compacted") >= active
        return is_cleaned and checkpointed(LOG_STARTS, "deleted") == DELETED_BELOW

    wait_until(are_done, of=broker, what="done with its chores")


def flush(producer: Producer) -> None:
    assert producer.flush(_SECONDS) == 0
