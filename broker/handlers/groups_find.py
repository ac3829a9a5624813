"""FindCoordinator: which broker keeps a group or a transactional id.

It is the leader of the partition of the internal topic that the key falls into. A topic that is
not there yet is created, and the answer waits for that a while; when the partition has no leader
then, it is COORDINATOR_NOT_AVAILABLE, and clients ask again.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.placement import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from odradek.broker.metadata_cache import ClusterView, MetadataCache
from odradek.broker.network.peer import Address
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.groups import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.schema import versions_of

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
TOPICS: Final[Mapping[int, str]] = {
    GROUP_KEY: GROUP_TOPIC,
    TRANSACTION_KEY: TRANSACTION_TOPIC,
}

_FIRST_OF_MANY_KEYS: Final = 4
_NO_NODE: Final = -1
_NO_ADDRESS: Final = Address("", -1)

# Creates an internal topic, and returns when it is there or will not be soon.
EnsureTopic = Callable[[str], Awaitable[object]]
# Where a client of this request reaches a broker; None: not by the way it came.
Locate = Callable[[ClusterView, int, RequestContext], Address | None]


class FindCoordinatorHandler:
    def __init__(
        self,
        *,
        metadata: MetadataCache,
        locate: Locate,
        ensure_internal_topic: EnsureTopic,
        key_types: frozenset[int] = frozenset(TOPICS),
    ) -> None:
        """`key_types` are those for which this cluster has coordinators."""
        self._metadata = metadata
        self._locate = locate
        self._ensure_internal_topic = ensure_internal_topic
        self._key_types = key_types

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(FindCoordinatorRequest, versions_of("0-6"), self.find, failed)

    def find(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
        name = TOPICS.get(request.key_type) if request.key_type in self._key_types else None
        if name is None or name in self._metadata.view.topics:
            return self._answer(request, context)
        return self._create_and_answer(name, request, context)

    async def _create_and_answer(
        self, name: str, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        await self._ensure_internal_topic(name)
        return self._answer(request, context)

    def _answer(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        if context.version >= _FIRST_OF_MANY_KEYS:
            found = [self._find(key, request.key_type, context) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found)
        one = self._find(request.key, request.key_type, context)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _find(self, key: str, key_type: int, context: RequestContext) -> FindCoordinatorCoordinator:
        try:
            node_id, address = self._coordinator(key, key_type, context)
        except KafkaError as error:
            return _not_found(key, error)
        return FindCoordinatorCoordinator(
            key=key,
            node_id=node_id,
            host=address.host,
            port=address.port,
            error_message="",
        )

    def _coordinator(self, key: str, key_type: int, context: RequestContext) -> tuple[int, Address]:
        if key_type not in self._key_types:
            raise KafkaError(
                Errors.INVALID_REQUEST, f"there are no coordinators of type {key_type}"
            )
        view = self._metadata.view
        topic = view.topics.get(TOPICS[key_type])
        if topic is not None:
            partition = topic.partitions.get(partition_for(key, len(topic.partitions)))
            if partition is not None:
                address = self._locate(view, partition.leader, context)
                if address is not None:
                    return partition.leader, address
        raise KafkaError(Errors.COORDINATOR_NOT_AVAILABLE)


def _not_found(key: str, error: KafkaError) -> FindCoordinatorCoordinator:
    return FindCoordinatorCoordinator(
        key=key,
        node_id=_NO_NODE,
        host=_NO_ADDRESS.host,
        port=_NO_ADDRESS.port,
        error_code=error.error,
        error_message=error.message,
    )


def failed(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=error.error,
        error_message=error.message,
        node_id=_NO_NODE,
        host=_NO_ADDRESS.host,
        port=_NO_ADDRESS.port,
        coordinators=[_not_found(key, error) for key in request.coordinator_keys],
    )
