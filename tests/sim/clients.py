"""The clients of a story: producers, consumers and someone who administers.

They speak through the project's own connections, but decide for themselves what to send when, so
that a story can send what a careful client library would not. Each tells the witness what it was
told.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from odradek.client.connection import Connection, ConnectionOptions, open_connection
from odradek.client.partition_state import FetchedBatch, Filter
from odradek.protocol.batch_builder import BatchBuilder, ProducerStamp
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import TopicPartition

from tests.sim.batches import Batch, iter_batches
from tests.sim.loop import Life
from tests.sim.witness import Key, Witness
from tests.sim.world import EPOCH_MS, PORT, World

R = TypeVar("R", bound=Response)

PAUSE_SECONDS: Final = 0.1
REQUEST_SECONDS: Final = 2.0
PRODUCE_TIMEOUT_MS: Final = 1500
FETCH_WAIT_MS: Final = 300
ALL: Final = -1
LOST: Final = (KafkaError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is led, as far as a client knows."""

    key: Key
    leader: int
    epoch: int


class Client:
    """A process on a machine of its own, with its own view of the cluster."""

    def __init__(self, world: World, witness: Witness, number: int, kind: str) -> None:
        self.world = world
        self.witness = witness
        self.random = Random(world.random.random())
        self.life = Life(f"{kind}{number}", f"10.0.1.{number}")
        self.is_over = False
        self._options = ConnectionOptions(
            client_id=self.life.name,
            request_timeout_s=REQUEST_SECONDS,
            setup_timeout_s=REQUEST_SECONDS,
        )
        self._connections: dict[tuple[str, int], Connection] = {}
        self._places: dict[TopicPartition, Place] = {}
        # Metadata that is older than what was known before is not believed.
        self._epochs: dict[Key, int] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self.controller_id = -1

    def start(self) -> None:
        self.task = self.world.loop.spawn(self.life, self.run())

    async def run(self) -> None:
        raise AssertionError("said by the kind of client")

    async def place(self, where: TopicPartition) -> Place:
        """Raises KafkaError when nobody knows a leader."""
        if where not in self._places:
            await self.refresh(where.topic)
        if where not in self._places:
            raise KafkaError(Errors.LEADER_NOT_AVAILABLE)
        return self._places[where]

    def forget(self, where: TopicPartition) -> None:
        self._places.pop(where, None)

    async def refresh(self, topic: str | None) -> None:
        """Learn who the brokers are, and where a topic is led. Raises KafkaError."""
        machine = self.random.choice(list(self.world.machines.values()))
        connection = await self.connected((machine.address, PORT))
        request = MetadataRequest(
            topics=[] if topic is None else [MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
        )
        answer = await connection.request(request, MetadataResponse)
        self._brokers = {row.node_id: (row.host, row.port) for row in answer.brokers}
        self.controller_id = answer.controller_id
        for row in answer.topics:
            for partition in row.partitions:
                where = TopicPartition(row.name or "", partition.partition_index)
                key, epoch = Key(row.topic_id, where), partition.leader_epoch
                if partition.leader_id >= 0 and epoch >= self._epochs.get(key, 0):
                    self._epochs[key] = epoch
                    self._places[where] = Place(key, partition.leader_id, epoch)
        if topic is not None and not any(where.topic == topic for where in self._places):
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)

    async def connected(self, address: tuple[str, int]) -> Connection:
        known = self._connections.get(address)
        if known is None or not known.is_open:
            known = await open_connection(*address, self._options)
            self._connections[address] = known
        return known

    async def broker(self, broker_id: int) -> Connection:
        if broker_id not in self._brokers:
            raise KafkaError(Errors.BROKER_NOT_AVAILABLE)
        return await self.connected(self._brokers[broker_id])

    async def insist(self, act: Callable[[], Awaitable[R]]) -> R:
        """Until it succeeds."""
        while True:
            try:
                return await act()
            except LOST as error:
                self.world.note(f"{self.life}: {error}")
                await asyncio.sleep(self.random.uniform(0.5, 1.5) * PAUSE_SECONDS)


@dataclass(slots=True)
class Sent:
    """A batch of a producer; `sequence` is -1 without idempotence."""

    producer: str
    where: TopicPartition
    mark: int
    count: int
    sequence: int
    data: bytes
    acks: int
    offset: int | None = None
    is_transactional: bool = False


