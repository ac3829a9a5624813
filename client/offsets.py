"""Offsets of logs: looked up by time, and where an epoch ended. Asked of partition leaders.

Every function asks all leaders at once and asks again, within its time, what a leader refused
because it no longer leads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from odradek.client.cluster import Cluster
from odradek.client.retry import until_done
from odradek.client.values import OffsetAndTimestamp
from odradek.client.view import Node
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
CONSUMER: Final = -1

Q = TypeVar("Q")
A = TypeVar("A")


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


async def ask_leaders(
    cluster: Cluster,
    questions: Mapping[TopicPartition, Q],
    ask: Callable[
        [Node, Mapping[TopicPartition, Q]], Awaitable[Mapping[TopicPartition, A | Errors]]
    ],
    timeout_s: float,
) -> dict[TopicPartition, A]:
    """The answers to all questions, each from its partition's leader.

    Raises the first error that is not temporary, or the last one when time is over.
    """
    answers: dict[TopicPartition, A] = {}
    topics = {partition.topic for partition in questions}
    for topic in topics:
        cluster.follow_also(topic)

    async def attempt() -> None:
        if not topics <= cluster.view.topics.keys():
            await cluster.refresh()
        open_questions = {p: q for p, q in questions.items() if p not in answers}
        by_node: dict[Node, dict[TopicPartition, Q]] = {}
        failure: KafkaError | None = None
        for partition, question in open_questions.items():
            leader = cluster.view.leader_of(partition)
            if leader is None:
                failure = no_leader(cluster, partition)
            else:
                by_node.setdefault(leader, {})[partition] = question
        results = await asyncio.gather(
            *(ask(node, asked) for node, asked in by_node.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, KafkaError):
                failure = result
            elif isinstance(result, BaseException):
                raise result
            else:
                failure = keep_answers(result, answers) or failure
        if failure is not None:
            if failure.error.retriable:
                await cluster.refresh()
            raise failure

    await until_done(attempt, backoff=cluster.backoff, timeout_s=timeout_s)
    return answers


def no_leader(cluster: Cluster, partition: TopicPartition) -> KafkaError:
    known = cluster.view.partition(partition)
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION if known is None else Errors.LEADER_NOT_AVAILABLE
    return KafkaError(error, f"{partition}: {error.message}")


def keep_answers(
    result: Mapping[TopicPartition, A | Errors], answers: dict[TopicPartition, A]
) -> KafkaError | None:
    failure = None
    for partition, answer in result.items():
        if not isinstance(answer, Errors):
            answers[partition] = answer
        elif failure is None or not answer.retriable:
            failure = KafkaError(answer, f"{partition}: {answer.message}")
    return failure


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    timeout_s: float,
    read_committed: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The first offset at or after each timestamp, or an end of the log; None: there is none."""

    async def ask(
        node: Node, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | Errors | None]:
        connection = await cluster.nodes.connect(node)
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition, timestamp in asked.items():
            known = cluster.view.partition(partition)
            row = ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                timestamp=timestamp,
            )
            topics.setdefault(partition.topic, []).append(row)
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
            timeout_ms=int(timeout_s * 1000),
        )
        answer = await connection.request(request, ListOffsetsResponse)
        found: dict[TopicPartition, OffsetAndTimestamp | Errors | None] = {}
        for topic in answer.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if told.error_code:
                    found[partition] = Errors.of(told.error_code)
                elif told.old_style_offsets:
                    found[partition] = OffsetAndTimestamp(told.old_style_offsets[0], -1)
                elif told.offset < 0:
                    found[partition] = None
                else:
                    found[partition] = OffsetAndTimestamp(
                        told.offset, told.timestamp, told.leader_epoch
                    )
        return found

    return await ask_leaders(cluster, timestamps, ask, timeout_s)


async def end_of_epochs(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, EpochEnd]:
    """Where the largest epoch not above each given one ends in its leader's log."""

    async def ask(
        node: Node, asked: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd | Errors]:
        connection = await cluster.nodes.connect(node)
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for partition, epoch in asked.items():
            known = cluster.view.partition(partition)
            row = OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                leader_epoch=epoch,
            )
            topics.setdefault(partition.topic, []).append(row)
        request = OffsetForLeaderEpochRequest(
            replica_id=CONSUMER,
            topics=[
                OffsetForLeaderTopic(topic=name, partitions=rows) for name, rows in topics.items()
            ],
        )
        answer = await connection.request(request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, told.partition): Errors.of(told.error_code)
            if told.error_code
            else EpochEnd(told.leader_epoch, told.end_offset)
            for topic in answer.topics
            for told in topic.partitions
        }

    return await ask_leaders(cluster, epochs, ask, timeout_s)


async def ends(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    *,
    timeout_s: float,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """The first (EARLIEST) or the next (LATEST) offset of each log."""
    found = await list_offsets(
        cluster,
        dict.fromkeys(partitions, which),
        timeout_s=timeout_s,
        read_committed=read_committed,
    )
    return {partition: row.offset for partition, row in found.items() if row is not None}
