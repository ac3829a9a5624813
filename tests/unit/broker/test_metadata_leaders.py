"""Leaders as clients hear of them: gone, or not to be reached by the way a client came in."""

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.handlers.metadata import Identity, MetadataHandler
from odradek.broker.metadata_cache import NO_LEADER, MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.errors import Errors
from odradek.protocol.frames import RequestHeader
from odradek.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsTopicRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from odradek.protocol.registry import api

from tests.unit.broker.test_metadata_cache import ONE, update

METADATA, DESCRIBE_TOPIC_PARTITIONS = 3, 75
ALIVE, GONE = 7, 8


async def create_nothing(names):
    raise AssertionError(f"{names} are not missing")


def knowing(leader: int) -> MetadataHandler:
    """Of a topic led by that broker. Broker 7 is alive and has the one listener PLAINTEXT."""
    cache = MetadataCache()
    cache.apply(update("t", ONE, {0: leader}))
    return MetadataHandler(
        metadata=cache,
        identity=Identity(1, "cluster", answers_dialled_address=False),
        create_missing=create_nothing,
        max_partitions_described=10,
    )


def context(key: int, version: int, listener: str) -> RequestContext:
    here = Address("here", 9092)
    return RequestContext(
        RequestHeader(api(key), version, 0, "client", 0), Peer(listener, here, here), 0.0
    )


def partition_of(
    leader: int, *, version: int = 9, listener: str = "PLAINTEXT"
) -> MetadataResponsePartition:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
    )
    answer = knowing(leader).metadata(request, context(METADATA, version, listener))
    assert isinstance(answer, MetadataResponse)
    (topic,) = answer.topics
    assert topic.error_code == 0
    return topic.partitions[0]


def described(leader: int) -> DescribeTopicPartitionsResponsePartition:
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsTopicRequest(name="t")])
    asked = context(DESCRIBE_TOPIC_PARTITIONS, 0, "PLAINTEXT")
    return knowing(leader).describe_topic_partitions(request, asked).topics[0].partitions[0]


def test_a_leader_that_lives_is_named():
    for partition in (partition_of(ALIVE), described(ALIVE)):
        assert (partition.error_code, partition.leader_id) == (0, ALIVE)


@pytest.mark.parametrize("leader", [GONE, NO_LEADER])
def test_a_partition_without_a_live_leader_has_none_but_its_replicas_are_told(leader: int):
    for partition in (partition_of(leader), described(leader)):
        assert partition.error_code == Errors.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.leader_epoch) == (NO_LEADER, 3)
        assert partition.replica_nodes == partition.isr_nodes == [leader]


@pytest.mark.parametrize(
    ("version", "error"), [(5, Errors.LEADER_NOT_AVAILABLE), (6, Errors.LISTENER_NOT_FOUND)]
)
def test_a_leader_without_the_listener_of_the_client_cannot_be_reached(version: int, error: Errors):
    partition = partition_of(ALIVE, version=version, listener="INSIDE")
    assert (partition.error_code, partition.leader_id) == (error, NO_LEADER)