class Marks:
    """Timestamps, each given once."""

    def __init__(self) -> None:
        self._next = EPOCH_MS
        self.sent: dict[int, Sent] = {}

    def next(self) -> int:
        self._next += 1
        return self._next


class Producer(Client):
    """Writes to one partition. An idempotent one sends a batch again until it is acknowledged, and
    may have some on their way; any other sends each batch once and does not look back."""

    def __init__(
        self,
        world: World,
        witness: Witness,
        number: int,
        *,
        where: TopicPartition,
        marks: Marks,
        acks: int,
        is_idempotent: bool,
        pace_seconds: float,
    ) -> None:
        super().__init__(world, witness, number, "producer")
        self._where = where
        self._marks = marks
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._pace_seconds = pace_seconds
        self._stamp = ProducerStamp()
        self._sequence = 0
        self._has_begun = False
        self._acknowledged = -1

    async def run(self) -> None:
        if self._is_idempotent:
            identity = await self.insist(self._identity)
            self._stamp = ProducerStamp(identity.producer_id, identity.producer_epoch)
        window: list[Sent] = []
        while not self.is_over or (window and self._is_idempotent):
            size = self.random.randint(1, 3) if self._has_begun and self._is_idempotent else 1
            while len(window) < size and not self.is_over:
                window.append(self._batch())
            window = await self._send(window)
            await asyncio.sleep(self.random.expovariate(1 / self._pace_seconds))

    async def _identity(self) -> InitProducerIdResponse:
        await self.refresh(self._where.topic)
        connection = await self.broker(self.random.choice(list(self._brokers)))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = await connection.request(request, InitProducerIdResponse)
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        return answer

    def _batch(self) -> Sent:
        count = self.random.randint(1, 3)
        mark = self._marks.next()
        sequence = -1
        builder = BatchBuilder()
        if self._is_idempotent:
            sequence = self._sequence
            self._sequence += count
            builder.producer = self._stamp._replace(base_sequence=sequence)
        for number in range(count):
            builder.append(mark, None, b"%d.%d" % (mark, number) + bytes(self.random.choice(SIZES)))
        sent = Sent(self.life.name, self._where, mark, count, sequence, builder.build(), self._acks)
        self._marks.sent[mark] = sent
        return sent

    async def _send(self, window: list[Sent]) -> list[Sent]:
        """All at once over one connection; gives those to send again."""
        try:
            place = await self.place(self._where)
            connection = await self.broker(place.leader)
            answers = [
                connection.send(self._request(sent), version=PRODUCE_VERSION) for sent in window
            ]
        except LOST as error:
            self.world.note(f"{self.life} cannot send: {error}")
            self.forget(self._where)
            return window if self._is_idempotent else []
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        again = []
        for sent, outcome in zip(window, outcomes, strict=True):
            if not self._is_done(place, sent, outcome):
                self.forget(self._where)
                again.append(sent)
        if not self._is_idempotent:
            return []
        # Sequences have no gaps: one that was taken vouches for those before it. A broker that
        # restarted knows the last batch only, and cannot say of an earlier one that it has it.
        return [sent for sent in again if sent.sequence > self._acknowledged]

    def _request(self, sent: Sent) -> ProduceRequest:
        partition = PartitionProduceData(index=sent.where.partition, records=sent.data)
        topic = TopicProduceData(name=sent.where.topic, partition_data=[partition])
        return ProduceRequest(acks=self._acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])

    def _is_done(self, place: Place, sent: Sent, outcome: Response | BaseException) -> bool:
        if not isinstance(outcome, ProduceResponse):
            self.world.note(f"{self.life}: batch {sent.sequence}: {outcome}")
            return False
        result = outcome.responses[0].partition_responses[0]
        if result.error_code:
            error = KafkaError(Errors.of(result.error_code), result.error_message)
            self.world.note(f"{self.life}: batch {sent.sequence}: {error}")
            return False
        self.world.note(f"{self.life}: batch {sent.sequence} is at {result.base_offset}")
        self._has_begun = True
        self._acknowledged = max(self._acknowledged, sent.sequence)
        sent.offset = result.base_offset
        if self._acks == ALL:
            self.witness.acknowledged(place.key, result.base_offset, sent.mark)
        return True


