"""The view of the cluster after each Metadata answer."""

from odradek.client.view import ClusterView, Node, merged
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
FIRST_ID, SECOND_ID = bytes(15) + b"\x02", bytes(15) + b"\x03"


def answer(
    leader: int, epoch: int, *, topic_id: bytes = FIRST_ID, error: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=error,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
    )
    topic = MetadataResponseTopic(
        error_code=0, name="orders", topic_id=topic_id, partitions=[partition]
    )
    brokers = [MetadataResponseBroker(node_id=i, host=f"h{i}", port=9092) for i in (1, 2)]
    return MetadataResponse(brokers=brokers, topics=[topic])


def leader_after(*answers: MetadataResponse) -> int | None:
    view = ClusterView()
    for each in answers:
        view = merged(view, each, keep=[])
    node = view.leader_of(ORDERS)
    return None if node is None else node.id


def test_the_newest_epoch_names_the_leader() -> None:
    assert leader_after(answer(1, 3), answer(2, 4)) == 2


def test_a_broker_that_lags_does_not_bring_an_old_leader_back() -> None:
    assert leader_after(answer(2, 4), answer(1, 3)) == 2


def test_a_topic_that_was_made_anew_begins_at_its_own_epoch() -> None:
    assert leader_after(answer(2, 4), answer(1, 0, topic_id=SECOND_ID)) == 1


def test_a_partition_without_a_leader_has_none() -> None:
    assert leader_after(answer(2, 4, error=5)) is None


def test_a_refusal_may_name_the_new_leader() -> None:
    view = merged(ClusterView(), answer(1, 3), keep=[])
    moved = view.with_leader(ORDERS, Node(7, "h7", 1), 4)
    assert moved.leader_of(ORDERS) == Node(7, "h7", 1)
    assert moved.with_leader(ORDERS, Node(1, "h1", 1), 3) is moved
