"""Which partition is copied from which leader: one fetcher for each leading broker.

Roles decide; whoever gives a role tells it here (`role_changed`). A partition is owned by one
fetcher at a time.
"""

import asyncio
from collections.abc import Callable

from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetcher import Connect, Fetcher, forget_uncertain
from odradek.replication.follower import Follower
from odradek.replication.partition import Partition
from odradek.replication.throttle import Throttle


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
    ) -> None:
        self._sender = sender
        self._connect = connect
        self._limits = limits
        self._backoff_seconds = backoff_seconds
        self._throttle = throttle
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def role_changed(self, partition: Partition) -> None:
        role = partition.role
        leader = role.leader_id if isinstance(role, Follower) and role.leader_id >= 0 else None
        former = self._leaders.get(partition.where)
        if former is not None and former != leader:
            self._leave(partition.where, former)
        if leader is not None and isinstance(role, Follower):
            forget_uncertain(partition)
            self._leaders[partition.where] = leader
            self._fetcher(leader).follow(partition, role.epoch)

    async def close(self) -> None:
        self._leaders.clear()
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)

    def _fetcher(self, leader: int) -> Fetcher:
        if leader not in self._fetchers:
            self._fetchers[leader] = Fetcher(
                leader,
                sender=self._sender,
                connect=self._connect,
                limits=self._limits,
                backoff_seconds=self._backoff_seconds,
                throttle=self._throttle,
            )
        return self._fetchers[leader]

    def _leave(self, where: TopicPartition, leader: int) -> None:
        del self._leaders[where]
        fetcher = self._fetchers[leader]
        fetcher.leave(where)
        if not len(fetcher):
            del self._fetchers[leader]
            closing = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