SIZES: Final = (0, 10, 100, 1000)
PRODUCE_VERSION: Final = 9


class Consumer(Client):
    """Reads one partition from its beginning, for ever. `given` is what a reader of committed
    records may hand on."""

    def __init__(
        self,
        world: World,
        witness: Witness,
        number: int,
        *,
        where: TopicPartition,
        reads_committed: bool = False,
    ) -> None:
        super().__init__(world, witness, number, "reader" if reads_committed else "consumer")
        self.where = where
        self.reads_committed = reads_committed
        self.position = 0
        self.given: list[int] = []
        # The largest high watermark and last stable offset told, by leader epoch.
        self._told: dict[int, tuple[int, int]] = {}

    async def run(self) -> None:
        while not self.is_over:
            try:
                await self.read()
            except LOST as error:
                self.world.note(f"{self.life}: {error}")
                self.forget(self.where)
                await asyncio.sleep(self.random.uniform(0.5, 1.5) * PAUSE_SECONDS)

    async def read(self) -> list[Batch]:
        """What comes next, if anything does soon. Raises KafkaError."""
        place = await self.place(self.where)
        return self._take(place, await self._fetch(place))

    async def _fetch(self, place: Place) -> FetchResponse:
        connection = await self.broker(place.leader)
        partition = FetchPartition(
            partition=self.where.partition,
            current_leader_epoch=place.epoch,
            fetch_offset=self.position,
            partition_max_bytes=self.random.choice((1, 1000, 100_000)),
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self.reads_committed),
            session_epoch=-1,
            topics=[FetchTopic(topic=self.where.topic, partitions=[partition])],
        )
        return await connection.request(request, FetchResponse, version=FETCH_VERSION)

    def _take(self, place: Place, answer: FetchResponse) -> list[Batch]:
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        data = answer.responses[0].partitions[0]
        if data.error_code == Errors.OFFSET_OUT_OF_RANGE:
            self.world.fail(f"{self.life} has read to {self.position}, out of the leader's range")
        if data.error_code:
            raise KafkaError(Errors.of(data.error_code))
        told = (data.high_watermark, data.last_stable_offset)
        before = self._told.get(place.epoch, (0, 0))
        if told[0] < before[0] or told[1] < before[1]:
            self.world.fail(f"{self.life} was told of {before}, now {told}")
        self._told[place.epoch] = told
        return self._batches(place.key, data) if data.records else []

    def _batches(self, key: Key, data: FetchPartitionData) -> list[Batch]:
        records = data.records
        assert isinstance(records, bytes | memoryview)
        read = list(iter_batches(records))
        self.witness.consumed(key, [each.batch for each in read])
        self.position = max(self.position, read[-1].batch.last + 1)
        if not self.reads_committed:
            return [each.batch for each in read]
        chosen = Filter(data.aborted_transactions or [])
        given = []
        for position, header, batch in read:
            is_given = not chosen.drops(FetchedBatch(records, position, header))
            self.witness.shown(key, batch, is_given=is_given)
            if is_given:
                given.append(batch)
        self.given += [batch.mark for batch in given]
        return given


FETCH_VERSION: Final = 12


class Admin(Client):
    """Asks the controller for changes, and takes no for an answer."""

    def __init__(self, world: World, witness: Witness, number: int) -> None:
        super().__init__(world, witness, number, "admin")

    async def run(self) -> None:
        """Does only what it is asked to."""

    def ask(self, request: Request, expected: type[Response]) -> "asyncio.Task[bool]":
        return self.world.loop.spawn(self.life, self._ask(request, expected))

    async def _ask(self, request: Request, expected: type[Response]) -> bool:
        try:
            await self.refresh(None)
            connection = await self.broker(self.controller_id)
            answer = await connection.request(request, expected)
        except LOST as error:
            self.world.note(f"{self.life}: {error}")
            return False
        self.world.note(f"{self.life}: {answer}")
        return not any(_errors(answer))


def _errors(answer: Response) -> Iterable[int]:
    yield getattr(answer, "error_code", 0)
    for row in getattr(answer, "topics", None) or getattr(answer, "responses", []):
        yield getattr(row, "error_code", 0)
        for partition in getattr(row, "partitions", []):
            yield getattr(partition, "error_code", 0)
