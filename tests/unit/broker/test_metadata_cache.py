"""The view of the cluster: swapped as a whole, told by the newest controller only."""

import pytest
from odradek.broker.metadata_cache import (
    FULL,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    MetadataCache,
)
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.types import TopicPartition

ONE, TWO = b"1" * 16, b"2" * 16


def update(
    topic: str,
    topic_id: bytes,
    leaders: dict[int, int],
    *,
    epoch: int = 1,
    leader_epoch: int = 3,
) -> UpdateMetadataRequest:
    partitions = [
        UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=[leader],
            zk_version=0,
            replicas=[leader],
        )
        for index, leader in leaders.items()
    ]
    endpoint = UpdateMetadataEndpoint(port=9092, host="here", listener="PLAINTEXT")
    return UpdateMetadataRequest(
        controller_id=7,
        controller_epoch=epoch,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic, topic_id=topic_id, partition_states=partitions
            )
        ],
        live_brokers=[UpdateMetadataBroker(id=7, endpoints=[endpoint], rack="r")],
    )


def test_a_view_once_taken_does_not_change() -> None:
    cache = MetadataCache()
    before = cache.view
    cache.apply(update("a", ONE, {0: 7}))
    assert before.topics == {}
    assert cache.view.topics["a"].partitions[0].leader == 7
    assert cache.view.controller_id == 7


def test_updates_add_to_what_is_known() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {1: 7}))
    cache.apply(update("a", ONE, {0: 7}))
    cache.apply(update("b", TWO, {0: 7}))
    assert list(cache.view.topics["a"].partitions) == [0, 1]
    assert cache.view.topic("", TWO) is cache.view.topics["b"]


def test_who_is_told_only_that_a_partition_exists_keeps_what_it_knew() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {0: 7}))
    cache.apply(update("a", ONE, {0: NO_LEADER, 1: NO_LEADER}, leader_epoch=NO_EPOCH))
    partitions = cache.view.topics["a"].partitions
    assert [partitions[0].leader, partitions[1].leader] == [7, NO_LEADER]


def test_deleted_partitions_go_and_an_empty_topic_with_them() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {0: 7, 1: 7}))
    cache.apply(update("a", ONE, {0: LEADER_DURING_DELETE}))
    assert list(cache.view.topics["a"].partitions) == [1]
    cache.apply(update("a", ONE, {1: LEADER_DURING_DELETE}))
    assert cache.view.topic("a") is None
    assert cache.view.topic("", ONE) is None


def test_a_topic_created_anew_keeps_nothing_of_the_old_one() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {0: 7, 1: 7, 2: 7}))
    cache.apply(update("a", TWO, {0: 7}))
    assert list(cache.view.topics["a"].partitions) == [0]
    assert cache.view.topic("", ONE) is None


def test_an_old_controller_is_not_obeyed() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {0: 7}, epoch=5))
    with pytest.raises(KafkaError) as refused:
        cache.apply(update("a", ONE, {0: 8}, epoch=4))
    assert refused.value.error is Errors.STALE_CONTROLLER_EPOCH
    assert cache.view.partition(TopicPartition("a", 0)).leader == 7


def test_endpoints_are_found_by_broker_and_listener() -> None:
    cache = MetadataCache()
    cache.apply(update("a", ONE, {0: 7}))
    endpoint = cache.view.endpoint(7, "PLAINTEXT")
    assert (endpoint.host, endpoint.port) == ("here", 9092)
    assert cache.view.endpoint(7, "SSL") is None
    assert cache.view.endpoint(8, "PLAINTEXT") is None


def test_a_full_picture_leaves_nothing_of_the_one_before() -> None:
    cache = MetadataCache()
    told: list[frozenset[str]] = []
    cache.listen_for_deletions(told.append)
    cache.apply(update("a", ONE, {0: 7}))
    everything = update("b", TWO, {0: 7})
    everything.type = FULL
    cache.apply(everything)
    assert list(cache.view.topics) == ["b"]
    assert cache.view.names_by_id == {TWO: "b"}
    assert told == [], "what was missed is not news of a deletion"
