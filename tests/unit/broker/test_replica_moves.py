"""Replicas on their way from one log directory to another."""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
from odradek.broker.config import BrokerConfig
from odradek.broker.flushing import Flusher
from odradek.broker.replica_moves import ReplicaMoves
from odradek.protocol.clock import SystemClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.types import TopicPartition, id_from_text
from odradek.replication.replicas import Replicas
from odradek.storage.log import Log
from odradek.storage.log_seal import is_sealed
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.memory_files import MemoryFiles

from tests.unit.storage.log_room import DEFAULTS, batch, values_in

ORDERS = TopicPartition("orders", 0)
ELSEWHERE = TopicPartition("elsewhere", 0)
TOPIC_ID = id_from_text("AAECAwQFBgcICQoLDA0ODw")
DIRECTORIES = ("/one", "/two", "/three")
SMALL = {"segment.bytes": "1000", "segment.index.bytes": "1000", "index.interval.bytes": "100"}


class House:
    """As much of a broker as moves replicas. It leads orders-0, which begins in /one."""

    def __init__(self, files: MemoryFiles, **settings: str) -> None:
        self.files = files
        self.clock = SystemClock()
        self.settings = {"log.dirs": ",".join(DIRECTORIES), **settings}
        self.threads = ThreadPoolExecutor(2)
        if not files.exists(DIRECTORIES[0]):
            for path in DIRECTORIES:
                files.make_dir(path)
            files.sync_dir("/")

    def start(self) -> None:
        config = BrokerConfig.of(self.settings)
        log_config = DEFAULTS.with_overrides(SMALL)
        self.logs = Logs(
            DIRECTORIES,
            files=self.files,
            clock=self.clock,
            random=Random(1),
            settings=LogsSettings(config_of=lambda topic: log_config),
            on_offline=lambda directory: None,
        )
        self.logs.open(1, "cluster-a")
        self.logs.load()
        self.replicas = Replicas(
            logs=self.logs, local_id=1, clock=self.clock, is_known=lambda tp: tp != ELSEWHERE
        )
        self.flusher = Flusher(threads=self.threads)
        self.moves = ReplicaMoves(
            lambda: config,
            logs=self.logs,
            replicas=self.replicas,
            flusher=self.flusher,
            files=self.files,
            clock=self.clock,
            threads=self.threads,
        )

    def lead(self, epoch: int = 0) -> None:
        if self.logs.get(ORDERS) is None:
            self.logs.wishes[ORDERS] = self.logs.directories[0]
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=1,
            leader=1,
            leader_epoch=epoch,
            partition_epoch=0,
            isr=[1],
            replicas=[1],
            is_new=True,
        )
        topic = LeaderAndIsrTopicState(
            topic_name="orders", topic_id=TOPIC_ID, partition_states=[state]
        )
        request = LeaderAndIsrRequest(
            controller_id=1, controller_epoch=1, topic_states=[topic], live_leaders=[]
        )
        answer = self.replicas.become(request)
        assert [error.error_code for error in answer.partition_errors] == [0]

    @property
    def log(self) -> Log:
        partition = self.replicas.find(ORDERS)
        assert partition is not None
        assert partition.log is self.logs.get(ORDERS)
        return partition.log

    @property
    def home(self) -> str:
        home = self.logs.directory_of(ORDERS)
        assert home is not None
        return home.path

    def append(self, count: int) -> None:
        partition = self.replicas.find(ORDERS)
        assert partition is not None
        for _ in range(count):
            value = b"%d" % self.log.log_end_offset
            partition.append(batch(value.ljust(80)), acks=1, produce_version=9)

    async def settled(self) -> None:
        """All moves are over."""
        await until(lambda: not len(self.moves))

    async def stop(self) -> None:
        await self.moves.stop()
        self.threads.shutdown()


def offsets_in(log: Log) -> list[int]:
    """Read through; every record says where it belongs."""
    found: list[int] = []
    offset = log.log_start_offset
    while (records := log.read(offset, 10_000).records) is not None:
        for offset, value in values_in(records.read()):
            assert value is not None
            assert int(value) == offset
            found.append(offset)
        offset += 1
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@asynccontextmanager
async def a_house(files: MemoryFiles | None = None, **settings: str) -> AsyncIterator[House]:
    house = House(files or MemoryFiles(), **settings)
    house.start()
    house.lead()
    yield house
    await house.stop()


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(_awaited(story))


