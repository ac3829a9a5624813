"""Producers of a story that write in transactions.

They take what a careful library takes for granted: a batch is sent again with its sequence until it
is acknowledged, a commit is asked for only when all of them are, and after anything that was left
in doubt the transactional id is taken anew, which shuts out whatever may still be on its way. In
between they do what libraries would not: leave a transaction open, end it too late, abort it while
its batches are still on their way, ask for its end once more when the next one has begun, and go on
beside another process of the same name until they are told that they are shut out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from odradek.client.connection import Connection
from odradek.protocol.batch_builder import BatchBuilder, ProducerStamp
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import TopicPartition

from tests.sim.clients import (
    ALL,
    LOST,
    PAUSE_SECONDS,
    PRODUCE_TIMEOUT_MS,
    SIZES,
    Client,
    Marks,
    Sent,
)
from tests.sim.ledger import Attempt, Ledger, Wish
from tests.sim.witness import Witness
from tests.sim.world import PORT, World

R = TypeVar("R", bound=Response)
T = TypeVar("T")

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
# Long enough to write in, short enough that a story sees it pass.
TRANSACTION_SECONDS: Final = 3.0
PATIENCE_SECONDS: Final = 8.0
TRUCE_SECONDS: Final = (0.1, 3.0)
# How long things are on their way that come late.
LATE_SECONDS: Final = (0.01, 0.1, 1.0)

# What no second try will change.
FINAL: Final = (
    Errors.PRODUCER_FENCED,
    Errors.INVALID_PRODUCER_EPOCH,
    Errors.INVALID_PRODUCER_ID_MAPPING,
    Errors.INVALID_TXN_STATE,
    Errors.TRANSACTION_ABORTABLE,
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
)
MOVED: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE)


class Versions(NamedTuple):
    """Of the requests that differ between the two versions of transactions."""

    produce: int
    end: int
    commit_offsets: int

    @property
    def bumps(self) -> bool:
        """Whether every end gives a new epoch, and partitions join by being written to."""
        return self is SECOND


FIRST: Final = Versions(produce=11, end=4, commit_offsets=4)
SECOND: Final = Versions(produce=12, end=5, commit_offsets=5)


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Name(NamedTuple):
    """What processes that stand in for each other have in common."""

    transactional_id: str
    versions: Versions


class Transactional(Client):
    """Writes transactions over some partitions."""

    def __init__(
        self,
        world: World,
        witness: Witness,
        number: int,
        *,
        name: Name,
        partitions: list[TopicPartition],
        marks: Marks,
        ledger: Ledger,
    ) -> None:
        super().__init__(world, witness, number, "transactor")
        self.name = name
        self._partitions = partitions
        self._marks = marks
        self._ledger = ledger
        self._pace_seconds = self.random.choice((0.1, 0.5))
        self._identity: Identity | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._coordinators: dict[int, tuple[str, int]] = {}
        self._late: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        while not self.is_over:
            await self._live()
            await asyncio.sleep(self.random.expovariate(1 / self._pace_seconds))
        await asyncio.gather(*self._late)
        # However it went, in peace a transaction succeeds, if two of a name do not fight for it.
        while not await self._transact(self._commit):  # noqa: ASYNC110
            await asyncio.sleep(self.random.uniform(*TRUCE_SECONDS))

    async def _live(self) -> None:
        deed = self.random.choices(
            (self._commit, self._abort, self._dawdle, self._leave, self._take_back),
            weights=(6, 2, 2, 2, 2),
        )[0]
        if not await self._transact(deed):
            # Perhaps another one lives under this name.
            await asyncio.sleep(self.random.choice((0.1, 2.0)))

    async def _transact(self, deed: Callable[[Attempt], Awaitable[None]]) -> bool:
        """Whether it came to its end; if not, nobody knows what became of it."""
        try:
            if self._identity is None:
                await self.take_name()
            attempt = self._ledger.open(self.life.name, self.name.transactional_id)
            await deed(attempt)
        except LOST as error:
            self.world.note(f"{self.life}: {error}")
            self._identity = None
            return False
        return True

    # How a transaction goes -----------------------------------------------------------------

    async def _commit(self, attempt: Attempt) -> None:
        await self.write(attempt)
        await self._end(attempt, is_commit=True)

    async def _abort(self, attempt: Attempt) -> None:
        await self.write(attempt)
        await self._end(attempt, is_commit=False)

    async def _dawdle(self, attempt: Attempt) -> None:
        await self.write(attempt)
        await asyncio.sleep(TRANSACTION_SECONDS * self.random.uniform(0.5, 2.0))
        if self.random.random() < 0.7:
            await self._write_anything(attempt)
        await self._end(attempt, is_commit=True)

    async def _leave(self, attempt: Attempt) -> None:
        """Somebody else will have to end it, unless a late word to commit it comes first."""
        await self.write(attempt)
        self.world.note(f"{self.life}: {attempt} is left")
        if self.random.random() < 0.5:
            attempt.wish = Wish.PERHAPS
            self._later(partial(self._ask_to_end, self._end_request(is_commit=True)))
        self._identity = None

    async def _take_back(self, attempt: Attempt) -> None:
        """Abort while batches are on their way: none may count, whenever it comes."""
        chosen = self._some_partitions()
        await self.join(chosen)
        for where in chosen:
            sent = self.batch(attempt, where)
            self._later(partial(self._send, sent))
        await self._end(attempt, is_commit=False)
        self._identity = None

    def _later(self, act: Callable[[], Awaitable[object]]) -> None:
        """It is on its way, and nobody looks what becomes of it."""
        seconds = self.random.choice(LATE_SECONDS) * self.random.random()

        async def come_late() -> None:
            await asyncio.sleep(seconds)
            try:
                await act()
            except LOST as error:
                self.world.note(f"{self.life} was late: {error}")

        self._late.append(asyncio.create_task(come_late()))

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        before, request = self._identity, self._end_request(is_commit=is_commit)
        doubts = 0

        async def ask() -> EndTxnResponse:
            nonlocal doubts
            if is_commit:
                attempt.wish = Wish.PERHAPS
            try:
                return await self._ask_to_end(request)
            except KafkaError as error:
                if error.error not in FINAL:
                    doubts += 1
                elif not doubts:
                    attempt.wish = Wish.NO_COMMIT
                raise

        answer = await self.persist(ask)
        self.world.note(f"{self.life}: {attempt} is {'committed' if is_commit else 'aborted'}")
        if is_commit:
            attempt.wish = Wish.COMMITTED
        if self.name.versions.bumps:
            self._become(Identity(answer.producer_id, answer.producer_epoch))
        elif doubts:
            # A request that is late would end the next transaction of this epoch.
            self._identity = None
        if self._identity != before and self.random.random() < 0.3:
            self._later(partial(self._ask_to_end, request))

    def _end_request(self, *, is_commit: bool) -> EndTxnRequest:
        assert self._identity is not None
        return EndTxnRequest(
            transactional_id=self.name.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=is_commit,
        )

    async def _ask_to_end(self, request: EndTxnRequest) -> EndTxnResponse:
        return await self.ask(TRANSACTION_KEY, request, EndTxnResponse, self.name.versions.end)

    # What is in it --------------------------------------------------------------------------

    async def write(self, attempt: Attempt) -> None:
        """Raises KafkaError when something may not have been written."""
        await self._write_anything(attempt)

    async def _write_anything(self, attempt: Attempt) -> None:
        chosen = self._some_partitions()
        await self.join(chosen)
        batches = [[self.batch(attempt, where)] for where in chosen]
        for row in batches:
            if self.random.random() < 0.3:
                row.append(self.batch(attempt, row[0].where))
        await self.send_all(batches)

    def _some_partitions(self) -> list[TopicPartition]:
        count = self.random.randint(1, min(3, len(self._partitions)))
        return self.random.sample(self._partitions, count)

    async def join(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction, unless they become so by themselves."""
        if self.name.versions.bumps:
            return
        assert self._identity is not None
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )
        await self.persist(
            lambda: self.ask(TRANSACTION_KEY, request, AddPartitionsToTxnResponse, 3)
        )

    def batch(self, attempt: Attempt, where: TopicPartition) -> Sent:
        assert self._identity is not None
        mark, count = self._marks.next(), self.random.randint(1, 3)
        sequence = self._sequences.get(where, 0)
        self._sequences[where] = sequence + count
        builder = BatchBuilder()
        builder.producer = ProducerStamp(*self._identity, sequence, is_transactional=True)
        for number in range(count):
            builder.append(mark, None, b"%d.%d" % (mark, number) + bytes(self.random.choice(SIZES)))
        sent = Sent(self.life.name, where, mark, count, sequence, builder.build(), ALL)
        sent.is_transactional = True
        self._marks.sent[mark] = sent
        attempt.batches.append(sent)
        return sent

    async def send_all(self, rows: Iterable[Iterable[Sent]]) -> None:
        """Partitions side by side, batches of one after the other."""
        sendings = [self._send_row(row) for row in rows]
        for outcome in await asyncio.gather(*sendings, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _send_row(self, row: Iterable[Sent]) -> None:
        for sent in row:
            await self.persist(lambda: self._send(sent))  # noqa: B023

    async def _send(self, sent: Sent) -> None:
        place = await self.place(sent.where)
        partition = PartitionProduceData(index=sent.where.partition, records=sent.data)
        topic = TopicProduceData(name=sent.where.topic, partition_data=[partition])
        request = ProduceRequest(
            transactional_id=self.name.transactional_id,
            acks=ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[topic],
        )
        try:
            connection = await self.broker(place.leader)
            answer = await connection.request(
                request, ProduceResponse, version=self.name.versions.produce
            )
            result = answer.responses[0].partition_responses[0]
            check(result.error_code)
        except LOST:
            self.forget(sent.where)
            raise
        self.world.note(f"{self.life}: {sent.mark} is at {sent.where} {result.base_offset}")
        sent.offset = result.base_offset
        self.witness.acknowledged(place.key, result.base_offset, sent.mark)

    # Names ----------------------------------------------------------------------------------

    async def take_name(self) -> None:
        """Shut out whoever has it, and have its transaction ended."""
        request = InitProducerIdRequest(
            transactional_id=self.name.transactional_id,
            transaction_timeout_ms=int(TRANSACTION_SECONDS * 1000),
        )
        answer = await self.persist(
            lambda: self.ask(TRANSACTION_KEY, request, InitProducerIdResponse, 4)
        )
        self._become(Identity(answer.producer_id, answer.producer_epoch))

    def _become(self, identity: Identity) -> None:
        self.world.note(f"{self.life} is {identity}")
        self._identity = identity
        self._sequences.clear()

    # Asking ---------------------------------------------------------------------------------

    async def persist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Try again until it works, is refused for good, or takes too long."""
        end = self.world.loop.time() + PATIENCE_SECONDS
        while True:
            try:
                return await act()
            except LOST as error:
                is_final = isinstance(error, KafkaError) and error.error in FINAL
                if is_final or self.world.loop.time() > end:
                    raise
                self.world.note(f"{self.life} tries again: {error}")
                await asyncio.sleep(self.random.uniform(0.5, 1.5) * PAUSE_SECONDS)

    async def ask(self, kind: int, request: Request, expected: type[R], version: int) -> R:
        """Ask a coordinator. Raises KafkaError, also for errors inside the answer."""
        try:
            connection = await self.coordinator(kind)
            answer = await connection.request(request, expected, version=version)
        except LOST:
            self._coordinators.pop(kind, None)
            raise
        for code in codes_in(answer):
            if code in MOVED:
                self._coordinators.pop(kind, None)
            check(code)
        return answer

    async def coordinator(self, kind: int) -> Connection:
        if kind not in self._coordinators:
            machine = self.random.choice(list(self.world.machines.values()))
            connection = await self.connected((machine.address, PORT))
            request = FindCoordinatorRequest(key=self.name.transactional_id, key_type=kind)
            answer = await connection.request(request, FindCoordinatorResponse, version=3)
            check(answer.error_code)
            self._coordinators[kind] = (answer.host, answer.port)
        return await self.connected(self._coordinators[kind])


def check(code: int) -> None:
    if code:
        raise KafkaError(Errors.of(code))


def codes_in(answer: Response) -> Iterable[int]:
    yield getattr(answer, "error_code", 0)
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        yield from (row.partition_error_code for row in topic.results_by_partition)
    for topic in getattr(answer, "topics", ()):
        yield from (row.error_code for row in topic.partitions)
