"""Metadata, DescribeCluster and DescribeTopicPartitions: the cluster as this broker knows it.

Addresses are those of the listener a client came in by. Where `advertised.listeners` is not set,
this broker names itself by the address the client dialled, which is one it can surely reach.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.metadata_cache import (
    NO_LEADER,
    BrokerInfo,
    ClusterView,
    MetadataCache,
    PartitionInfo,
    TopicInfo,
)
from odradek.broker.network.peer import Address
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.topics import check_name
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.types import NO_ID

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})

NOT_ASKED: Final = -(2**31)
# What anyone may do where nobody is denied anything, as bits by operation code.
ALL_TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

_FIRST_WITH_LISTENER_ERRORS: Final = 6
_FIRST_BY_ID: Final = 12
_BROKERS: Final = 1

# How long clients of a broker that just started are kept waiting for its controller's word.
TOLD_SECONDS: Final = 10.0

# Creates topics and says what became of each: NONE when the view has it, else why not.
CreateMissing = Callable[[Set[str]], Awaitable[Mapping[str, Errors]]]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this broker is, and whether it says where it is or lets clients find out."""

    broker_id: int
    cluster_id: str
    answers_dialled_address: bool

    def address_of(
        self, view: ClusterView, broker_id: int, context: RequestContext
    ) -> Address | None:
        """Where the sender of a request reaches a broker; None: not on the listener it uses."""
        if broker_id == self.broker_id and self.answers_dialled_address:
            return context.local_address
        endpoint = view.endpoint(broker_id, context.listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)


class MetadataHandler:
    def __init__(
        self,
        *,
        metadata: MetadataCache,
        identity: Identity,
        create_missing: CreateMissing,
        max_partitions_described: int,
    ) -> None:
        self._metadata = metadata
        self._identity = identity
        self._create_missing = create_missing
        self._max_partitions_described = max_partitions_described

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(MetadataRequest, versions_of("0-12"), self.metadata, metadata_failed)
        yield Route(
            DescribeClusterRequest, versions_of("0-1"), self.describe_cluster, cluster_failed
        )
        yield Route(
            DescribeTopicPartitionsRequest,
            versions_of("0"),
            self.describe_topic_partitions,
            partitions_failed,
        )

    # Metadata -------------------------------------------------------------------------------

    def metadata(
        self, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse | Awaitable[MetadataResponse]:
        view = self._metadata.view
        if not view.is_told:
            return self._when_told(request, context)
        wanted = request.topics
        if wanted is None or (context.version == 0 and not wanted):
            return self._response(request, context, list(view.topics.values()), {})
        _check_naming(wanted, context.version)
        if request.allow_auto_topic_creation:
            missing = {t.name for t in wanted if t.name is not None and t.name not in view.topics}
            if missing:
                return self._after_creation(request, context, missing)
        return self._named(request, context, {})

    async def _when_told(
        self, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        """A broker that just started has heard nothing yet, and "nothing" would be a lie. Should
        no controller be there, the client had better ask another broker."""
        if not await self._metadata.wait_until(lambda view: view.is_told, TOLD_SECONDS):
            raise KafkaError(Errors.BROKER_NOT_AVAILABLE, "no controller has told this broker yet")
        answer = self.metadata(request, context)
        return answer if isinstance(answer, MetadataResponse) else await answer

    async def _after_creation(
        self, request: MetadataRequest, context: RequestContext, missing: Set[str]
    ) -> MetadataResponse:
        return self._named(request, context, await self._create_missing(missing))

    def _named(
        self, request: MetadataRequest, context: RequestContext, errors: Mapping[str, Errors]
    ) -> MetadataResponse:
        view = self._metadata.view
        found: list[TopicInfo] = []
        refused: dict[tuple[str | None, bytes], Errors] = {}
        for wanted in request.topics or ():
            topic = view.topic(wanted.name or "", wanted.topic_id)
            if topic is not None:
                found.append(topic)
            elif wanted.topic_id != NO_ID:
                refused[None, wanted.topic_id] = Errors.UNKNOWN_TOPIC_ID
            else:
                assert wanted.name is not None, "checked before"
                refused[wanted.name, NO_ID] = errors.get(wanted.name) or _why_unknown(wanted.name)
        return self._response(request, context, found, refused)

    def _response(
        self,
        request: MetadataRequest,
        context: RequestContext,
        topics: list[TopicInfo],
        refused: Mapping[tuple[str | None, bytes], Errors],
    ) -> MetadataResponse:
        view = self._metadata.view
        operations = NOT_ASKED
        if request.include_topic_authorized_operations:
            operations = ALL_TOPIC_OPERATIONS
        answers = [_topic(topic, view, context, operations) for topic in topics]
        for (name, topic_id), error in refused.items():
            answers.append(
                MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=[])
            )
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(
                    node_id=broker.id, host=address.host, port=address.port, rack=broker.rack
                )
                for broker, address in self._reachable(view, context)
            ],
            cluster_id=self._identity.cluster_id,
            controller_id=view.controller_id,
            topics=answers,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
        return response

    def _reachable(
        self, view: ClusterView, context: RequestContext
    ) -> Iterator[tuple[BrokerInfo, Address]]:
        """The brokers that have the client's listener, and where they are on it."""
        for broker in view.brokers.values():
            address = self._identity.address_of(view, broker.id, context)
            if address is not None:
                yield broker, address

    # DescribeCluster ------------------------------------------------------------------------

    def describe_cluster(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            raise KafkaError(Errors.UNSUPPORTED_ENDPOINT_TYPE, "only brokers can be asked for here")
        view = self._metadata.view
        response = DescribeClusterResponse(
            error_code=0,
            cluster_id=self._identity.cluster_id,
            controller_id=view.controller_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=broker.id, host=address.host, port=address.port, rack=broker.rack
                )
                for broker, address in self._reachable(view, context)
            ],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
        return response

    # DescribeTopicPartitions ----------------------------------------------------------------

    def describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        view, cursor = self._metadata.view, request.cursor
        names = sorted({topic.name for topic in request.topics} or view.topics)
        if cursor is not None:
            if cursor.partition_index < 0:
                raise KafkaError(Errors.INVALID_REQUEST, "the cursor's partition is negative")
            names = [name for name in names if name >= cursor.topic_name]
        room = min(request.response_partition_limit, self._max_partitions_described)
        response = DescribeTopicPartitionsResponse(topics=[])
        for name in names:
            first = cursor.partition_index if cursor and cursor.topic_name == name else 0
            topic = view.topics.get(name)
            if topic is None:
                response.topics.append(_unknown_topic(name))
                continue
            indexes = [index for index in topic.partitions if index >= first]
            response.topics.append(_described(topic, indexes[: max(0, room)], view, context))
            if len(indexes) > room:
                response.next_cursor = DescribeTopicPartitionsCursor(
                    topic_name=name, partition_index=indexes[max(0, room)]
                )
                break
            room -= len(indexes)
        return response


def _check_naming(wanted: list[MetadataRequestTopic], version: int) -> None:
    for topic in wanted:
        if version < _FIRST_BY_ID and (topic.name is None or topic.topic_id != NO_ID):
            raise KafkaError(Errors.INVALID_REQUEST, "topics are asked for by name before v12")
        if topic.name is None and topic.topic_id == NO_ID:
            raise KafkaError(Errors.INVALID_REQUEST, "a topic has neither name nor id")


def _why_unknown(name: str) -> Errors:
    try:
        check_name(name)
    except KafkaError as error:
        return error.error
    return Errors.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    topic: TopicInfo, view: ClusterView, context: RequestContext, operations: int
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                error_code=(error := _leader_error(partition, view, context)),
                partition_index=index,
                leader_id=NO_LEADER if error else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=_offline(partition, view),
            )
            for index, partition in topic.partitions.items()
        ],
        topic_authorized_operations=operations,
    )


def _leader_error(
    partition: PartitionInfo, view: ClusterView, context: RequestContext
) -> Errors | int:
    """Why a client cannot reach the leader, who then is not named either; 0: it can."""
    if partition.leader == NO_LEADER or partition.leader not in view.brokers:
        return Errors.LEADER_NOT_AVAILABLE
    if view.endpoint(partition.leader, context.listener) is not None:
        return 0
    if context.version >= _FIRST_WITH_LISTENER_ERRORS:
        return Errors.LISTENER_NOT_FOUND
    return Errors.LEADER_NOT_AVAILABLE


def _offline(partition: PartitionInfo, view: ClusterView) -> list[int]:
    """Replicas on failed directories, and those on brokers that are not there."""
    gone = (id_ for id_ in partition.replicas if id_ not in view.brokers)
    return list(dict.fromkeys([*partition.offline_replicas, *gone]))


def _described(
    topic: TopicInfo, indexes: list[int], view: ClusterView, context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=(error := _leader_error(topic.partitions[index], view, context)),
                partition_index=index,
                leader_id=NO_LEADER if error else topic.partitions[index].leader,
                leader_epoch=topic.partitions[index].leader_epoch,
                replica_nodes=list(topic.partitions[index].replicas),
                isr_nodes=list(topic.partitions[index].isr),
                # Null would be as good, but Java's admin client does not expect it.
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=_offline(topic.partitions[index], view),
            )
            for index in indexes
        ],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _unknown_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=_why_unknown(name),
        name=name,
        topic_id=NO_ID,
        is_internal=False,
        partitions=[],
        topic_authorized_operations=NOT_ASKED,
    )


def metadata_failed(request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(
            error_code=error.error, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
        )
        for topic in request.topics or ()
    ]
    return MetadataResponse(brokers=[], topics=topics, error_code=error.error)


def cluster_failed(request: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=error.error, error_message=error.message, cluster_id="", brokers=[]
    )


def partitions_failed(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=error.error,
                name=topic.name,
                topic_id=NO_ID,
                is_internal=False,
                partitions=[],
                topic_authorized_operations=NOT_ASKED,
            )
            for topic in request.topics
        ]
    )
