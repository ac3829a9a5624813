"""A cluster of twin brokers on one in-memory store, each with a real controller.

A `TwinBroker` obeys control requests as a broker must: it refuses old controllers and requests
for an earlier life, takes roles by leader epoch, and deletes what it is told to. It keeps no data.
`Cluster.send` is the network between them, and can be cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from odradek.controller import paths
from odradek.controller.channels import ControlResponse
from odradek.controller.controller import Controller
from odradek.controller.desk import ControllerSettings
from odradek.controller.image import Broker
from odradek.controller.propagation import EPOCH_DURING_DELETION, FULL, ControlRequest
from odradek.controller.registration import Registration, prepare
from odradek.controller.store import Operation, Result, StoreError
from odradek.controller.store_embedded import EmbeddedSession, EmbeddedStore
from odradek.controller.topics import TopicRules
from odradek.controller.znodes import (
    LEADER_DURING_DELETION,
    BrokerRegistration,
    PartitionState,
    TopicAssignment,
)
from odradek.protocol.clock import ManualClock
from odradek.protocol.endpoints import Endpoint, SecurityProtocol
from odradek.protocol.errors import Errors
from odradek.protocol.messages.replicas import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Role:
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    topic_id: bytes


class TwinBroker:
    def __init__(self, broker_id: int, session: EmbeddedSession) -> None:
        self.id = broker_id
        self.session = session
        self.epoch = -1
        self.controller_epoch = 0
        self.roles: dict[TopicPartition, Role] = {}
        self.logs: set[TopicPartition] = set()
        self.metadata: dict[TopicPartition, UpdateMetadataPartitionState] = {}
        self.live_brokers: list[int] = []
        self.failed: set[TopicPartition] = set()
        self.heard: list[ControlRequest] = []
        self.is_reachable = True

    async def handle(self, request: ControlRequest) -> ControlResponse:
        self.heard.append(request)
        error = self._fence(request)
        match request:
            case LeaderAndIsrRequest():
                return self._take_roles(request, error)
            case StopReplicaRequest():
                return self._stop(request, error)
            case UpdateMetadataRequest():
                if not error:
                    self._learn(request)
                return UpdateMetadataResponse(error_code=error)

    def _fence(self, request: ControlRequest) -> Errors:
        if request.controller_epoch < self.controller_epoch:
            return Errors.STALE_CONTROLLER_EPOCH
        if request.broker_epoch < self.epoch:
            return Errors.STALE_BROKER_EPOCH
        self.controller_epoch = request.controller_epoch
        return Errors.NONE

    def _take_roles(self, request: LeaderAndIsrRequest, error: Errors) -> LeaderAndIsrResponse:
        topics = []
        for topic in [] if error else request.topic_states:
            outcomes = [
                self._take_role(topic.topic_name, topic.topic_id, state)
                for state in topic.partition_states
            ]
            topics.append(
                LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=outcomes)
            )
        return LeaderAndIsrResponse(error_code=error, topics=topics)

    def _take_role(
        self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState
    ) -> LeaderAndIsrPartitionError:
        where = TopicPartition(topic, state.partition_index)
        if where in self.failed:
            return LeaderAndIsrPartitionError(
                partition_index=where.partition, error_code=Errors.KAFKA_STORAGE_ERROR
            )
        known = self.roles.get(where)
        if known is None or state.leader_epoch > known.leader_epoch:
            self.roles[where] = Role(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                state.partition_epoch,
                tuple(state.replicas),
                topic_id,
            )
        self.logs.add(where)
        return LeaderAndIsrPartitionError(partition_index=where.partition, error_code=0)

    def _learn(self, request: UpdateMetadataRequest) -> None:
        self.live_brokers = [broker.id for broker in request.live_brokers]
        for topic in request.topic_states:
            for state in topic.partition_states:
                where = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == LEADER_DURING_DELETION:
                    self.metadata.pop(where, None)
                else:
                    self.metadata[where] = state

    def _stop(self, request: StopReplicaRequest, error: Errors) -> StopReplicaResponse:
        answers = []
        for topic in [] if error else request.topic_states:
            for state in topic.partition_states:
                where = TopicPartition(topic.topic_name, state.partition_index)
                known = self.roles.get(where)
                is_old = known is not None and state.leader_epoch < known.leader_epoch
                if is_old and state.leader_epoch != EPOCH_DURING_DELETION:
                    outcome = Errors.FENCED_LEADER_EPOCH
                else:
                    outcome = Errors.NONE
                    self.roles.pop(where, None)
                    if state.delete_partition:
                        self.logs.discard(where)
                answers.append(
                    StopReplicaPartitionError(
                        topic_name=where.topic, partition_index=where.partition, error_code=outcome
                    )
                )
        return StopReplicaResponse(error_code=error, partition_errors=answers)


@dataclass(slots=True)
class Member:
    twin: TwinBroker
    controller: Controller
    registration: Registration


class CheckedStore(EmbeddedStore):
    """Checks what must hold after every commit."""

    def __init__(self) -> None:
        super().__init__(clock=ManualClock())
        self._epochs: dict[tuple[bytes, int], int] = {}
        self._controller_epoch = 0

    def commit(self, operations: Sequence[Operation], *, session: int) -> list[Result]:
        results = super().commit(operations, session=session)
        self.check()
        return results

    def check(self) -> None:
        epoch = self.tree.find(paths.CONTROLLER_EPOCH)
        if epoch is not None:
            assert int(epoch.data) >= self._controller_epoch, "a controller epoch went back"
            self._controller_epoch = int(epoch.data)
        for name in self.tree.names(paths.TOPICS) or ():
            self._check_topic(name, TopicAssignment.decode(self.tree.node(paths.topic(name)).data))

    def _check_topic(self, name: str, topic: TopicAssignment) -> None:
        for where, state in self.states(name).items():
            replicas = topic.partitions[where.partition].replicas
            assert state.isr, f"{where} has nobody in sync"
            assert state.leader in (-1, *state.isr), f"{where} is led from outside the ISR"
            assert set(state.isr) <= set(replicas), f"{where} is in sync outside its replicas"
            key = (topic.topic_id, where.partition)
            assert state.leader_epoch >= self._epochs.get(key, 0), f"{where}'s epoch went back"
            self._epochs[key] = state.leader_epoch

    def states(self, name: str) -> dict[TopicPartition, PartitionState]:
        found = {}
        for index in self.tree.names(paths.partitions(name)) or ():
            where = TopicPartition(name, int(index))
            stored = self.tree.find(paths.partition_state(where))
            if stored is not None:
                found[where] = PartitionState.decode(stored.data, stored.version)
        return found

    def topics(self) -> list[str]:
        return self.tree.names(paths.TOPICS) or []


class Cluster:
    def __init__(self, store: EmbeddedStore | None = None, **settings: object) -> None:
        self.clock = ManualClock()
        self.store = store or CheckedStore()
        self.admin = self.store.session()
        self.members: dict[int, Member] = {}
        self._settings = settings
        self._random = Random(7)
        self._ids = iter(range(1, 1_000_000))

    async def start(self, *broker_ids: int, racks: dict[int, str] | None = None) -> None:
        for broker_id in broker_ids:
            session = self.store.session()
            await prepare(session)
            twin = TwinBroker(broker_id, session)
            registration = Registration(session, broker_id=broker_id)
            rack = (racks or {}).get(broker_id)
            twin.epoch = await registration.register(node(broker_id, rack), patience_seconds=5)
            controller = Controller(
                store=session,
                settings=replace(ControllerSettings(broker_id), **self._settings),
                rules=TopicRules(),
                send=self.send,
                clock=self.clock,
                random=self._random,
                new_id=lambda: next(self._ids).to_bytes(16, "big"),
            )
            self.members[broker_id] = Member(twin, controller, registration)
            controller.start()

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        member = self.members.get(broker.id)
        await asyncio.sleep(0)
        if member is None or not member.twin.is_reachable:
            raise ConnectionRefusedError(f"broker {broker.id} is away")
        return await member.twin.handle(request)

    async def kill(self, broker_id: int) -> None:
        """The broker is gone at once; the store notices, as after a session timeout."""
        member = self.members.pop(broker_id)
        crash = asyncio.create_task(member.controller.close())
        member.twin.session.suspend()
        await crash
        await member.twin.session.close()

    async def bounce(self, broker_id: int) -> None:
        """The broker restarts before the store has noticed that it was gone."""
        member = self.members[broker_id]
        member.twin.roles.clear()
        await member.twin.session.delete(paths.broker(broker_id))
        member.twin.epoch = await member.registration.register(node(broker_id), patience_seconds=5)

    async def stop(self) -> None:
        for member in list(self.members.values()):
            await member.controller.close()
        await self.store.close()

    @property
    def controller(self) -> Controller:
        (active,) = [m.controller for m in self.members.values() if m.controller.is_active]
        return active

    @property
    def controller_id(self) -> int:
        (active,) = [b for b, m in self.members.items() if m.controller.is_active]
        return active

    def twin(self, broker_id: int) -> TwinBroker:
        return self.members[broker_id].twin

    async def elected(self) -> int:
        await until(lambda: any(m.controller.is_active for m in self.members.values()))
        return self.controller_id

    async def leader_is(self, leader: int, where: TopicPartition, epoch: int | None = None) -> None:
        """Wait until every living broker knows this leader."""

        def known() -> bool:
            states = [m.twin.metadata.get(where) for m in self.members.values()]
            return all(
                s is not None and s.leader == leader and epoch in (None, s.leader_epoch)
                for s in states
            )

        await until(known)

    async def node(self, path: str) -> bytes | None:
        try:
            return (await self.admin.get(path))[0]
        except StoreError:
            return None


def node(broker_id: int, rack: str | None = None) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, f"host{broker_id}", 9092)
    return BrokerRegistration((endpoint,), 0, rack)


async def until(condition: Callable[[], bool]) -> None:
    """Let everything that is ready run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (turns of the loop, not a wait)
            await asyncio.sleep(0)


def play(scene: Callable[[Cluster], Awaitable[None]], **settings: object) -> None:
    async def run() -> None:
        cluster = Cluster(**settings)
        try:
            await scene(cluster)
        finally:
            await cluster.stop()

    asyncio.run(run())


def full_requests(twin: TwinBroker) -> list[LeaderAndIsrRequest]:
    return [r for r in twin.heard if isinstance(r, LeaderAndIsrRequest) and r.type == FULL]
