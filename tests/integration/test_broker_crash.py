"""A broker is killed under load and started again, round after round.

What it acknowledged is there, in order, at the offset it named; what a consumer has read at an
offset stays there. Beside the kill, files that a broker can make again are lost or damaged.
"""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from odradek.storage.directory import CLEAN_MARKER

from tests.behaviours.asking import Asker, batch
from tests.integration.crash_load import (
    IDEMPOTENT,
    PARTITIONS,
    PLAIN,
    TOPICS,
    Book,
    Follower,
    IdempotentProducer,
    Load,
    PlainProducer,
    read_everything,
)
from tests.integration.odradek_process import Odradek
from tests.support.network import free_port, wait_until

SMALL = {"segment.bytes": "60000", "index.interval.bytes": "1000"}
ACKNOWLEDGEMENTS_A_ROUND = 300


def files_of(data_dir: Path, *patterns: str) -> Iterator[Path]:
    for topic in TOPICS:
        for pattern in patterns:
            yield from sorted(data_dir.glob(f"{topic}-*/{pattern}"))


def leave_alone(data_dir: Path, random: Random) -> None:
    """The kill was enough."""


def delete_indexes(data_dir: Path, random: Random) -> None:
    for path in files_of(data_dir, "*.index", "*.timeindex"):
        path.unlink()


def garble_indexes(data_dir: Path, random: Random) -> None:
    for path in files_of(data_dir, "*.index", "*.timeindex"):
        path.write_bytes(random.randbytes(random.randrange(2000)))


def forget_checkpoints(data_dir: Path, random: Random) -> None:
    for path in [*data_dir.glob("*-checkpoint"), *files_of(data_dir, "*-checkpoint")]:
        path.unlink()


def damage_snapshots(data_dir: Path, random: Random) -> None:
    for path in files_of(data_dir, "*.snapshot"):
        path.write_bytes(path.read_bytes()[: random.randrange(40)])


def tear_the_last_write(data_dir: Path, random: Random) -> None:
    """Behind the last batch lies the beginning of one that never got further."""
    for directory in data_dir.glob("*-?"):
        log = max(directory.glob("*.log"))
        with log.open("ab") as file:
            file.write(log.read_bytes()[: random.randrange(1, 70)])


ROUNDS = (
    leave_alone,
    delete_indexes,
    garble_indexes,
    tear_the_last_write,
    forget_checkpoints,
    damage_snapshots,
)


@pytest.fixture
def odradek(tmp_path: Path) -> Iterator[Odradek]:
    with Odradek(tmp_path / "data", port=free_port()) as broker:
        asker = Asker(broker.port)
        for topic in TOPICS:
            assert asker.create(topic, PARTITIONS, SMALL).error_code == 0
        asker.close()
        yield broker


class Story:
    """The load on one broker, and what must hold of its records at any time."""

    def __init__(self, broker: Odradek) -> None:
        self.broker = broker
        self.book = Book()
        self.producer = IdempotentProducer(broker.bootstrap, self.book)
        self.plain = plain = PlainProducer(broker.port, self.book)
        follower = Follower(broker.bootstrap, self.book)
        self._writers = [
            Load(self.producer.step, self.producer.finish).start(),
            Load(plain.step, plain.finish).start(),
        ]
        self._reader = Load(follower.step, follower.finish).start()

    def kill_and_start(self, damage: Callable[[Path], None]) -> None:
        self.broker.kill()
        self.plain.may_connect.clear()
        damage(self.broker.data_dir)
        self.broker.start()
        self.plain.may_connect.set()

    def stop_writing(self) -> None:
        for load in self._writers:
            load.stop()

    def stop_reading(self) -> None:
        self._reader.stop()

    def check(self) -> None:
        """Everything that anybody was told is still so."""
        promised = {
            (topic, partition): self.book.of(topic, partition)
            for topic in TOPICS
            for partition in range(PARTITIONS)
        }
        found = read_everything(self.broker.bootstrap)
        for place, told in promised.items():
            there = found[place]
            assert {offset: there.get(offset) for offset in told} == told, place
            offsets, values = list(there), list(there.values())
            assert offsets == list(range(len(offsets))), place
            if place[0] == IDEMPOTENT:
                assert values == list(range(len(values))), place
            else:
                assert values == sorted(set(values)), place
        assert not self.book.contradictions


def test_nothing_acknowledged_is_lost_moved_or_doubled_by_kills_under_load(
    odradek: Odradek,
) -> None:
    random = Random(3)
    story = Story(odradek)
    for damage in ROUNDS:
        story.book.wait_for_acknowledgements(ACKNOWLEDGEMENTS_A_ROUND)
        story.kill_and_start(partial(damage, random=random))
        story.check()
    story.stop_writing()
    story.check()
    for partition in range(PARTITIONS):
        told = story.book.of(IDEMPOTENT, partition)
        assert sorted(told.values()) == list(range(story.producer.sent(partition)))
    odradek.stop()
    odradek.start()
    story.check()
    story.stop_reading()
    assert min(story.book.acknowledged.values()) > len(ROUNDS) * ACKNOWLEDGEMENTS_A_ROUND
    assert story.book.acknowledged[PLAIN] > 0


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_no_worker_outlives_a_killed_broker_to_write_to_its_logs(tmp_path: Path) -> None:
    eager = {"log.cleaner.backoff.ms": 50}
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "2000",
        "min.cleanable.dirty.ratio": "0",
    }
    with Odradek(tmp_path / "data", settings=eager) as broker:
        asker = Asker(broker.port)
        assert asker.create("tidy", configs=compacted).error_code == 0
        workers: list[int] = []

        def has_a_worker() -> bool:
            asker.produce("tidy", batch(b"x" * 1000, key=b"key"))
            workers[:] = children_of(broker.process.pid)
            return bool(workers)

        wait_until(has_a_worker, of=broker.process, what="compacting")
        broker.kill()
        asker.close()
        broker.start()
        wait_until(
            lambda: not any(map(is_alive, workers)), of=broker.process, what="alone", timeout=10
        )


def test_a_stop_that_is_asked_for_twice_is_still_a_clean_stop(tmp_path: Path) -> None:
    with Odradek(tmp_path / "data") as broker:
        os.kill(broker.process.pid, signal.SIGTERM)
        os.kill(broker.process.pid, signal.SIGTERM)
        assert broker.process.wait() == 0
        assert (broker.data_dir / CLEAN_MARKER).exists()
