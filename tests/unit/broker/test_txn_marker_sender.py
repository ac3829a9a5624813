"""Markers are brought to every partition of a transaction, whoever leads it and however long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_completion import Completion, Marker
from odradek.broker.coordinator.txn_states import TxnState
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.txn_marker_sender import MarkerSender
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.messages.transaction_admin import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import TopicPartition

LOCAL = 1
TERM = 4


class Partitions:
    """Leaders of partitions as the sender meets them: here and at two other brokers."""

    def __init__(self) -> None:
        self.metadata = MetadataCache()
        # What is left of the refusals that each partition will give before it takes its marker.
        self.refusals: dict[TopicPartition, list[Errors]] = {}
        self.unreachable: dict[int, int] = {}
        self.taken: list[tuple[int, TopicPartition, Marker]] = []
        self.requests: list[tuple[int, int]] = []
        self.done = asyncio.Event()
        self.sender = MarkerSender(
            local_id=LOCAL,
            metadata=self.metadata,
            writer=self,  # type: ignore[arg-type]  # of which it uses one method
            ask=self.ask,
            loop=asyncio.get_running_loop(),
        )

    def lead(self, leaders: dict[str, int]) -> None:
        """Say who leads; -1 is nobody, and -2 that the partition is gone."""
        states: dict[str, list[UpdateMetadataPartitionState]] = {}
        for text, leader in leaders.items():
            topic, index = where_of(text)
            states.setdefault(topic, []).append(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=1,
                    leader=leader,
                    leader_epoch=0,
                    isr=[],
                    zk_version=0,
                    replicas=[],
                )
            )
        self.metadata.apply(
            UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=1,
                topic_states=[
                    UpdateMetadataTopicState(topic_name=topic, partition_states=each)
                    for topic, each in states.items()
                ],
                live_brokers=[],
            )
        )

    def take(self, broker: int, where: TopicPartition, marker: Marker) -> Errors:
        if refusals := self.refusals.get(where):
            return refusals.pop(0)
        self.taken.append((broker, where, marker))
        return Errors.NONE

    def write(self, where: TopicPartition, marker: Marker, then: Callable[[Errors], None]) -> None:
        then(self.take(LOCAL, where, marker))

    async def ask(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        await asyncio.sleep(0)
        if self.unreachable.get(broker_id):
            self.unreachable[broker_id] -= 1
            raise KafkaError(Errors.NETWORK_EXCEPTION)
        self.requests.append((broker_id, len(request.markers)))
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=each.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self.take(
                                        broker_id,
                                        TopicPartition(topic.name, index),
                                        Marker(
                                            each.producer_id,
                                            each.producer_epoch,
                                            each.transaction_result,
                                            each.coordinator_epoch,
                                        ),
                                    ),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.markers
            ]
        )

    def completion(self, *partitions: str, producer_id: int = 7) -> Completion:
        transaction = Transaction(
            producer_id, 2, 1000, TxnState.PREPARE_COMMIT, frozenset(map(where_of, partitions))
        )
        return Completion("t", transaction, TERM, lambda _: self.done.set())

    async def until_done(self) -> None:
        await asyncio.wait_for(self.done.wait(), 10)

    @property
    def brokers(self) -> dict[str, int]:
        return {f"{where.topic}-{where.partition}": broker for broker, where, _ in self.taken}


def where_of(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def play(scene: Callable[[Partitions], Awaitable[None]]) -> None:
    async def whole() -> None:
        partitions = Partitions()
        await scene(partitions)
        await partitions.sender.close()

    asyncio.run(whole())


def test_every_leader_gets_the_markers_of_its_partitions() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": LOCAL, "a-1": 2, "b-0": 2, "b-1": 3})
        partitions.sender.send(partitions.completion("a-0", "a-1", "b-0", "b-1"))
        await partitions.until_done()
        assert partitions.brokers == {"a-0": LOCAL, "a-1": 2, "b-0": 2, "b-1": 3}
        assert {marker for _, _, marker in partitions.taken} == {Marker(7, 2, True, TERM)}
        assert sorted(partitions.requests) == [(2, 1), (3, 1)]

    play(scene)


def test_a_transaction_on_our_own_partitions_is_marked_at_once() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": LOCAL, "a-1": LOCAL})
        partitions.sender.send(partitions.completion("a-0", "a-1"))
        assert partitions.done.is_set()

    play(scene)


@pytest.mark.parametrize(
    "refusal",
    [
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Errors.REQUEST_TIMED_OUT,
        Errors.KAFKA_STORAGE_ERROR,
    ],
)
@pytest.mark.parametrize("leader", [LOCAL, 2])
def test_what_may_pass_is_tried_again_until_it_has(refusal: Errors, leader: int) -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": leader, "a-1": leader})
        partitions.refusals[where_of("a-0")] = [refusal, refusal]
        partitions.sender.send(partitions.completion("a-0", "a-1"))
        await partitions.until_done()
        assert [where.partition for _, where, _ in partitions.taken] == [1, 0], "each once"

    play(scene)


@pytest.mark.parametrize(
    "refusal", [Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_coordinator_that_was_superseded_gives_up(refusal: Errors) -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": LOCAL, "a-1": LOCAL})
        partitions.refusals[where_of("a-0")] = [refusal]
        completion = partitions.completion("a-0", "a-1")
        partitions.sender.send(completion)
        assert completion.is_dropped
        assert not partitions.done.is_set()

    play(scene)


def test_a_broker_that_cannot_be_reached_is_tried_again() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": 2})
        partitions.unreachable[2] = 2
        partitions.sender.send(partitions.completion("a-0"))
        await partitions.until_done()
        assert partitions.brokers == {"a-0": 2}

    play(scene)


def test_a_marker_follows_a_leader_that_moves() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": 2})
        partitions.unreachable[2] = 1_000_000
        partitions.sender.send(partitions.completion("a-0"))
        await asyncio.sleep(0)
        partitions.lead({"a-0": 3})
        await partitions.until_done()
        assert partitions.brokers == {"a-0": 3}

    play(scene)


def test_a_partition_without_a_leader_is_waited_for() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": -1})
        partitions.sender.send(partitions.completion("a-0"))
        assert not partitions.done.is_set()
        partitions.lead({"a-0": LOCAL})
        await partitions.until_done()
        assert partitions.brokers == {"a-0": LOCAL}

    play(scene)


def test_a_partition_that_was_deleted_needs_no_marker() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": LOCAL})
        partitions.sender.send(partitions.completion("a-0", "gone-0"))
        assert partitions.done.is_set()
        assert partitions.brokers == {"a-0": LOCAL}

    play(scene)


def test_markers_of_many_transactions_travel_together() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": 2})
        for producer_id in range(5):
            partitions.sender.send(partitions.completion("a-0", producer_id=producer_id))
        await partitions.until_done()
        await asyncio.sleep(0)
        assert partitions.requests == [(2, 5)]

    play(scene)


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    async def scene(partitions: Partitions) -> None:
        partitions.lead({"a-0": 2})
        completion = partitions.completion("a-0")
        partitions.sender.send(completion)
        completion.drop()
        await asyncio.sleep(0.01)
        assert partitions.requests == []

    play(scene)
