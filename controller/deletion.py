"""Which replicas of topics that are being deleted are gone already.

Kept in memory only: a new controller asks all replicas again, and a broker that has nothing left to
delete says so at once. A topic is finished when every replica is gone, so a broker that is away
holds the deletion up until it returns.
"""

import asyncio

from odradek.controller.image import ClusterImage
from odradek.protocol.errors import Errors
from odradek.protocol.messages.replicas import StopReplicaResponse
from odradek.protocol.types import TopicPartition

Replica = tuple[TopicPartition, int]


class Deletions:
    def __init__(self) -> None:
        self._done: set[Replica] = set()
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def done(self) -> frozenset[Replica]:
        return frozenset(self._done)

    def answered(
        self, broker_id: int, response: StopReplicaResponse, image: ClusterImage
    ) -> list[TopicPartition]:
        """Note what a broker has deleted; gives what it could not."""
        failed = []
        for answer in response.partition_errors:
            where = TopicPartition(answer.topic_name, answer.partition_index)
            if where.topic not in image.deleting:
                continue
            if answer.error_code == Errors.NONE:
                self._done.add((where, broker_id))
            else:
                failed.append(where)
        return failed

    def finished(self, image: ClusterImage) -> list[str]:
        """Topics whose replicas are all gone."""
        return [
            name
            for name in sorted(image.deleting & image.topics.keys())
            if all(
                (TopicPartition(name, index), broker_id) in self._done
                for index, assignment in image.topics[name].assignments.items()
                for broker_id in assignment.replicas
            )
        ]

    def awaited(self, name: str) -> "asyncio.Future[None]":
        """Done when the topic is gone. It stays undone when the term ends before."""
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(name, []).append(gone)
        return gone

    def forget(self, name: str) -> None:
        """The topic is gone for good."""
        self._done = {replica for replica in self._done if replica[0].topic != name}
        for gone in self._awaited.pop(name, ()):
            if not gone.done():
                gone.set_result(None)
