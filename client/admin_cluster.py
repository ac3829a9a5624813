"""The cluster itself: brokers, log directories, elections and reassignments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from odradek.client.admin_base import AdminBase, Results, check, failure
from odradek.client.assignors import by_topic
from odradek.client.negotiation import ServerVersions
from odradek.client.view import Node
from odradek.protocol.errors import Errors
from odradek.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error: Errors
    replicas: Mapping[TopicPartition, ReplicaSize]
    total_bytes: int
    usable_bytes: int


class Election(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ClusterAdmin(AdminBase):
    async def describe_cluster(self) -> ClusterDescription:
        await self._retry(self._cluster.refresh)
        view = self._cluster.view
        nodes = tuple(sorted(view.nodes.values(), key=lambda node: node.id))
        return ClusterDescription(view.cluster_id, view.nodes.get(view.controller_id), nodes)

    async def api_versions(self) -> dict[int, ServerVersions]:
        """What each broker speaks, by its id."""
        return {node: row.versions for node, row in (await self._connections()).items()}

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, list[LogDir]]:
        """Log directories with the replicas in them, of these brokers or of all."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
        request = DescribeLogDirsRequest(topics=topics)
        await self._retry(self._cluster.refresh)
        found: dict[int, list[LogDir]] = {}
        for broker in self._cluster.view.nodes if brokers is None else brokers:
            answer = await self._ask_broker(broker, request, DescribeLogDirsResponse)
            check(answer.error_code)
            found[broker] = [
                LogDir(
                    row.log_dir,
                    Errors.of(row.error_code),
                    {
                        TopicPartition(topic.name, p.partition_index): ReplicaSize(
                            p.partition_size, p.offset_lag, p.is_future_key
                        )
                        for topic in row.topics
                        for p in topic.partitions
                    },
                    row.total_bytes,
                    row.usable_bytes,
                )
                for row in answer.results
            ]
        return found

    async def move_replicas(
        self, broker: int, paths: Mapping[TopicPartition, str]
    ) -> Results[TopicPartition, None]:
        """Move replicas of one broker to other log directories."""
        by_path: dict[str, list[TopicPartition]] = {}
        for partition, path in paths.items():
            by_path.setdefault(path, []).append(partition)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=indexes)
                        for name, indexes in by_topic(partitions).items()
                    ],
                )
                for path, partitions in by_path.items()
            ]
        )
        answer = await self._ask_broker(broker, request, AlterReplicaLogDirsResponse)
        return {
            TopicPartition(topic.topic_name, row.partition_index): failure(row.error_code)
            for topic in answer.results
            for row in topic.partitions
        }

    async def elect_leaders(
        self,
        election: Election = Election.PREFERRED,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> Results[TopicPartition, None]:
        """Elect leaders of these partitions or of all; ELECTION_NOT_NEEDED where all is well."""
        topics = None
        if partitions is not None:
            topics = [
                ElectLeadersTopicPartitions(topic=name, partitions=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
        request = ElectLeadersRequest(
            election_type=election, topic_partitions=topics, timeout_ms=self._timeout_ms
        )
        answer = await self._ask_controller(request, ElectLeadersResponse, lambda a: [a.error_code])
        check(answer.error_code)
        return {
            TopicPartition(topic.topic, row.partition_id): failure(
                row.error_code, row.error_message
            )
            for topic in answer.replica_election_results
            for row in topic.partition_result
        }

    async def reassign_partitions(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to these brokers; None cancels a move."""
        topics: dict[str, list[ReassignablePartition]] = {}
        for (name, index), brokers in replicas.items():
            row = ReassignablePartition(
                partition_index=index, replicas=None if brokers is None else list(brokers)
            )
            topics.setdefault(name, []).append(row)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=[ReassignableTopic(name=n, partitions=rows) for n, rows in topics.items()],
        )
        answer = await self._ask_controller(
            request, AlterPartitionReassignmentsResponse, lambda a: [a.error_code]
        )
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, told.partition_index): failure(
                told.error_code, told.error_message
            )
            for topic in answer.responses
            for told in topic.partitions
        }

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The moves that are going on."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        answer = await self._ask_controller(
            request, ListPartitionReassignmentsResponse, lambda a: [a.error_code]
        )
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }
