"""Transactions of a producer.

    UNREADY -init-> READY -begin-> OPEN -commit/abort-> READY
                                    OPEN -a batch fails-> DOOMED -abort-> READY
                     anything -fenced, unauthorized-> FATAL

A `Gate` for the sender: who produces, and which partitions may be sent to. Two ways of
transactions exist. In the older one each partition joins the transaction by a request of its own
before anything is sent to it. With the second version (the cluster's feature transaction.version is
2) produce requests join partitions by themselves, and every transaction ends with a new epoch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import Final, TypeVar

from odradek.client.batch import Batch
from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.identity import MOVED_COORDINATOR, transactional_identity
from odradek.client.queue import Identity
from odradek.client.retry import until_done
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import TopicPartition

FEATURE: Final = "transaction.version"
# Later versions of these requests belong to the second version of transactions, or to brokers.
NEWEST_ADD_PARTITIONS: Final = 3
NEWEST_END_BEFORE_V2: Final = 4
NEWEST_OFFSETS_BEFORE_V2: Final = 4

FATAL_ERRORS: Final = frozenset(
    {
        Errors.PRODUCER_FENCED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.INVALID_TXN_STATE,
        Errors.UNSUPPORTED_VERSION,
        Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        Errors.INVALID_PRODUCER_ID_MAPPING,
    }
)

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class State(Enum):
    UNREADY = auto()
    READY = auto()
    OPEN = auto()
    DOOMED = auto()
    FATAL = auto()


class Transactions:
    """The gate of a transactional producer, and its transactions."""

    is_transactional = True

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        timeout_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = Identity()
        self.uses_v2 = False
        self.state = State.UNREADY
        self._cluster = cluster
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_s = timeout_s
        self._on_change = on_change
        self._joined: set[TopicPartition] = set()
        self._to_join: set[TopicPartition] = set()
        self._joining: asyncio.Task[None] | None = None
        self._has_content = False
        self._needs_new_epoch = False
        self._error: KafkaError | None = None

    async def close(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)

    # The life of transactions

    async def init(self) -> None:
        """Take over the transactional id: older holders are shut out, their transaction ends."""
        if self.state is State.FATAL:
            self._raise_error()
        await self._new_epoch(None)
        connection = await self._cluster.coordinator(
            CoordinatorKind.TRANSACTION, self.transactional_id
        )
        self.uses_v2 = connection.features.get(FEATURE, 0) >= 2 and connection.supports(
            EndTxnRequest, NEWEST_END_BEFORE_V2 + 1
        )
        self.state = State.READY

    def begin(self) -> None:
        self._expect(State.READY, "begin a transaction")
        self.state = State.OPEN
        self._error = None

    def check_open(self) -> None:
        """Raises unless records may be sent."""
        self._expect(State.OPEN, "send")

    async def end(self, *, commit: bool) -> None:
        """Commit or abort, once everything that was sent has its outcome."""
        if commit or self.state is not State.DOOMED:
            self._expect(State.OPEN, "commit")
        if self._has_content:
            await self._end(commit)
        if self._needs_new_epoch and not self.uses_v2:
            await self._new_epoch(self.identity)
        self._joined.clear()
        self._to_join.clear()
        self._has_content = False
        self._needs_new_epoch = False
        self.state = State.READY

    @property
    def is_doomed(self) -> bool:
        return self.state is State.DOOMED

    @property
    def gives_up(self) -> bool:
        """Whether batches that failed are not worth another try."""
        return self.state in (State.DOOMED, State.FATAL)

    def why_given_up(self) -> KafkaError | None:
        return self._error if self.gives_up else None

    def give_up(self) -> None:
        """Abort is wanted: nothing that waits shall still be sent."""
        if self.state is not State.DOOMED:
            self._expect(State.OPEN, "abort")
            self.doom(KafkaError(Errors.TRANSACTION_ABORTABLE, "the transaction was aborted"))

    def left_a_gap(self) -> None:
        """A batch failed whose number the broker may be waiting for."""
        self._needs_new_epoch = True

    def doom(self, error: KafkaError) -> None:
        """Nothing but abort is possible any more; after a fatal error not even that."""
        before = self.state
        if error.error in FATAL_ERRORS:
            self.state = State.FATAL
        elif self.state is State.OPEN:
            self.state = State.DOOMED
        if self.state is not before:
            self._error = error
            self._on_change()

    def _expect(self, state: State, what: str) -> None:
        if self.state is state:
            return
        if self.state in (State.DOOMED, State.FATAL):
            self._raise_error()
        why = {
            State.UNREADY: "init_transactions comes first",
            State.READY: "no transaction is open",
            State.OPEN: "a transaction is open already",
        }[self.state]
        raise KafkaError(Errors.INVALID_TXN_STATE, f"cannot {what}: {why}")

    def _raise_error(self) -> None:
        assert self._error is not None
        raise KafkaError(self._error.error, self._error.message)

    # The gate

    def may_send(self, partition: TopicPartition) -> bool:
        self._has_content = True
        if self.uses_v2 or partition in self._joined:
            return True
        if self.state is State.OPEN:
            self._to_join.add(partition)
            if self._joining is None:
                self._joining = asyncio.get_running_loop().create_task(self._join())
        return False

    def batch_failed(self, batch: Batch, error: KafkaError) -> None:
        if batch.attempts:
            self.left_a_gap()
        self.doom(error)

    def renew(self) -> None:
        """A gap: only the abort of this transaction brings the new epoch."""

    # Talking to the coordinators

    async def _join(self) -> None:
        try:
            while self._to_join and self.state is State.OPEN:
                partitions = frozenset(self._to_join)
                await self._retry(lambda: self._ask_to_join(partitions))  # noqa: B023
                self._joined |= partitions
                self._to_join -= partitions
                self._on_change()
        except KafkaError as error:
            self.doom(error)
        finally:
            self._joining = None
            self._on_change()

    async def _ask_to_join(self, partitions: frozenset[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            by_topic.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in by_topic.items()
            ],
        )
        answer = await self._ask(request, AddPartitionsToTxnResponse, NEWEST_ADD_PARTITIONS)
        codes = [
            row.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]
        # One failure fails all; OPERATION_NOT_ATTEMPTED only says that another one did.
        codes.sort(key=lambda code: code in (0, Errors.OPERATION_NOT_ATTEMPTED))
        self._check(codes[0] if codes else 0)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit a consumer's offsets if, and when, the transaction commits."""
        self._expect(State.OPEN, "send offsets")
        if not offsets:
            return
        try:
            if not self.uses_v2:
                await self._retry(lambda: self._add_offsets(group.group_id))
            self._has_content = True
            await self._retry(lambda: self._commit_offsets(offsets, group))
        except KafkaError as error:
            self.doom(error)
            raise

    async def _add_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group_id,
        )
        answer = await self._ask(request, AddOffsetsToTxnResponse)
        self._check(answer.error_code)

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, position in offsets.items():
            row = TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
            by_topic.setdefault(partition.topic, []).append(row)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=rows)
                for name, rows in by_topic.items()
            ],
        )
        newest = None if self.uses_v2 else NEWEST_OFFSETS_BEFORE_V2
        kind, key = CoordinatorKind.GROUP, group.group_id
        connection = await self._cluster.coordinator(kind, key)
        version = connection.version_of(TxnOffsetCommitRequest, newest)
        answer = await connection.request(request, TxnOffsetCommitResponse, version=version)
        for topic in answer.topics:
            for result in topic.partitions:
                if result.error_code in MOVED_COORDINATOR:
                    self._cluster.forget_coordinator(kind, key)
                if result.error_code:
                    raise KafkaError(Errors.of(result.error_code))

    async def _end(self, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commit,
        )
        newest = None if self.uses_v2 else NEWEST_END_BEFORE_V2

        async def ask() -> EndTxnResponse:
            answer = await self._ask(request, EndTxnResponse, newest)
            self._check(answer.error_code)
            return answer

        try:
            answer = await self._retry(ask)
        except KafkaError as error:
            self.doom(error)
            raise
        if self.uses_v2 and answer.producer_id >= 0:
            self.identity = Identity(answer.producer_id, answer.producer_epoch)

    async def _new_epoch(self, current: Identity | None) -> None:
        try:
            self.identity = await transactional_identity(
                self._cluster,
                self.transactional_id,
                self._transaction_timeout_ms,
                self._timeout_s,
                current,
            )
        except KafkaError as error:
            self.doom(error)
            raise

    async def _ask(self, request: Request, expected: type[R], newest: int | None = None) -> R:
        kind, key = CoordinatorKind.TRANSACTION, self.transactional_id
        connection = await self._cluster.coordinator(kind, key)
        version = connection.version_of(type(request), newest)
        try:
            return await connection.request(request, expected, version=version)
        except KafkaError:
            self._cluster.forget_coordinator(kind, key)
            raise

    def _check(self, code: int) -> None:
        if code in MOVED_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
        if code == Errors.INVALID_PRODUCER_EPOCH:
            # What older versions of these requests call being fenced.
            raise KafkaError(Errors.PRODUCER_FENCED)
        if code:
            raise KafkaError(Errors.of(code))

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await until_done(attempt, backoff=self._cluster.backoff, timeout_s=self._timeout_s)
