"""Topics: made, looked at, grown, emptied, deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.admin_base import AdminBase, Results, failure
from odradek.client.offsets import ask_leaders, list_offsets
from odradek.client.values import OffsetAndTimestamp
from odradek.client.view import ClusterView, Node, TopicView, merged
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.types import TopicPartition

BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make; -1 leaves a number to the broker. `replicas` places each partition."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str | None] = field(default_factory=dict)
    replicas: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    id: bytes
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


class TopicAdmin(AdminBase):
    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        view = await self._topics(None)
        return sorted(
            topic.name
            for topic in view.topics.values()
            if include_internal or not topic.is_internal
        )

    async def describe_topics(self, names: Iterable[str]) -> Results[str, TopicView]:
        view = await self._topics(list(names))
        return {
            name: topic if not topic.error else KafkaError(Errors.of(topic.error), f"topic {name}")
            for name, topic in view.topics.items()
        }

    async def _topics(self, names: list[str] | None) -> ClusterView:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = await self._ask_any(request, MetadataResponse)
        return merged(ClusterView(), answer, keep=None)

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._ask_controller(
            request, CreateTopicsResponse, lambda a: [row.error_code for row in a.topics]
        )
        return {
            row.name: failure(row.error_code, row.error_message)
            or CreatedTopic(
                row.topic_id,
                row.num_partitions,
                row.replication_factor,
                {config.name: config.value for config in row.configs or ()},
            )
            for row in answer.topics
        }

    async def wait_for_topics(self, names: Iterable[str]) -> None:
        """Until every topic is known: a broker may hear of a new one after it was answered."""
        listed = list(names)

        async def look() -> None:
            for described in (await self.describe_topics(listed)).values():
                if isinstance(described, KafkaError):
                    raise described

        await self._retry(look)

    async def delete_topics(self, names: Iterable[str]) -> Results[str, None]:
        listed = list(names)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in listed],
            topic_names=listed,
            timeout_ms=self._timeout_ms,
        )
        answer = await self._ask_controller(
            request, DeleteTopicsResponse, lambda a: [row.error_code for row in a.responses]
        )
        return {
            row.name or "": failure(row.error_code, row.error_message) for row in answer.responses
        }

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        replicas: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> Results[str, None]:
        """Grow each topic to this many partitions; `replicas` places the new ones."""
        placed = replicas or {}
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None
                    if name not in placed
                    else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in placed[name]],
                )
                for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        answer = await self._ask_controller(
            request, CreatePartitionsResponse, lambda a: [row.error_code for row in a.results]
        )
        return {row.name: failure(row.error_code, row.error_message) for row in answer.results}

    async def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by time, or by EARLIEST, LATEST, MAX_TIMESTAMP."""
        return await list_offsets(
            self._cluster,
            timestamps_ms,
            timeout_s=self._timeout_s,
            read_committed=read_committed,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete all records before these offsets (-1: all there are); the new first offsets."""

        async def ask(
            node: Node, asked: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int | Errors]:
            connection = await self._cluster.nodes.connect(node)
            topics: dict[str, list[DeleteRecordsPartition]] = {}
            for (name, index), offset in asked.items():
                row = DeleteRecordsPartition(partition_index=index, offset=offset)
                topics.setdefault(name, []).append(row)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=n, partitions=rows) for n, rows in topics.items()],
                timeout_ms=self._timeout_ms,
            )
            answer = await connection.request(request, DeleteRecordsResponse)
            return {
                TopicPartition(topic.name, row.partition_index): Errors.of(row.error_code)
                if row.error_code
                else row.low_watermark
                for topic in answer.topics
                for row in topic.partitions
            }

        return await ask_leaders(self._cluster, before, ask, self._timeout_s)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if topic.replicas else topic.partitions,
        replication_factor=BROKER_DEFAULT if topic.replicas else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.replicas or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )
