"""How scenes of a cluster begin, and what they look at in the store."""

from odradek.controller import paths
from odradek.controller.admin_requests import (
    create_topics,
)
from odradek.controller.broker_requests import (
    alter_partition,
)
from odradek.controller.topics import NewTopic
from odradek.controller.znodes import (
    PartitionState,
    TopicAssignment,
)
from odradek.protocol.errors import Errors
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
)
from odradek.protocol.types import TopicPartition

from tests.unit.controller.cluster import Cluster, until

T0 = TopicPartition("t", 0)


async def started(cluster: Cluster, *brokers: int, topic: tuple[int, ...] = ()) -> None:
    await cluster.start(*brokers)
    await cluster.elected()
    live = [len(m.twin.live_brokers) for m in cluster.members.values()]
    await until(
        lambda: all(len(m.twin.live_brokers) == len(live) for m in cluster.members.values())
    )
    if topic:
        (made,) = await create_topics(cluster.controller, [NewTopic("t", assignments={0: topic})])
        assert made.error is Errors.NONE
        await cluster.leader_is(topic[0], T0)


async def stored(cluster: Cluster, where: TopicPartition = T0) -> PartitionState:
    data, stat = await cluster.admin.get(paths.partition_state(where))
    return PartitionState.decode(data, stat.version)


async def topic_in_store(cluster: Cluster, name: str = "t") -> TopicAssignment:
    return TopicAssignment.decode((await cluster.admin.get(paths.topic(name)))[0])


async def set_isr(cluster: Cluster, members: tuple[int, ...], where: TopicPartition = T0) -> Errors:
    """What the present leader asks for when followers catch up or fall behind."""
    state = await stored(cluster, where)
    topic = await topic_in_store(cluster, where.topic)
    response = await alter_partition(
        cluster.controller,
        AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=cluster.twin(state.leader).epoch,
            topics=[
                AlterPartitionTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionPartitionData(
                            partition_index=where.partition,
                            leader_epoch=state.leader_epoch,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=b, broker_epoch=cluster.twin(b).epoch)
                                for b in members
                            ],
                            partition_epoch=state.partition_epoch,
                        )
                    ],
                )
            ],
        ),
    )
    if response.error_code:
        return Errors(response.error_code)
    return Errors(response.topics[0].partitions[0].error_code)
