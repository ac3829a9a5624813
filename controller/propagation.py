"""What each broker is told after a plan was carried out: Kafka's three control requests. Pure.

Order for one broker: who lives (UpdateMetadata), then what it leads and follows (LeaderAndIsr),
then what changed for its clients (UpdateMetadata), then what it must stop (StopReplica). So a
leader is known by address before anyone is told to follow it, and leads before clients hear of it.
A newcomer is told with the first request of all partitions, of those that change just now that
they have no leader: its clients may be there already, and take a topic or a partition that it has
not heard of for one that is not. In the end it is told everything once more, and that this is all
there is: it may have slept through deletions and moves.
Every request carries the controller's epoch and the epoch of the broker it is meant for.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from odradek.controller.decide import Plan, Stop
from odradek.controller.image import Broker, ClusterImage
from odradek.controller.znodes import LEADER_DURING_DELETION, NO_LEADER, PartitionState
from odradek.protocol.messages.replicas import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.types import TopicPartition

INCREMENTAL: Final = 1
FULL: Final = 2

# A replica of a topic that is being deleted stops whatever epoch it knows.
EPOCH_DURING_DELETION: Final = -2
NO_EPOCH: Final = -1

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class Sender:
    """In whose name requests go out, and the listener brokers use among themselves."""

    broker_id: int
    epoch: int
    listener: str


def announce(image: ClusterImage, plan: Plan, sender: Sender) -> list[tuple[int, ControlRequest]]:
    """The requests of a plan in sending order; `image` is the picture after its writes."""
    mail = _Mail(image, plan, sender)
    requests: list[tuple[int, ControlRequest]] = []
    if plan.members_changed:
        requests += mail.who_lives()
    for broker in mail.brokers:
        request = mail.leader_and_isr(broker)
        if request is not None:
            requests.append((broker.id, request))
    requests += mail.metadata_of_partitions()
    for broker in mail.brokers:
        stops = [stop for stop in plan.stop if stop.broker_id == broker.id]
        if stops:
            requests.append((broker.id, mail.stop_replicas(broker, stops)))
    return requests


class _Mail:
    def __init__(self, image: ClusterImage, plan: Plan, sender: Sender) -> None:
        self._image = image
        self._plan = plan
        self._sender = sender
        self.brokers = list(image.brokers.values())
        self._live_brokers = [_metadata_broker(broker) for broker in self.brokers]
        self._told = (plan.states.keys() - plan.quiet) | plan.lead

    def leader_and_isr(self, broker: Broker) -> LeaderAndIsrRequest | None:
        is_full = broker.id in self._plan.welcome
        wanted = self._everything() if is_full else sorted(self._told)
        mine = [where for where in wanted if self._concerns(broker.id, where)]
        if not mine and not is_full:
            return None
        leaders = {self._image.states[where].leader for where in mine}
        return LeaderAndIsrRequest(
            controller_id=self._sender.broker_id,
            controller_epoch=self._sender.epoch,
            broker_epoch=broker.epoch,
            type=FULL if is_full else INCREMENTAL,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=self._image.topics[topic].id,
                    partition_states=[self._role(broker.id, where) for where in partitions],
                )
                for topic, partitions in _by_topic(mine)
            ],
            live_leaders=self._live_leaders(leaders),
        )

    def _concerns(self, broker_id: int, where: TopicPartition) -> bool:
        assignment = self._image.assignment(where)
        if assignment is None or broker_id not in assignment.replicas:
            return False
        if where not in self._image.states or where.topic in self._image.deleting:
            return False
        is_repeated = where in self._plan.lead and where not in self._plan.states
        limited = is_repeated and broker_id not in self._plan.welcome and self._plan.lead_on
        return not limited or broker_id in self._plan.lead_on

    def _role(self, broker_id: int, where: TopicPartition) -> LeaderAndIsrPartitionState:
        state = self._image.states[where]
        assignment = self._image.topics[where.topic].assignments[where.partition]
        return LeaderAndIsrPartitionState(
            partition_index=where.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=(where, broker_id) in self._plan.fresh,
            leader_recovery_state=int(state.recovering),
        )

    def _live_leaders(self, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
        known = (self._image.brokers[b] for b in sorted(leaders) if b in self._image.brokers)
        return [
            LeaderAndIsrLiveLeader(broker_id=b.id, host_name=endpoint.host, port=endpoint.port)
            for b in known
            if (endpoint := b.endpoint(self._sender.listener)) is not None
        ]

    def who_lives(self) -> list[tuple[int, ControlRequest]]:
        """UpdateMetadata for all; newcomers also hear of all there is, and where all that stays."""
        unsettled = self._plan.states.keys()
        topics = self._metadata_topics(self._everything(), unsettled) if self._plan.welcome else []
        return [
            (broker.id, self.metadata(broker, topics if broker.id in self._plan.welcome else []))
            for broker in self.brokers
        ]

    def metadata_of_partitions(self) -> list[tuple[int, ControlRequest]]:
        """UpdateMetadata with what changed, and with everything for newcomers."""
        changed = set(self._plan.states) | {
            where
            for name in self._plan.vanishing
            for where in self._image.topics[name].partitions()
        }
        requests: list[tuple[int, ControlRequest]] = []
        some = self._metadata_topics(sorted(changed))
        everything = self._metadata_topics(self._everything()) if self._plan.welcome else []
        for broker in self.brokers:
            if broker.id in self._plan.welcome:
                requests.append((broker.id, self.metadata(broker, everything, FULL)))
            elif some:
                requests.append((broker.id, self.metadata(broker, some)))
        return requests

    def metadata(
        self, broker: Broker, topics: list[UpdateMetadataTopicState], extent: int = INCREMENTAL
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            type=extent,
            controller_id=self._sender.broker_id,
            controller_epoch=self._sender.epoch,
            broker_epoch=broker.epoch,
            topic_states=topics,
            live_brokers=self._live_brokers,
        )

    def _metadata_topics(
        self, wanted: list[TopicPartition], unsettled: Collection[TopicPartition] = ()
    ) -> list[UpdateMetadataTopicState]:
        return [
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=self._image.topics[topic].id,
                partition_states=[self._whereabouts(p, p not in unsettled) for p in partitions],
            )
            for topic, partitions in _by_topic(wanted)
        ]

    def _whereabouts(self, where: TopicPartition, is_settled: bool) -> UpdateMetadataPartitionState:
        assignment = self._image.topics[where.topic].assignments[where.partition]
        unborn = PartitionState(NO_LEADER, NO_EPOCH, (), self._sender.epoch)
        state = self._image.states.get(where, unborn) if is_settled else unborn
        is_going = where.topic in self._image.deleting
        return UpdateMetadataPartitionState(
            partition_index=where.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETION if is_going else state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.partition_epoch,
            replicas=list(assignment.replicas),
            offline_replicas=[
                b for b in assignment.replicas if not self._image.is_online(b, where)
            ],
        )

    def stop_replicas(self, broker: Broker, stops: list[Stop]) -> StopReplicaRequest:
        by_topic: dict[str, list[StopReplicaPartitionState]] = {}
        for stop in stops:
            by_topic.setdefault(stop.where.topic, []).append(
                StopReplicaPartitionState(
                    partition_index=stop.where.partition,
                    leader_epoch=self._stop_epoch(stop.where),
                    delete_partition=stop.delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._sender.broker_id,
            controller_epoch=self._sender.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                StopReplicaTopicState(topic_name=topic, partition_states=states)
                for topic, states in by_topic.items()
            ],
        )

    def _stop_epoch(self, where: TopicPartition) -> int:
        """A stop that is overtaken by a later role must be ignored: it says which epoch it ends."""
        if where.topic in self._image.deleting:
            return EPOCH_DURING_DELETION
        state = self._image.states.get(where)
        return NO_EPOCH if state is None else state.leader_epoch

    def _everything(self) -> list[TopicPartition]:
        return sorted(self._image.partitions())


def _metadata_broker(broker: Broker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=endpoint.security,
            )
            for endpoint in broker.registration.endpoints
        ],
        rack=broker.rack,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for where in partitions:
        grouped.setdefault(where.topic, []).append(where)
    return list(grouped.items())