async def _awaited(story: Callable[[], Awaitable[None]]) -> None:
    await story()


def names(files: MemoryFiles, path: str) -> list[str]:
    return [entry.name for entry in files.scan(path) if entry.is_dir]


def test_a_replica_moves_with_everything_it_has() -> None:
    async def story() -> None:
        async with a_house() as house:
            house.append(50)
            house.log.advance_log_start(7)
            old = house.log
            house.moves.move(ORDERS, "/two")
            await house.settled()
            assert house.home == "/two"
            assert house.log is not old
            assert offsets_in(house.log) == list(range(7, 50))
            assert house.log.high_watermark == 50
            assert house.log.epochs.entries == old.epochs.entries
            assert house.log.recovery_point == 50
            house.append(10)
            assert offsets_in(house.log) == list(range(7, 60))
            assert names(house.files, "/two") == ["orders-0"]
            assert not is_sealed(house.files, "/two/orders-0")
            (left,) = names(house.files, "/one")
            assert left.endswith("-delete")
            with pytest.raises(KafkaError, match="has moved to /two"):
                old.read(0, 1000)

    run(story)


def test_what_is_appended_meanwhile_moves_too() -> None:
    async def story() -> None:
        async with a_house() as house:
            house.append(50)
            house.moves.move(ORDERS, "/two")
            for _ in range(100):
                house.append(1)
                await asyncio.sleep(0.001)
            await house.settled()
            assert house.home == "/two"
            house.append(1)
            assert offsets_in(house.log) == list(range(151))

    run(story)


def test_what_the_log_loses_meanwhile_its_copy_loses_too() -> None:
    async def story() -> None:
        async with a_house(**{"replica.alter.log.dirs.io.max.bytes.per.second": "0"}) as house:
            house.append(50)
            house.moves.move(ORDERS, "/two")
            copied = house.logs.futures[ORDERS].log
            await until(lambda: copied.log_end_offset > 0)
            log = house.log
            log.truncate_to(20)
            log.begin_epoch(4)
            partition = house.replicas.find(ORDERS)
            assert partition is not None
            house.lead(epoch=4)
            house.append(40)
            log.advance_log_start(10)
            await house.stop()
            house.settings.pop("replica.alter.log.dirs.io.max.bytes.per.second")
            house.threads = ThreadPoolExecutor(2)
            house.files.kill()
            house.start()
            house.lead(epoch=5)
            house.moves.start()
            await house.settled()
            assert house.home == "/two"
            assert offsets_in(house.log)[-1] == 59

    run(story)


def test_a_move_to_where_the_replica_is_does_nothing() -> None:
    async def story() -> None:
        async with a_house() as house:
            house.append(5)
            house.moves.move(ORDERS, "/one")
            assert not house.logs.futures
            assert offsets_in(house.log) == list(range(5))

    run(story)


def test_a_move_under_way_can_be_ended_or_sent_elsewhere() -> None:
    async def story() -> None:
        async with a_house(**{"replica.alter.log.dirs.io.max.bytes.per.second": "0"}) as house:
            house.append(50)
            house.moves.move(ORDERS, "/two")
            first = house.logs.futures[ORDERS].log
            house.moves.move(ORDERS, "/two")
            assert house.logs.futures[ORDERS].log is first
            house.moves.move(ORDERS, "/three")
            assert house.logs.futures[ORDERS].directory.path == "/three"
            house.moves.move(ORDERS, "/one")
            assert not house.logs.futures
            await house.settled()
            assert house.home == "/one"
            assert offsets_in(house.log) == list(range(50))

    run(story)


def test_a_partition_that_is_deleted_moves_no_more() -> None:
    async def story() -> None:
        async with a_house(**{"replica.alter.log.dirs.io.max.bytes.per.second": "0"}) as house:
            house.append(50)
            house.moves.move(ORDERS, "/two")
            house.logs.delete(ORDERS)
            await house.settled()
            assert not house.logs.futures
            left = [name for path in DIRECTORIES for name in names(house.files, path)]
            assert len(left) == 2
            assert all(name.endswith("-delete") for name in left)

    run(story)


