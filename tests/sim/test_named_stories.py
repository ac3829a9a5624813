"""Stories told on purpose: what once went wrong, or must never, in as few steps as it takes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from odradek.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.leader import Leader

from tests.sim.clients import ALL, Admin, Marks, Producer
from tests.sim.witness import Key, Witness
from tests.sim.world import Machine, World

WHERE = TopicPartition("t", 0)
PATIENCE_SECONDS = 60.0


class Stage:
    """Three brokers in peace, for a scene to disturb."""

    def __init__(self) -> None:
        self.world = World(1, 3, trace=None)
        self.witness = Witness(self.world)
        self.machines = self.world.machines
        self.marks = Marks()
        self._admin = Admin(self.world, self.witness, 1)

    async def begin(self) -> None:
        for machine in self.machines.values():
            machine.start()
        await self.until(lambda: all(m.is_ready for m in self.machines.values()))

    async def make(self, name: str, replicas: tuple[int, ...]) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic])
        while not await self._admin.ask(request, CreateTopicsResponse):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    def produce(self) -> Producer:
        """Until its `is_over` is set."""
        producer = Producer(
            self.world,
            self.witness,
            10,
            where=WHERE,
            marks=self.marks,
            acks=ALL,
            is_idempotent=True,
            pace_seconds=0.05,
        )
        producer.start()
        return producer

    @property
    def acknowledged(self) -> int:
        return sum(sent.offset is not None for sent in self.marks.sent.values())

    @property
    def controller(self) -> Machine:
        return next(m for m in self.machines.values() if m.broker and m.broker.is_controller)

    def leader(self) -> Machine | None:
        state = self.world.stored_state(WHERE)
        return None if state is None else self.machines.get(state.leader)

    def role(self, machine: Machine) -> Leader | None:
        found = [p.role for p in machine.partitions() if p.where == WHERE]
        return found[0] if found and isinstance(found[0], Leader) else None

    def in_sync(self) -> set[int]:
        state = self.world.stored_state(WHERE)
        return set() if state is None else set(state.isr)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # Virtual time: nothing is waited for, and no event tells of all that may be meant.
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
def play() -> Callable[[Callable[[Stage], Awaitable[None]]], None]:
    def run(scene: Callable[[Stage], Awaitable[None]]) -> None:
        stage = Stage()

        async def whole() -> None:
            await stage.begin()
            await scene(stage)

        try:
            stage.world.loop.run_until_complete(whole())
        finally:
            stage.world.loop.finish()
        assert not stage.world.failures

    return run


def test_orders_for_an_earlier_life_are_not_obeyed(play):
    async def scene(stage: Stage) -> None:
        struck = next(m for m in stage.machines.values() if m is not stage.controller)
        struck.kill()
        # The controller has not noticed yet: it goes on telling the life that is over.
        await stage.make("t", (1, 2, 3))
        struck.start()
        # The witness looks whether it hosts anything before it is registered.
        await stage.until(lambda: struck.is_ready and stage.in_sync() == {1, 2, 3})

    play(scene)


def test_a_leader_that_restarts_between_two_controllers_leads_in_a_new_epoch(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", (1, 2, 3))
        before = stage.world.stored_state(WHERE)
        assert before is not None
        producer = stage.produce()
        await stage.until(lambda: stage.acknowledged > 20)
        for machine in stage.machines.values():
            machine.kill()
        for machine in stage.machines.values():
            machine.start()
        done = stage.acknowledged
        await stage.until(lambda: stage.acknowledged > done + 20)
        producer.is_over = True
        after = stage.world.stored_state(WHERE)
        assert after is not None
        assert after.leader_epoch > before.leader_epoch

    play(scene)


def test_a_frozen_leader_wakes_up_as_a_follower_and_takes_its_unsaid_words_back(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", (1, 2, 3))
        producer = stage.produce()
        await stage.until(lambda: stage.acknowledged > 20)
        old = stage.leader()
        assert old is not None
        old.freeze()
        await stage.until(lambda: stage.leader() not in (None, old))
        done = stage.acknowledged
        await stage.until(lambda: stage.acknowledged > done + 20)
        old.thaw()
        await stage.until(lambda: stage.in_sync() == {1, 2, 3})
        assert stage.role(old) is None
        producer.is_over = True

    play(scene)


def test_a_leader_that_loses_its_power_loses_nothing_that_was_acknowledged(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", (1, 2, 3))
        producer = stage.produce()
        await stage.until(lambda: stage.acknowledged > 50)
        struck = stage.leader()
        assert struck is not None
        struck.cut_power()
        stage.witness.lost_power(struck)
        await stage.until(lambda: struck.id not in stage.in_sync())
        stage.witness.powerless.discard(struck.id)
        struck.start()
        await stage.until(lambda: stage.in_sync() == {1, 2, 3})
        producer.is_over = True
        await stage.until(producer.task.done)
        topic = stage.world.stored_topics()["t"]
        history = stage.witness.history(Key(topic.topic_id, WHERE))
        assert len(history.batches) == len(stage.marks.sent)

    play(scene)
