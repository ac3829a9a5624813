"""Disks that fail, leaders that were not in sync, replicas that missed their own removal."""

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.files import Buffer, OsFile, OsFiles

from tests.support.cluster import local_cluster
from tests.support.raw_client import RawClient
from tests.support.stage import Stage, on_stage, play_in


class BreakableDisks(OsFiles):
    """The real files, until the disk below one path refuses every write."""

    broken: str | None = None

    def open(self, path: str, *, create: bool = False) -> OsFile:
        file = super().open(path, create=create)
        return BreakableFile(os.dup(file.fileno()), path, self)


class BreakableFile(OsFile):
    def __init__(self, fd: int, path: str, disks: BreakableDisks) -> None:
        super().__init__(fd, path)
        self._disks = disks

    def pwrite(self, data: Buffer, position: int, /) -> int:
        if self._disks.broken is not None and self.path.startswith(self._disks.broken):
            raise OSError(errno.EIO, "the disk is broken", self.path)
        return super().pwrite(data, position)


def test_a_disk_that_fails_takes_only_its_own_partitions_away_from_a_broker(tmp_path: Path):
    disks = BreakableDisks()

    async def scene(stage: Stage) -> None:
        await stage.make("t", partitions=4, **{"min.insync.replicas": "2"})
        await stage.write("t", range(100))
        leader = stage.leader("t")
        assert leader is not None
        broker = stage.cluster.brokers[leader]
        log = stage.replicas("t")[leader].log
        disks.broken = str(Path(log.directory).parent)
        hosted = [p for p in broker.replicas if p.where.topic == "t"]
        lost = {p.where.partition for p in hosted if p.log.directory.startswith(disks.broken)}
        assert 0 < len(lost) < 4
        written = await stage.write("t", range(100, 200))
        assert not written.written.failed
        await stage.until(lambda: stage.leader("t") not in (None, leader))
        assert sorted(await stage.read("t", 4)) == list(range(200))
        for index in set(range(4)) - lost:
            partition = broker.replicas.find(TopicPartition("t", index))
            assert partition is not None
            assert partition.role is not None
        disks.broken = None
        await stage.cluster.stop_broker(leader)
        await stage.cluster.start_broker(leader)
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})

    async def whole() -> None:
        await on_stage(local_cluster(tmp_path / "cluster", disks=2, files=disks), scene)

    asyncio.run(whole())


@pytest.mark.parametrize("allowed", [True, False])
def test_a_replica_that_is_not_in_sync_leads_only_where_the_topic_allows_it(tmp_path, allowed):
    async def scene(stage: Stage) -> None:
        await stage.make("t", **{"unclean.leader.election.enable": str(allowed).lower()})
        await stage.write("t", range(10))
        leader = stage.leader("t")
        assert leader is not None
        behind = [id_ for id_ in (1, 2, 3) if id_ != leader]
        for id_ in behind:
            await stage.cluster.stop_broker(id_)
        await stage.until(lambda: stage.in_sync("t") == {leader})
        await stage.write("t", range(10, 20))
        await stage.cluster.stop_broker(leader)
        await stage.cluster.start_broker(behind[0])
        if allowed:
            await stage.until(lambda: stage.leader("t") == behind[0])
            assert await stage.read("t") == list(range(10))
            await stage.write("t", range(20, 25))
        await stage.cluster.start_broker(leader)
        await stage.cluster.start_broker(behind[1])
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        kept = [*range(10), *range(20, 25)] if allowed else list(range(20))
        assert await stage.read("t") == kept
        assert len({p.log.log_end_offset for p in stage.replicas("t").values()}) == 1

    play_in(tmp_path, scene)


async def move(stage: Stage, topic: str, replicas: list[int]) -> None:
    wish = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name=topic, partitions=[wish])]
    )
    controller = next(b for b in stage.cluster.brokers.values() if b.is_controller)

    def ask() -> None:
        with RawClient(controller.address.port) as client:
            response = client.ask(request, 0)
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        assert response.responses[0].partitions[0].error_code == 0

    await asyncio.to_thread(ask)


def test_a_replica_that_missed_its_own_removal_is_taken_back_without_harm(tmp_path):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        await stage.write("t", range(10))
        absent = next(id_ for id_ in (1, 2, 3) if id_ != stage.leader("t"))
        staying = [id_ for id_ in (1, 2, 3) if id_ != absent]
        await stage.cluster.stop_broker(absent)
        await move(stage, "t", staying)
        await stage.write("t", range(10, 20))
        await stage.cluster.start_broker(absent)
        assert set(stage.replicas("t")) == set(staying)
        await move(stage, "t", [*staying, absent])
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        for id_ in staying:
            await stage.cluster.stop_broker(id_)
        await stage.until(lambda: stage.leader("t") == absent)
        assert await stage.read("t") == list(range(20))

    play_in(tmp_path, scene)


def test_a_broker_that_comes_back_with_an_empty_disk_is_filled_again(tmp_path):
    """Nobody may take it for the replica it was: it counts again when it has everything."""

    async def scene(stage: Stage) -> None:
        await stage.make("t", **{"min.insync.replicas": "2"})
        await stage.write("t", range(100))
        leader = stage.leader("t")
        emptied = next(id_ for id_ in (1, 2, 3) if id_ != leader)
        await stage.cluster.stop_broker(emptied)
        shutil.rmtree(tmp_path / "cluster" / f"broker-{emptied}")
        await stage.cluster.start_broker(emptied)
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        assert stage.replicas("t")[emptied].log.log_end_offset == 100
        for id_ in {1, 2, 3} - {emptied}:
            await stage.cluster.stop_broker(id_)
        await stage.until(lambda: stage.leader("t") == emptied)
        assert await stage.read("t") == list(range(100))

    play_in(tmp_path, scene)
