"""Which partition is copied from which leader, and by which of the fetchers for that leader.

Roles decide; whoever gives a role tells it here (`role_changed`). A partition is owned by one
fetcher at a time. Each leader has as many fetchers as `num.replica.fetchers` says, and each fetcher
a connection of its own; a partition's place among them follows from its name.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetcher import Connect, Fetcher
from odradek.replication.follower import Follower
from odradek.replication.partition import Partition
from odradek.replication.throttle import Throttle
from odradek.replication.truncation import forget_uncertain


class Lane(NamedTuple):
    leader: int
    number: int


class Owned(NamedTuple):
    partition: Partition
    lane: Lane
    epoch: int


class Fetchers:
    """One owner: the event loop."""

    def __init__(
        self,
        *,
        sender: Callable[[], Sender],
        connect: Connect,
        limits: FetchLimits,
        backoff_seconds: float,
        throttle: Throttle | None = None,
        lanes: int = 1,
    ) -> None:
        """`lanes` is how many fetchers a leader has."""
        self._sender = sender
        self._connect = connect
        self._limits = limits
        self._backoff_seconds = backoff_seconds
        self._throttle = throttle
        self._lanes = lanes
        self._fetchers: dict[Lane, Fetcher] = {}
        self._owned: dict[TopicPartition, Owned] = {}
        self._is_leaving = False
        self._closing: set[asyncio.Task[None]] = set()

    def role_changed(self, partition: Partition) -> None:
        role, where = partition.role, partition.where
        lane = self._lane(where, role.leader_id) if isinstance(role, Follower) else None
        former = self._owned.get(where)
        if self._is_leaving and (former is None or former.epoch != partition.leader_epoch):
            lane = None
        if former is not None and former.lane != lane:
            self._leave(where, former.lane)
        if lane is not None and isinstance(role, Follower):
            forget_uncertain(partition)
            self._owned[where] = Owned(partition, lane, role.epoch)
            self._fetcher(lane).follow(partition, role.epoch)

    def follow_nothing_new(self) -> None:
        """This broker is about to stop: from now on follow only what is followed already, and that
        in its present epoch.

        A new epoch is how the controller takes it out of the in-sync replicas. If it copied on in
        that one, the leader would find it level and wait for it once more, and it would be gone: a
        leader of Apache Kafka then forgets to look whether it may go on, until the client's
        requests time out."""
        self._is_leaving = True

    def use_lanes(self, lanes: int) -> None:
        """Spread what is followed over another number of fetchers."""
        if lanes != self._lanes:
            self._lanes = lanes
            for owned in list(self._owned.values()):
                self.role_changed(owned.partition)

    async def close(self) -> None:
        self._owned.clear()
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)

    def _lane(self, where: TopicPartition, leader: int) -> Lane | None:
        if leader < 0:
            return None
        return Lane(leader, (crc32(where.topic.encode()) + where.partition) % self._lanes)

    def _fetcher(self, lane: Lane) -> Fetcher:
        if lane not in self._fetchers:
            self._fetchers[lane] = Fetcher(
                lane.leader,
                sender=self._sender,
                connect=self._connect,
                limits=self._limits,
                backoff_seconds=self._backoff_seconds,
                throttle=self._throttle,
            )
        return self._fetchers[lane]

    def _leave(self, where: TopicPartition, lane: Lane) -> None:
        del self._owned[where]
        fetcher = self._fetchers[lane]
        fetcher.leave(where)
        if not len(fetcher):
            del self._fetchers[lane]
            closing = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
