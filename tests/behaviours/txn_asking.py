"""Short ways to be a transactional producer, one request at a time."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar, cast

from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from odradek.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.records import ProducerStamp
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import batch
from tests.support.raw_client import RawClient

PATIENCE = 20.0
# The coordinator is on its way, or busy with what was asked before.
TRANSIENT = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.NOT_ENOUGH_REPLICAS,
)

T = TypeVar("T")


def patiently(ask: Callable[[], T], error_of: Callable[[T], int]) -> T:
    """Ask until the answer is more than a request to wait."""
    deadline = time.monotonic() + PATIENCE
    while error_of(answer := ask()) in TRANSIENT:
        assert time.monotonic() < deadline, Errors(error_of(answer)).name
        time.sleep(0.01)
    return answer


class Producer:
    """A connection to a coordinator that is also the leader, and what it has been given."""

    def __init__(self, port: int, transactional_id: str, *, timeout_ms: int = 60_000) -> None:
        self.client = RawClient(port)
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    # The coordinator ------------------------------------------------------------------------

    def find_coordinator(
        self, version: int = 3, *, group: str | None = None
    ) -> FindCoordinatorResponse:
        """Of our transactions or of a group; its topic is there from then on."""
        request = FindCoordinatorRequest(
            key=self.transactional_id if group is None else group, key_type=int(group is None)
        )
        return patiently(
            lambda: cast(FindCoordinatorResponse, self.client.ask(request, version)),
            lambda answer: answer.error_code,
        )

    def ask_init(
        self, version: int = 4, *, producer_id: int = -1, epoch: int = -1
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return cast(InitProducerIdResponse, self.client.ask(request, version))

    def init(self, version: int = 4, **holder: int) -> Self:
        self.find_coordinator()
        answer = patiently(
            lambda: self.ask_init(version, **holder), lambda answer: answer.error_code
        )
        assert answer.error_code == 0, Errors(answer.error_code).name
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        return self

    def ask_add(self, *partitions: TopicPartition, version: int = 3) -> dict[TopicPartition, int]:
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        answer = cast(AddPartitionsToTxnResponse, self.client.ask(request, version))
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    def add(self, *partitions: TopicPartition, version: int = 3) -> Errors:
        """What became of it, when the coordinator was ready to say: of the first that failed."""

        def worst(answer: dict[TopicPartition, int]) -> int:
            return max(answer.values())

        answer = patiently(lambda: self.ask_add(*partitions, version=version), worst)
        return Errors(worst(answer))

    def verify(self, where: TopicPartition, version: int = 4) -> Errors:
        """As a broker asks on behalf of a producer."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=where.topic, partitions=[where.partition])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        answer = cast(AddPartitionsToTxnResponse, self.client.ask(request, version))
        (result,) = answer.results_by_transaction
        return Errors(result.topic_results[0].results_by_partition[0].partition_error_code)

    def ask_end(self, *, commit: bool, version: int = 3) -> Errors:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        return Errors(cast(EndTxnResponse, self.client.ask(request, version)).error_code)

    def end(self, *, commit: bool) -> Errors:
        return patiently(lambda: self.ask_end(commit=commit), int)

    def ask_end_with_bump(self, *, commit: bool) -> EndTxnResponse:
        """In the second version of transactions."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        return cast(EndTxnResponse, self.client.ask(request, 5))

    def end_with_bump(self, *, commit: bool) -> Errors:
        """Ends the transaction and takes the id and epoch for the next one."""
        answer = patiently(
            lambda: self.ask_end_with_bump(commit=commit), lambda answer: answer.error_code
        )
        if answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return Errors(answer.error_code)

    def describe(self) -> DescribeTransactionsTransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        answer = cast(DescribeTransactionsResponse, self.client.ask(request, 0))
        return answer.transaction_states[0]

    def wait_for_state(self, *names: str) -> DescribeTransactionsTransactionState:
        deadline = time.monotonic() + PATIENCE
        while (found := self.describe()).transaction_state not in names:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
        return found

    # Records --------------------------------------------------------------------------------

    def ask_produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        version: int = 9,
        sequence: int | None = None,
    ) -> PartitionProduceResponse:
        where = (topic, partition)
        first = self._sequences.get(where, 0) if sequence is None else sequence
        stamp = ProducerStamp(self.id, self.epoch, first, is_transactional=True)
        data = PartitionProduceData(index=partition, records=batch(*values, producer=stamp))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = cast(ProduceResponse, self.client.ask(request, version))
        result = answer.responses[0].partition_responses[0]
        if not result.error_code:
            self._sequences[where] = first + max(1, len(values))
        return result

    def produce(self, topic: str, *values: bytes, **options: int) -> PartitionProduceResponse:
        return patiently(
            lambda: self.ask_produce(topic, *values, **options),
            lambda answer: answer.error_code,
        )

    def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Add the partition and produce to it; the offset of the first record."""
        assert self.add(TopicPartition(topic, partition)) is Errors.NONE
        answer = self.produce(topic, *values, partition=partition)
        assert answer.error_code == 0, Errors(answer.error_code).name
        return answer.base_offset

    # Offsets --------------------------------------------------------------------------------

    def ask_add_offsets(self, group: str, version: int = 3) -> Errors:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return Errors(cast(AddOffsetsToTxnResponse, self.client.ask(request, version)).error_code)

    def add_offsets(self, group: str) -> Errors:
        self.find_coordinator(group=group)
        return patiently(lambda: self.ask_add_offsets(group), int)

    def ask_commit_offset(
        self, group: str, where: TopicPartition, offset: int, version: int = 3, **member: object
    ) -> Errors:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=where.topic, partitions=[partition])],
            **member,  # type: ignore[arg-type]
        )
        answer = cast(TxnOffsetCommitResponse, self.client.ask(request, version))
        return Errors(answer.topics[0].partitions[0].error_code)

    def commit_offset(
        self, group: str, where: TopicPartition, offset: int, version: int = 3
    ) -> Errors:
        return patiently(lambda: self.ask_commit_offset(group, where, offset, version), int)

    def committed_offset(
        self, group: str, where: TopicPartition, *, stable: bool = False
    ) -> tuple[int, Errors]:
        request = OffsetFetchRequest(
            group_id=group,
            topics=[OffsetFetchRequestTopic(name=where.topic, partition_indexes=[where.partition])],
            require_stable=stable,
        )
        answer = cast(OffsetFetchResponse, self.client.ask(request, 7))
        found = answer.topics[0].partitions[0]
        return found.committed_offset, Errors(found.error_code)
