"""CreateTopics, DeleteTopics and CreatePartitions: what the controller does for clients.

Only the controller's broker answers; others say NOT_CONTROLLER and clients ask again there. An
answer is sent when this broker can serve what was made, and the others had a moment to hear of it,
so that a client may use it at once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.broker.config_report import Entry, describe_topic
from odradek.broker.context import RequestContext
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.admin_requests import (
    TopicOutcome,
    create_partitions,
    create_topics,
    delete_topics,
)
from odradek.controller.controller import Controller
from odradek.controller.topics import DEFAULT, Growth, NewTopic
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.types import NO_ID

_FIRST_WITH_DEFAULTS: Final = 4
_FIRST_WITH_CONFIGS: Final = 5
_FIRST_WITH_DELETION_DISABLED: Final = 3


class TopicsHandler:
    def __init__(
        self, *, controller: Controller, configs: DynamicConfigs, metadata: MetadataCache
    ) -> None:
        self._controller = controller
        self._configs = configs
        self._metadata = metadata

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(CreateTopicsRequest, versions_of("0-7"), self.create, create_failed)
        yield Route(DeleteTopicsRequest, versions_of("0-6"), self.delete, delete_failed)
        yield Route(CreatePartitionsRequest, versions_of("0-3"), self.grow, grow_failed)

    # Create ---------------------------------------------------------------------------------

    async def create(
        self, request: CreateTopicsRequest, context: RequestContext
    ) -> CreateTopicsResponse:
        refused: list[TopicOutcome] = []
        wanted: list[NewTopic] = []
        for topic in request.topics:
            try:
                wanted.append(_new_topic(topic, context.version))
            except KafkaError as error:
                refused.append(TopicOutcome(topic.name, error.error, error.message))
        outcomes = await create_topics(
            self._controller,
            wanted,
            validate_only=request.validate_only,
            timeout_seconds=request.timeout_ms / 1000,
        )
        configs = {new.name: {k: v or "" for k, v in new.configs.items()} for new in wanted}
        return CreateTopicsResponse(
            topics=[
                self._created(outcome, configs.get(outcome.name, {}), context.version)
                for outcome in [*outcomes, *refused]
            ]
        )

    def _created(
        self, outcome: TopicOutcome, overrides: dict[str, str], version: int
    ) -> CreatableTopicResult:
        result = CreatableTopicResult(
            name=outcome.name,
            topic_id=outcome.topic_id,
            error_code=outcome.error,
            error_message=outcome.message,
        )
        if outcome.error is Errors.NONE:
            result.num_partitions = outcome.partitions
            result.replication_factor = outcome.replication_factor
            if version >= _FIRST_WITH_CONFIGS:
                entries = describe_topic(self._configs.broker, overrides)
                result.configs = [_config(entry) for entry in entries]
        return result

    # Delete ---------------------------------------------------------------------------------

    async def delete(
        self, request: DeleteTopicsRequest, context: RequestContext
    ) -> DeleteTopicsResponse:
        if not self._configs.broker.delete_topic_enable:
            disabled = Errors.TOPIC_DELETION_DISABLED
            if context.version < _FIRST_WITH_DELETION_DISABLED:
                disabled = Errors.INVALID_REQUEST
            raise KafkaError(disabled, "delete.topic.enable is false")
        results = [_found_by(state.name, state.topic_id) for state in request.topics]
        results += [_found_by(name, NO_ID) for name in request.topic_names]
        named = [self._named(result) for result in results]
        names = [result.name or "" for result in named if not result.error_code]
        outcomes = {
            outcome.name: outcome
            for outcome in await delete_topics(
                self._controller, names, timeout_seconds=request.timeout_ms / 1000
            )
        }
        for result in named:
            if not result.error_code:
                outcome = outcomes[result.name or ""]
                result.error_code, result.error_message = outcome.error, outcome.message
        return DeleteTopicsResponse(responses=_without_repeats(named))

    def _named(self, result: DeletableTopicResult) -> DeletableTopicResult:
        """Find the name that belongs to an id."""
        if result.name is not None and result.topic_id != NO_ID:
            result.error_code = Errors.INVALID_REQUEST
        elif result.name is None:
            topic = self._metadata.view.topic("", result.topic_id)
            if topic is None:
                result.error_code = Errors.UNKNOWN_TOPIC_ID
            else:
                result.name = topic.name
        return result

    # Grow -----------------------------------------------------------------------------------

    async def grow(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        outcomes = await create_partitions(
            self._controller,
            [_growth(topic) for topic in request.topics],
            validate_only=request.validate_only,
            timeout_seconds=request.timeout_ms / 1000,
        )
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=outcome.name, error_code=outcome.error, error_message=outcome.message
                )
                for outcome in outcomes
            ]
        )


def _new_topic(topic: CreatableTopic, version: int) -> NewTopic:
    if version < _FIRST_WITH_DEFAULTS and not topic.assignments:
        # Before v4 a count had to be given; -1 meant that the replicas are.
        if topic.num_partitions == DEFAULT:
            raise KafkaError(Errors.INVALID_PARTITIONS, "the number of partitions is missing")
        if topic.replication_factor == DEFAULT:
            raise KafkaError(Errors.INVALID_REPLICATION_FACTOR, "the replication factor is missing")
    twice = [name for name, n in Counter(c.name for c in topic.configs).items() if n > 1]
    if twice:
        raise KafkaError(Errors.INVALID_REQUEST, f"settings are named twice: {', '.join(twice)}")
    assignments = {a.partition_index: tuple(a.broker_ids) for a in topic.assignments}
    if len(assignments) < len(topic.assignments):
        raise KafkaError(Errors.INVALID_REPLICA_ASSIGNMENT, "a partition is named twice")
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments,
        {config.name: config.value for config in topic.configs},
    )


def _config(entry: Entry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.text,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.setting.secret,
    )


def _growth(topic: CreatePartitionsTopic) -> Growth:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in topic.assignments]
    return Growth(topic.name, topic.count, assignments)


def _found_by(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=0)


def _without_repeats(results: Sequence[DeletableTopicResult]) -> list[DeletableTopicResult]:
    kept: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for result in results:
        kept.setdefault((result.name, result.topic_id), result)
    return list(kept.values())


def create_failed(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name, error_code=error.error, error_message=error.message
            )
            for topic in request.topics
        ]
    )


def delete_failed(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    states = [(state.name, state.topic_id) for state in request.topics]
    states += [(name, NO_ID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=id_, error_code=error.error, error_message=error.message
            )
            for name, id_ in states
        ]
    )


def grow_failed(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=topic.name, error_code=error.error, error_message=error.message
            )
            for topic in request.topics
        ]
    )
