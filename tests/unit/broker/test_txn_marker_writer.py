"""A marker is told of when it is safe, and only then do the offsets of its transaction count."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.broker.coordinator.placement import GROUP_TOPIC
from odradek.broker.coordinator.txn_completion import Marker
from odradek.broker.txn_marker_writer import MarkerWriter
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import new_partition

WHERE = TopicPartition(GROUP_TOPIC, 0)
COMMIT = Marker(producer_id=7, producer_epoch=2, commit=True, coordinator_epoch=4)
OF_AN_OLDER_TERM = COMMIT._replace(coordinator_epoch=3)


class Stage:
    def __init__(self, *followers: int) -> None:
        """`followers` are in sync with the leader, which is broker 1."""
        self.partition: Partition = new_partition(ManualClock(), **{"min.insync.replicas": "1"})
        self.members = [1, *followers]
        self.lead(epoch=0)
        self.revoked: list[int] = []
        self.ended: list[tuple[int, bool, int]] = []
        self.outcomes: list[Errors] = []
        self.writer = MarkerWriter(
            replicas=self,  # type: ignore[arg-type]  # of which it uses one method
            clock=ManualClock(),
            loop=asyncio.get_running_loop(),
            timeout_ms=20,
            revoke=lambda _, producer_id: self.revoked.append(producer_id),
            offsets_ended=lambda _, marker, offset: self.ended.append(
                (marker.producer_id, marker.commit, offset)
            ),
        )

    def lead(self, epoch: int) -> None:
        self.partition.become_leader(
            epoch=epoch, partition_epoch=epoch, replicas=self.members, isr=self.members
        )

    def hosted(self, where: TopicPartition) -> Partition:
        if where != WHERE:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partition

    def write(self, marker: Marker = COMMIT, where: TopicPartition = WHERE) -> None:
        self.writer.write(where, marker, self.outcomes.append)

    def follow(self, follower: int, offset: int) -> None:
        self.partition.note_follower_fetch(
            follower, fetch_offset=offset, log_start_offset=0, broker_epoch=-1
        )


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scene())  # type: ignore[arg-type]


def test_alone_a_marker_is_safe_at_once() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.write()
        assert stage.outcomes == [Errors.NONE]
        assert stage.ended == [(7, True, 0)]
        assert stage.revoked == [7]

    play(scene)


def test_offsets_count_when_the_marker_is_replicated_and_not_before() -> None:
    async def scene() -> None:
        stage = Stage(2)
        stage.write()
        assert (stage.outcomes, stage.ended) == ([], [])
        stage.follow(2, 1)
        assert (stage.outcomes, stage.ended) == ([Errors.NONE], [(7, True, 0)])

    play(scene)


def test_a_marker_of_a_leader_that_is_deposed_ends_nothing() -> None:
    async def scene() -> None:
        stage = Stage(2)
        stage.write()
        stage.partition.become_follower(
            leader_id=2, epoch=1, partition_epoch=1, replicas=stage.members
        )
        assert (stage.outcomes, stage.ended) == ([Errors.NOT_LEADER_OR_FOLLOWER], [])

    play(scene)


def test_a_marker_that_is_not_replicated_in_time_is_not_waited_for() -> None:
    async def scene() -> None:
        stage = Stage(2)
        heard = asyncio.Event()

        def then(error: Errors) -> None:
            stage.outcomes.append(error)
            heard.set()

        stage.writer.write(WHERE, COMMIT, then)
        await asyncio.wait_for(heard.wait(), 10)
        assert (stage.outcomes, stage.ended) == ([Errors.REQUEST_TIMED_OUT], [])

    play(scene)


def test_a_marker_that_is_refused_takes_no_permission_away() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.write()
        stage.write(OF_AN_OLDER_TERM)
        stage.write(where=TopicPartition("unknown", 0))
        assert stage.outcomes == [
            Errors.NONE,
            Errors.TRANSACTION_COORDINATOR_FENCED,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert stage.revoked == [7]

    play(scene)
