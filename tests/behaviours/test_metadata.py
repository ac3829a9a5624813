"""Metadata, DescribeCluster and DescribeTopicPartitions, as clients depend on them."""

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from odradek.protocol.types import NO_ID, random_id

from tests.behaviours.asking import Asker, batch
from tests.behaviours.bad_input import ILLEGAL_NAMES

NOT_ASKED = -(2**31)


def test_one_broker_is_its_own_controller(port: int, asker: Asker, topic: str) -> None:
    answer = asker.metadata([topic])
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == ("127.0.0.1", port)
    assert answer.controller_id == broker.node_id
    assert len(answer.cluster_id) == 22


def test_a_topic_has_leaders_replicas_and_an_id(asker: Asker, name: str) -> None:
    asker.create(name, partitions=3)
    answer = asker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    (topic,) = answer.topics
    (broker,) = answer.brokers
    assert (topic.error_code, topic.name, topic.is_internal) == (0, name, False)
    assert topic.topic_id != NO_ID
    assert [p.partition_index for p in sorted(topic.partitions, key=lambda p: p.partition_index)]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id) == (0, broker.node_id)
        assert partition.leader_epoch == 0
        assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
        assert partition.offline_replicas == []


def test_all_topics_are_asked_for_by_null_and_before_v1_by_none(asker: Asker, topic: str) -> None:
    assert topic in [t.name for t in asker.metadata(None).topics]
    assert asker.metadata([]).topics == []
    assert topic in [t.name for t in asker.metadata([], version=0).topics]


def test_a_topic_is_created_when_it_is_asked_for_and_that_is_allowed(
    asker: Asker, name: str
) -> None:
    unknown = asker.metadata([name], auto_create=False).topics[0]
    assert unknown.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    first = asker.metadata([name], auto_create=True).topics[0]
    assert first.error_code in (
        Errors.NONE,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    )
    asker.wait_for_leader(name)
    assert asker.metadata([name]).topics[0].error_code == 0
    assert asker.produce(name, batch()).error_code == 0


@pytest.mark.parametrize("illegal", ILLEGAL_NAMES, ids=repr)
def test_illegal_names_are_never_created(asker: Asker, illegal: str) -> None:
    answer = asker.metadata([illegal], auto_create=True).topics[0]
    assert answer.error_code == Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("illegal", ILLEGAL_NAMES, ids=repr)
def test_illegal_names_are_told_where_nothing_would_be_created(asker: Asker, illegal: str) -> None:
    answer = asker.metadata([illegal], auto_create=False).topics[0]
    assert answer.error_code == Errors.INVALID_TOPIC_EXCEPTION


def test_operations_are_told_only_when_asked_for(asker: Asker, topic: str) -> None:
    silent = asker.metadata([topic])
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    assert silent.cluster_authorized_operations == NOT_ASKED
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    told = asker.ask(request, 8)
    assert told.topics[0].topic_authorized_operations == 0b110111111000
    assert told.cluster_authorized_operations == 0b1111110100000


def test_topics_are_found_by_id_from_v12_on(asker: Asker, topic: str) -> None:
    known = asker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0]
    by_id = [
        MetadataRequestTopic(topic_id=known.topic_id, name=None),
        MetadataRequestTopic(topic_id=random_id(), name=None),
    ]
    found = asker.ask(MetadataRequest(topics=by_id, allow_auto_topic_creation=False), 12).topics
    names = {answer.name: answer.error_code for answer in found}
    assert names[topic] == 0
    assert Errors.UNKNOWN_TOPIC_ID in names.values()


def test_describe_cluster_tells_what_metadata_does(port: int, asker: Asker) -> None:
    answer = asker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    metadata = asker.metadata([])
    assert answer.cluster_id == metadata.cluster_id
    assert answer.controller_id == metadata.controller_id
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
        (metadata.brokers[0].node_id, "127.0.0.1", port)
    ]
    assert answer.cluster_authorized_operations == 0b1111110100000


# Kafka serves this one only in KRaft mode, so it is held against the protocol's description.
@pytest.mark.odradek_only
def test_partitions_are_described_page_by_page(asker: Asker, name: str) -> None:
    asker.create(name, partitions=5)
    found: list[int] = []
    cursor = DescribeTopicPartitionsCursor(topic_name=name, partition_index=0)
    while cursor is not None:
        request = DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name=name)],
            response_partition_limit=2,
            cursor=cursor,
        )
        answer = asker.ask(request, 0)
        assert len(answer.topics[0].partitions) <= 2
        found += [partition.partition_index for partition in answer.topics[0].partitions]
        cursor = answer.next_cursor
    assert found == [0, 1, 2, 3, 4]


def test_log_directories_tell_the_sizes_of_logs(asker: Asker, topic: str) -> None:
    asker.produce(topic, batch(b"x" * 1000))
    wanted = [DescribableLogDirTopic(topic=topic, partitions=[0])]
    (result,) = asker.ask(DescribeLogDirsRequest(topics=wanted), 4).results
    assert result.error_code == 0
    assert 0 < result.usable_bytes <= result.total_bytes
    ((partition,),) = (told.partitions for told in result.topics)
    assert (partition.partition_index, partition.offset_lag) == (0, 0)
    assert partition.partition_size > 1000
    everything = asker.ask(DescribeLogDirsRequest(topics=None), 4).results[0]
    assert topic in [told.name for told in everything.topics]
