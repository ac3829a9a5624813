"""Random lives of a cluster: whatever happens, the store stays sound, and calm brings order back.

Each seed is one story of kills, restarts, lost sessions, cut connections, topics made, grown, moved
and deleted. Every single commit is checked; at the end everything is healed and must converge.
"""

import asyncio
from random import Random

import pytest
from odradek.controller import paths
from odradek.controller.admin_requests import (
    alter_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
)
from odradek.controller.broker_requests import alter_partition, controlled_shutdown
from odradek.controller.store import SessionState
from odradek.controller.topics import Growth, NewTopic
from odradek.controller.znodes import PartitionState, TopicAssignment
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.replicas import ControlledShutdownRequest
from odradek.protocol.types import TopicPartition

from tests.unit.controller.cluster import CheckedStore, Cluster, node

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b", "c")


class Story:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = CheckedStore()
        self.cluster = Cluster(self.store, deletion_retry_seconds=0.02)
        self.asked: set[asyncio.Task[object]] = set()

    async def run(self, steps: int) -> None:
        try:
            await self.cluster.start(*BROKERS)
            for _ in range(steps):
                await self._step()
                for _ in range(self.random.randrange(12)):
                    await asyncio.sleep(0)
            await self._heal()
            await self._converge()
        finally:
            for task in self.asked:
                task.cancel()
            await asyncio.gather(*self.asked, return_exceptions=True)
            await self.cluster.stop()

    async def _step(self) -> None:
        act = self.random.choice(
            [
                *[self._kill, self._start, self._bounce, self._expire, self._cut, self._reconnect],
                *[self._create, self._create, self._grow, self._delete, self._move],
                *[self._change_isr] * 3,
                self._shut_down,
            ]
        )
        await act()

    def _pick(self) -> int | None:
        return self.random.choice(sorted(self.cluster.members)) if self.cluster.members else None

    async def _kill(self) -> None:
        if len(self.cluster.members) > 1:
            await self.cluster.kill(self._pick() or 0)

    async def _start(self) -> None:
        away = [b for b in BROKERS if b not in self.cluster.members]
        if away:
            await self.cluster.start(self.random.choice(away))

    async def _bounce(self) -> None:
        broker = self._pick()
        if broker is not None and self._is_connected(broker):
            await self.cluster.bounce(broker)

    async def _expire(self) -> None:
        broker = self._pick()
        if broker is None:
            return
        member = self.cluster.members[broker]
        member.twin.session.expire()
        member.twin.roles.clear()
        epoch = await member.registration.register(node(broker), patience_seconds=5)
        member.twin.epoch = epoch

    async def _cut(self) -> None:
        broker = self._pick()
        if broker is not None:
            self.cluster.twin(broker).session.suspend()

    async def _reconnect(self) -> None:
        for member in self.cluster.members.values():
            if member.twin.session.state is SessionState.SUSPENDED:
                member.twin.session.resume()

    def _is_connected(self, broker: int) -> bool:
        return self.cluster.twin(broker).session.state is SessionState.CONNECTED

    def _ask(self, call) -> None:
        """Ask without waiting: much may happen before the answer."""
        for member in self.cluster.members.values():
            if member.controller.is_active:
                task = asyncio.create_task(call(member.controller))
                self.asked.add(task)
                task.add_done_callback(self.asked.discard)

    async def _create(self) -> None:
        name, factor = self.random.choice(TOPICS), self.random.randint(1, 3)
        new = NewTopic(name, partitions=self.random.randint(1, 3), replication_factor=factor)
        self._ask(lambda controller: create_topics(controller, [new], timeout_seconds=1))

    async def _grow(self) -> None:
        growth = Growth(self.random.choice(TOPICS), self.random.randint(1, 5))
        self._ask(lambda controller: create_partitions(controller, [growth], timeout_seconds=1))

    async def _delete(self) -> None:
        name = self.random.choice(TOPICS)
        self._ask(lambda controller: delete_topics(controller, [name], timeout_seconds=1))

    async def _move(self) -> None:
        replicas = self.random.sample(BROKERS, self.random.randint(1, 3))
        wanted = None if self.random.random() < 0.2 else replicas
        partition = ReassignablePartition(partition_index=0, replicas=wanted)
        topic = ReassignableTopic(name=self.random.choice(TOPICS), partitions=[partition])
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        self._ask(lambda controller: alter_reassignments(controller, request))

    async def _shut_down(self) -> None:
        broker = self._pick()
        if broker is not None:
            epoch = self.cluster.twin(broker).epoch
            request = ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
            self._ask(lambda controller: controlled_shutdown(controller, request))

    async def _change_isr(self) -> None:
        for name in self.store.topics():
            for where, state in self.store.states(name).items():
                replicas = self._replicas(where)
                extra = [b for b in replicas if self.random.random() < 0.5]
                self._ask_isr(where, state, {state.leader, *extra})

    def _replicas(self, where: TopicPartition) -> tuple[int, ...]:
        topic = TopicAssignment.decode(self.store.tree.node(paths.topic(where.topic)).data)
        return topic.partitions[where.partition].replicas

    def _ask_isr(self, where: TopicPartition, state: PartitionState, members: set[int]) -> None:
        """As the leader would: it knows the lives of those it lets in."""
        if state.leader not in self.cluster.members:
            return
        topic = TopicAssignment.decode(self.store.tree.node(paths.topic(where.topic)).data)
        lives = {b: m.twin.epoch for b, m in self.cluster.members.items()}
        data = AlterPartitionPartitionData(
            partition_index=where.partition,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=b, broker_epoch=lives.get(b, -1)) for b in sorted(members)
            ],
            partition_epoch=state.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=lives[state.leader],
            topics=[AlterPartitionTopicData(topic_id=topic.topic_id, partitions=[data])],
        )
        self._ask(lambda controller: alter_partition(controller, request))

    async def _heal(self) -> None:
        await self._reconnect()
        for broker in BROKERS:
            if broker not in self.cluster.members:
                await self.cluster.start(broker)
        # A broker that asked to stop and then did not is trusted again in its next life.
        for broker in BROKERS:
            await self.cluster.bounce(broker)

    async def _converge(self) -> None:
        """Followers catch up until all are in sync, moves end, deletions end, all know it."""
        async with asyncio.timeout(20):
            while not self._is_calm():
                for name in self.store.topics():
                    for where, state in self.store.states(name).items():
                        replicas = set(self._replicas(where))
                        if set(state.isr) != replicas:
                            self._ask_isr(where, state, replicas)
                for _ in range(20):
                    await asyncio.sleep(0)
                if self.asked:
                    await asyncio.wait(self.asked, timeout=0.05)

    def _is_calm(self) -> bool:
        if self.store.tree.names(paths.DELETE_TOPICS):
            return False
        expected = {}
        for name in self.store.topics():
            topic = TopicAssignment.decode(self.store.tree.node(paths.topic(name)).data)
            states = self.store.states(name)
            for index, assignment in topic.partitions.items():
                where = TopicPartition(name, index)
                state = states.get(where)
                if assignment.is_moving or state is None:
                    return False
                if state.leader < 0 or set(state.isr) != set(assignment.replicas):
                    return False
                expected[where] = (state, assignment.replicas)
        return all(self._knows(broker, expected) for broker in BROKERS)

    def _knows(self, broker: int, expected) -> bool:
        twin = self.cluster.twin(broker)
        seen = {w: (m.leader, m.leader_epoch, tuple(m.isr)) for w, m in twin.metadata.items()}
        if seen != {w: (s.leader, s.leader_epoch, s.isr) for w, (s, _) in expected.items()}:
            return False
        mine = {w: (s.leader, s.leader_epoch) for w, (s, r) in expected.items() if broker in r}
        return mine == {w: (role.leader, role.leader_epoch) for w, role in twin.roles.items()}


@pytest.mark.parametrize("seed", range(15))
def test_a_random_life_ends_in_order(seed):
    asyncio.run(Story(seed).run(steps=60))
