"""One story from its seed: a cluster, its clients, what goes wrong, and how it ends.

A story has three parts: topics are made in peace; then clients work while the nemesis is about;
then everything is mended, clients finish, and the cluster must come to rest with every replica in
sync and equal. What must hold throughout is the witness's business; the end is judged here.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

from odradek.controller import paths
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.types import TopicPartition

from tests.sim.batches import Batch
from tests.sim.clients import ALL, Admin, Client, Consumer, Marks, Producer
from tests.sim.copier import Copier
from tests.sim.faults import Nemesis
from tests.sim.ledger import Ledger, Wish, copy_problem, order_problem
from tests.sim.loop import LIFE
from tests.sim.transactions import FIRST, SECOND, Name, Transactional
from tests.sim.witness import Copy, Key, Witness
from tests.sim.world import World

REPLICAS: Final = 3
PEACE_SECONDS: Final = 20.0
# How long the cluster may take to come to rest once everything works again.
REST_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
PASSING: Final = "passing"
ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
SHARE_WITH_TRANSACTIONS: Final = 0.5
# What goes wrong first tells most.
MAX_FAILURES: Final = 3


@dataclass(slots=True)
class Outcome:
    seed: int
    failures: list[str] = field(default_factory=list)
    batches: int = 0
    acknowledged: int = 0
    transactions: int = 0
    elections: int = 0
    steps: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        told = (
            f"seed {self.seed}: {self.batches} batches, {self.acknowledged} acknowledged, "
            f"{self.transactions} transactions, {self.elections} leaders, "
            f"{self.steps} steps, {self.seconds:.1f} s of virtual time"
        )
        return "\n  ".join([told, *self.failures[:MAX_FAILURES]])


class Story:
    def __init__(self, seed: int, *, trace: Callable[[str], None] | None = None) -> None:
        self._random = Random(f"story {seed}")
        self.outcome = Outcome(seed)
        brokers = self._random.choice((3, 3, 4))
        self.world = World(seed, brokers, trace=trace)
        self.witness = Witness(self.world)
        self._marks = Marks()
        # min.insync.replicas by topic.
        self._topics = {"two": 2, "one": 1} if self._random.random() < 0.5 else {"two": 2}
        self._partitions = self._random.randint(1, 2)
        self._clients: list[Client] = []
        self._admin = Admin(self.world, self.witness, 1)
        self._seconds = self._random.uniform(4.0, 16.0)
        self._ledger = Ledger()
        # Names of copiers, and what they copy.
        self._copied: dict[str, TopicPartition] = {}
        self._has_transactions = self._random.random() < SHARE_WITH_TRANSACTIONS
        if self._has_transactions:
            self._partitions = 2
            self._topics = {"two": 2, "one": 1}
            self._seconds = self._random.uniform(3.0, 9.0)
        self._handler = _Handler(self.world) if trace is not None else None

    def run(self) -> Outcome:
        with _logging_to(self._handler):
            try:
                self.world.loop.run_until_complete(self._play())
            finally:
                self._sum_up()
                self.world.loop.finish()
        return self.outcome

    def _sum_up(self) -> None:
        outcome, histories = self.outcome, self.witness.histories.values()
        outcome.failures = self.world.failures
        outcome.batches = len(self._marks.sent)
        outcome.acknowledged = sum(sent.offset is not None for sent in self._marks.sent.values())
        attempts = self._ledger.attempts
        outcome.transactions = sum(each.wish is Wish.COMMITTED for each in attempts)
        outcome.elections = sum(len(history.leaders) for history in histories)
        outcome.steps = self.world.loop.steps
        outcome.seconds = self.world.loop.time()

    async def _play(self) -> None:
        """To its end, or to the first thing that must not be."""
        playing = self.world.loop.create_task(self._parts())
        await asyncio.wait({playing, self.world.failed}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            playing.result()

    async def _parts(self) -> None:
        await self._begin()
        nemesis = Nemesis(self.world, self.witness, [each.life.host for each in self._clients])
        administering = self.world.loop.create_task(self._administer())
        await nemesis.run(self._seconds)
        administering.cancel()
        await nemesis.mend()
        for client in self._clients:
            client.is_over = True
        await self._until("producers are done", self._producers_are_done, REST_SECONDS)
        await self._until("all are in sync", self._is_at_rest, REST_SECONDS)
        self._judge()

    # In peace -------------------------------------------------------------------------------

    async def _begin(self) -> None:
        for machine in self.world.machines.values():
            machine.start()
        machines = self.world.machines.values()
        await self._until("brokers are ready", lambda: all(m.is_ready for m in machines))
        for topic, min_isr in self._topics.items():
            assert await self._make(topic, min_isr), f"{topic} could not be made"
        wheres = [TopicPartition(t, i) for t in self._topics for i in range(self._partitions)]
        for number, where in enumerate(wheres):
            self._add_clients(number * 10 + 10, where)
        if self._has_transactions:
            self._add_transactional(wheres)
        for client in self._clients:
            client.start()

    def _add_clients(self, number: int, where: TopicPartition) -> None:
        pace = self._random.choice((0.1, 0.4))
        kinds = [(ALL, True), (ALL, True), (ALL, False), (1, False)]
        most = 1 if self._has_transactions else 3
        for acks, is_idempotent in self._random.sample(kinds, self._random.randint(1, most)):
            number += 1
            self._clients.append(
                Producer(
                    self.world,
                    self.witness,
                    number,
                    where=where,
                    marks=self._marks,
                    acks=acks,
                    is_idempotent=is_idempotent,
                    pace_seconds=pace,
                )
            )
        reads_committed = self._has_transactions and self._random.random() < 0.7
        self._clients.append(
            Consumer(
                self.world,
                self.witness,
                number + 1,
                where=where,
                reads_committed=reads_committed,
            )
        )

    def _add_transactional(self, wheres: list[TopicPartition]) -> None:
        """A name or two whose holders write, and perhaps one whose holders copy; two processes may
        believe that the same name is theirs."""
        number = 100
        names = ["writes", "writes-too"][: self._random.randint(1, 2)]
        if self._random.random() < 0.5:
            names.append("copies")
            self._copied["copies"] = self._random.choice(wheres)
        for each in names:
            name = Name(each, self._random.choice((FIRST, SECOND)))
            for _ in range(self._random.randint(1, 2)):
                number += 1
                self._clients.append(self._transactional(number, name, wheres))

    def _transactional(
        self, number: int, name: Name, wheres: list[TopicPartition]
    ) -> Transactional:
        source = self._copied.get(name.transactional_id)
        if source is None:
            return Transactional(
                self.world,
                self.witness,
                number,
                name=name,
                partitions=wheres,
                marks=self._marks,
                ledger=self._ledger,
            )
        return Copier(
            self.world,
            self.witness,
            number,
            name=name,
            source=source,
            partitions=[where for where in wheres if where != source],
            marks=self._marks,
            ledger=self._ledger,
        )

    def _make(self, topic: str, min_isr: int) -> "asyncio.Task[bool]":
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=self._partitions,
                    replication_factor=REPLICAS,
                    assignments=[],
                    configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(min_isr))],
                )
            ]
        )
        return self._admin.ask(request, CreateTopicsResponse)

    # In war ---------------------------------------------------------------------------------

    async def _administer(self) -> None:
        """Topics come and go, partitions move."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / 2.0))
            deed = self._random.choice((self._reassign, self._elect, self._come, self._go))
            deed()

    def _reassign(self) -> None:
        topic = self._random.choice(list(self._topics))
        brokers = self._random.sample(list(self.world.machines), REPLICAS)
        partition = ReassignablePartition(
            partition_index=self._random.randrange(self._partitions), replicas=brokers
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[partition])]
        )
        self.world.note(f"move {topic}-{partition.partition_index} to {brokers}")
        self._admin.ask(request, AlterPartitionReassignmentsResponse)

    def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None)
        self._admin.ask(request, ElectLeadersResponse)

    def _come(self) -> None:
        self._make(PASSING, 1)

    def _go(self) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=PASSING)], topic_names=[PASSING], timeout_ms=1000
        )
        self._admin.ask(request, DeleteTopicsResponse)

    # The end --------------------------------------------------------------------------------

    async def _until(
        self, what: str, condition: Callable[[], bool], seconds: float = PEACE_SECONDS
    ) -> None:
        end = self.world.loop.time() + seconds
        while not condition():
            if self.world.loop.time() > end:
                self.world.fail(f"in {seconds:g} s of peace it was not so that {what}")
                return
            await asyncio.sleep(POLL_SECONDS)

    def _producers_are_done(self) -> bool:
        kinds = (Producer, Transactional)
        return all(client.task.done() for client in self._clients if isinstance(client, kinds))

    def _is_at_rest(self) -> bool:
        """Whether every replica is in sync, has all that the leader has, and knows of no open
        transaction."""
        if any(not machine.is_ready for machine in self.world.machines.values()):
            return False
        tree = self.world.store.tree
        if tree.names(paths.DELETE_TOPICS):
            return False
        for name, topic in self.world.stored_topics().items():
            for index, assignment in topic.partitions.items():
                where = TopicPartition(name, index)
                state = self.world.stored_state(where)
                if state is None or assignment.adding or assignment.removing:
                    return False
                if set(state.isr) != set(assignment.replicas):
                    return False
                copies = self._copies(Key(topic.topic_id, where), assignment.replicas)
                history = self.witness.history(Key(topic.topic_id, where))
                end = history.end
                if history.fates.first_open is not None:
                    return False
                if len(copies) < REPLICAS or any(copy.end != end for copy in copies):
                    return False
        return True

    def _copies(self, key: Key, brokers: tuple[int, ...]) -> list[Copy]:
        copies = self.witness.copies
        return [copies[broker, key] for broker in brokers if (broker, key) in copies]

    def _judge(self) -> None:
        """All is at rest: what is there must be what was promised, once and in order."""
        given: dict[TopicPartition, list[int]] = {}
        topics = self.world.stored_topics()
        for name in self._topics:
            for index, assignment in topics[name].partitions.items():
                key = Key(topics[name].topic_id, TopicPartition(name, index))
                history = self.witness.history(key)
                for copy in self._copies(key, assignment.replicas):
                    if copy.batches != history.batches:
                        self.world.fail(f"{key}: the replicas differ")
                data = [batch for batch in history.batches if not batch.kind.is_marker]
                self._judge_batches(key, [batch.mark for batch in data])
                given[key.where] = [batch.mark for batch in data if history.fates.counts(batch)]
                self._judge_readers(key.where, data, set(given[key.where]))
        self._judge_transactions(given)

    def _judge_batches(self, key: Key, marks: list[int]) -> None:
        if len(set(marks)) < len(marks):
            twice = next(mark for mark in marks if marks.count(mark) > 1)
            self.world.fail(f"{key}: {self._marks.sent[twice]} was written twice")
        present = set(marks)
        for sent in self._marks.sent.values():
            is_promised = sent.acks == ALL and sent.offset is not None
            if sent.where == key.where and is_promised and sent.mark not in present:
                self.world.fail(f"{key}: {sent} was acknowledged and is gone")
        nexts: dict[str, int] = {}
        for mark in marks:
            sent = self._marks.sent[mark]
            if sent.sequence >= 0 and not sent.is_transactional:
                if sent.sequence != nexts.get(sent.producer, 0):
                    self.world.fail(f"{key}: {sent} is out of order")
                nexts[sent.producer] = sent.sequence + sent.count

    def _judge_readers(self, where: TopicPartition, data: list[Batch], given: set[int]) -> None:
        """Each was given what counts of what it has read, all of it, in its order."""
        for client in self._clients:
            if not isinstance(client, Consumer) or client.where != where:
                continue
            if client.reads_committed:
                passed = [b.mark for b in data if b.last < client.position and b.mark in given]
                if client.given != passed:
                    self.world.fail(f"{client.life} was given {client.given}, not {passed}")

    def _judge_transactions(self, given: dict[TopicPartition, list[int]]) -> None:
        counts = {mark: True for marks in given.values() for mark in marks}
        for problem in self._ledger.problems(counts):
            self.world.fail(problem)
        for where, marks in given.items():
            mine = [mark for mark in marks if self._marks.sent[mark].is_transactional]
            problem_of_order = order_problem(mine, self._marks.sent.__getitem__)
            if problem_of_order is not None:
                self.world.fail(f"{where}: {problem_of_order}")
        for name, source in self._copied.items():
            copied = self._ledger.copied(name, counts)
            problem_of_copy = copy_problem(given[source], copied)
            if problem_of_copy is not None:
                self.world.fail(f"{name}: {problem_of_copy}")


class _Handler(logging.Handler):
    """What brokers log, as part of the story."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        room = record.name.rpartition(".")[2]
        # Where an object lies in memory is no part of the story.
        self._world.note(ADDRESS.sub("", f"{LIFE.get()} {room}: {record.getMessage()}"))


@contextmanager
def _logging_to(handler: logging.Handler | None) -> Iterator[None]:
    """Only there: what a broker logs while the worst happens to it is no news."""
    log = logging.getLogger("odradek")
    before = (log.handlers, log.propagate, log.level)
    log.handlers = [] if handler is None else [handler]
    log.propagate = False
    log.setLevel(logging.CRITICAL + 1 if handler is None else logging.DEBUG)
    try:
        yield
    finally:
        log.handlers, log.propagate, level = before
        log.setLevel(level)


def replay_command(seed: int, mutant: str | None = None) -> str:
    suffix = "" if mutant is None else f" --mutant {mutant}"
    return f"python -m tests.sim --seed {seed} --trace{suffix}"


def run(seed: int, *, trace: Callable[[str], None] | None = None) -> Outcome:
    return Story(seed, trace=trace).run()