def test_who_asks_for_what_cannot_be_done_is_told() -> None:
    async def story() -> None:
        async with a_house() as house:
            for where, path, error in (
                (ORDERS, "/four", Errors.LOG_DIR_NOT_FOUND),
                (ELSEWHERE, "/two", Errors.UNKNOWN_TOPIC_OR_PARTITION),
                (TopicPartition("orders", 1), "/two", Errors.REPLICA_NOT_AVAILABLE),
            ):
                with pytest.raises(KafkaError) as refused:
                    house.moves.move(where, path)
                assert refused.value.error is error
            house.logs.directories[1].fail(OSError("broken"))
            with pytest.raises(KafkaError) as refused:
                house.moves.move(ORDERS, "/two")
            assert refused.value.error is Errors.KAFKA_STORAGE_ERROR

    run(story)


def test_a_replica_that_is_not_here_yet_is_made_where_it_was_wished() -> None:
    async def story() -> None:
        async with a_house() as house:
            where = TopicPartition("orders", 1)
            with pytest.raises(KafkaError):
                house.moves.move(where, "/three")
            house.logs.create(where)
            home = house.logs.directory_of(where)
            assert home is not None
            assert home.path == "/three"

    run(story)


@pytest.mark.parametrize("broken", ["/one", "/two"])
def test_a_directory_that_fails_ends_the_move_and_loses_nothing(broken: str) -> None:
    async def story() -> None:
        async with a_house() as house:
            house.append(50)
            house.log.flush()
            house.moves.move(ORDERS, "/two")
            operation = "read" if broken == "/one" else "write"
            house.files.fail(operation, path_contains=f"{broken}/orders-0", sticky=True)
            await house.settled()
            house.files.heal()
            house.files.kill()
            house.start()
            house.lead(epoch=1)
            assert offsets_in(house.log) == list(range(50))
            house.moves.start()
            await house.settled()
            assert house.home == "/two"
            assert offsets_in(house.log) == list(range(50))

    run(story)


# Crashes ----------------------------------------------------------------------------------------


class Image(NamedTuple):
    """A disk at one moment, and what had been promised then."""

    root: object
    appended: int
    synced: int


class WatchedFiles(MemoryFiles):
    """Keeps what the disk is like before every call that changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[Image] = []
        self.promised: Callable[[], tuple[int, int]] | None = None

    def touch(self, operation: str, path: str) -> None:
        super().touch(operation, path)
        if self.promised is not None and operation not in ("scan", "read", "size", "open"):
            self.images.append(Image(copy.deepcopy(self._root), *self.promised()))

    def writable_bytes(self, length: int, path: str) -> int:
        self.touch("write", path)
        return super().writable_bytes(length, path)


def disk_of(image: Image, *, is_power_cut: bool) -> MemoryFiles:
    files = MemoryFiles()
    files._root = copy.deepcopy(image.root)
    if is_power_cut:
        files.crash()
    return files


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_crash_at_any_moment_of_a_move_loses_nothing(is_power_cut: bool) -> None:
    watched = WatchedFiles()

    async def move_there_and_back() -> None:
        async with a_house(watched) as house:
            house.append(12)
            house.log.flush()
            watched.promised = lambda: (house.log.log_end_offset, house.log.recovery_point)
            for path in ("/two", "/one"):
                house.moves.move(ORDERS, path)
                await until(lambda path=path: house.home == path)
                house.append(2)
                await house.settled()
                house.append(2)
                await house.flusher.flush(house.log)
            watched.promised = None

    run(move_there_and_back)
    assert len(watched.images) > 50
    for number, image in enumerate(watched.images):
        files = disk_of(image, is_power_cut=is_power_cut)
        run(partial(finds_all, files, image, number))


async def finds_all(files: MemoryFiles, image: Image, number: int) -> None:
    is_power_cut = files.life > 0
    async with a_house(files) as house:
        found = offsets_in(house.log)
        assert found == list(range(len(found))), f"image {number}"
        promised = image.synced if is_power_cut else image.appended
        assert len(found) >= promised, f"image {number}"
        house.lead(epoch=1)
        house.append(1)
        house.moves.start()
        await house.settled()
        assert offsets_in(house.log) == [*found, len(found)], f"image {number}"
        assert not house.logs.futures
