"""The controller's requests as this broker carries them out: roles, ends of replicas, the view.

The order of effects matters: a topic's settings are known before its logs are made, and clients
are told of partitions by UpdateMetadata, which the controller sends first; a client that is
quicker than LeaderAndIsr gets NOT_LEADER_OR_FOLLOWER and asks again.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.metadata_cache import FULL, MetadataCache
from odradek.controller.channels import ControlResponse
from odradek.controller.configs import read_config, topic_entity
from odradek.controller.propagation import ControlRequest
from odradek.controller.store import ConnectionLost, MetadataStore, SessionLost
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.replicas import Replicas

RESPONSE_TO: Final[dict[type[ControlRequest], type[ControlResponse]]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
}

# How long a broker that seems to have no roles waits for them.
ROLES_SECONDS: Final = 2.0
# Logs made in one turn of the loop: some milliseconds.
SLICE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """One owner: the event loop. A controller sends one request at a time, but one that was
    deposed may still be sending when the next begins: the lock keeps their orders apart."""

    replicas: Replicas
    metadata: MetadataCache
    configs: DynamicConfigs
    store: MetadataStore
    hosting: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first roles have been given."""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def until_told(self, broker_id: int) -> None:
        """Wait for the view, and for our roles, which the controller sends right behind."""
        await self.metadata.wait_until(lambda view: broker_id in view.brokers, None)
        if self.metadata.view.hosts_any(broker_id):
            await self.hosting.wait()
            return
        # A controller of ours sends roles even to a broker that has none, Apache Kafka's does not.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.hosting.wait(), ROLES_SECONDS)

    async def obey(self, request: ControlRequest) -> ControlResponse:
        async with self._one_at_a_time:
            return await self._obey(request)

    async def _obey(self, request: ControlRequest) -> ControlResponse:
        try:
            if isinstance(request, LeaderAndIsrRequest):
                return await self._become(request)
            if isinstance(request, StopReplicaRequest):
                return self._stop(request)
            return self._update(request)
        except KafkaError as error:
            return _refused(request, error.error)
        except (ConnectionLost, SessionLost):
            # A topic's settings cannot be read now, and without them it could take records that
            # too few replicas have. Nothing is done yet; the controller sends this order again.
            return _refused(request, Errors.REQUEST_TIMED_OUT)

    async def _become(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        for topic in request.topic_states:
            await self._learn_settings(topic)
        merged = LeaderAndIsrResponse(error_code=Errors.NONE)
        for part in _slices(request):
            done = self.replicas.become(part)
            merged.partition_errors += done.partition_errors
            merged.topics += done.topics
            await asyncio.sleep(0)
        self.hosting.set()
        return merged

    async def _learn_settings(self, topic: LeaderAndIsrTopicState) -> None:
        """What a new topic was created with; later changes come through notifications."""
        is_hosted = any(
            self.replicas.find(TopicPartition(topic.topic_name, state.partition_index))
            for state in topic.partition_states
        )
        if not is_hosted:
            config = await read_config(self.store, topic_entity(topic.topic_name))
            self.configs.expect_topic(topic.topic_name, config)

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        response = self.replicas.stop(request)
        for topic in request.topic_states:
            if all(state.delete_partition for state in topic.partition_states):
                self.configs.forget_topic(topic.topic_name)
        return response

    def _update(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        if 0 <= request.broker_epoch < self.replicas.broker_epoch:
            raise KafkaError(Errors.STALE_BROKER_EPOCH)
        self.metadata.apply(request)
        if request.type == FULL:
            self._leave_what_moved_away()
        return UpdateMetadataResponse(error_code=Errors.NONE)

    def _leave_what_moved_away(self) -> None:
        """A broker that was taken for dead was not told to stop what was moved elsewhere. Its log
        stays: it is of use when the partition comes back, and nobody ordered that it be deleted."""
        for partition in self.replicas:
            told = self.metadata.view.partition(partition.where)
            if told is not None and partition.local_id not in told.replicas:
                self.replicas.leave(partition)


def _slices(request: LeaderAndIsrRequest) -> Iterator[LeaderAndIsrRequest]:
    """The same order in parts that do not hold up the event loop."""
    for topic in request.topic_states:
        for start in range(0, len(topic.partition_states), SLICE):
            part = LeaderAndIsrTopicState(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partition_states=topic.partition_states[start : start + SLICE],
            )
            yield LeaderAndIsrRequest(
                controller_id=request.controller_id,
                controller_epoch=request.controller_epoch,
                broker_epoch=request.broker_epoch,
                topic_states=[part],
                live_leaders=request.live_leaders,
            )


def _refused(request: ControlRequest, error: Errors) -> ControlResponse:
    if isinstance(request, LeaderAndIsrRequest):
        return LeaderAndIsrResponse(error_code=error)
    if isinstance(request, StopReplicaRequest):
        return StopReplicaResponse(error_code=error, partition_errors=[])
    return UpdateMetadataResponse(error_code=error)
