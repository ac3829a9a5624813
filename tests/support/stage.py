"""A cluster in the test's own process as a stage for scenes: what its replicas hold can be seen."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.broker.broker import Broker
from odradek.broker.local_cluster import LocalCluster
from odradek.protocol.types import TopicPartition
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition

from tests.support.cluster import local_cluster
from tests.support.records import Writer, read_all

PATIENCE = 20.0


class Stage:
    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.cluster.addresses))

    async def make(self, topic: str, partitions: int = 1, **config: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        new = NewTopic(topic, partitions, 3, config=config)
        future = admin.create_topics([new])[topic]
        await asyncio.to_thread(future.result, PATIENCE)
        await self.until(lambda: len(self.replicas(topic)) == 3)

    async def write(self, topic: str, numbers: range, **settings: object) -> Writer:
        writer = Writer(self.bootstrap, topic, **settings)
        await asyncio.to_thread(writer.write, numbers)
        await asyncio.to_thread(writer.finish)
        return writer

    async def read(self, topic: str, partitions: int = 1) -> list[int]:
        return await asyncio.to_thread(read_all, self.bootstrap, topic, partitions)

    def replicas(self, topic: str) -> dict[int, Partition]:
        where = TopicPartition(topic, 0)
        found = {id_: _partition(broker, where) for id_, broker in self.cluster.brokers.items()}
        return {id_: partition for id_, partition in found.items() if partition is not None}

    def leader(self, topic: str) -> int | None:
        leaders = [id_ for id_, p in self.replicas(topic).items() if isinstance(p.role, Leader)]
        return leaders[0] if len(leaders) == 1 else None

    def in_sync(self, topic: str) -> set[int]:
        leader = self.leader(topic)
        role = None if leader is None else self.replicas(topic)[leader].role
        return set(role.isr.committed) if isinstance(role, Leader) else set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            # Looks at several brokers at once, none of which has an event for all of them.
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


Scene = Callable[[Stage], Awaitable[None]]


def _partition(broker: Broker, where: TopicPartition) -> Partition | None:
    return broker.replicas.find(where)


def play_in(directory: Path, scene: Scene, **overrides: object) -> None:
    """Start a cluster, play the scene on it, stop it."""

    async def whole() -> None:
        await on_stage(local_cluster(directory / "cluster", overrides=overrides), scene)

    asyncio.run(whole())


async def on_stage(cluster: LocalCluster, scene: Scene) -> None:
    await cluster.start()
    try:
        await scene(Stage(cluster))
    finally:
        await cluster.stop()
