"""One fetch on its way: reading, waiting for records when there are too few, answering.

Stage one reads every wanted partition. The answer is ready at once when it has `min_bytes`, when
something must be told (an error, a divergence, a better replica), or when the client does not
want to wait. Otherwise the fetch parks on its partitions, reads again from each that moves, and
answers when that is enough or the time is over. Bytes are never touched: an answer holds slices of
segment files.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import FetchContext, WantedPartition
from odradek.broker.handlers.fetch_again import NO_EPOCH, READ_COMMITTED, SMALL_BYTES
from odradek.broker.handlers.fetch_terms import FetchTerms
from odradek.broker.handlers.new_leaders import endpoints_of
from odradek.broker.handlers.old_clients import FIRST_VERSION_FOR_ALL, for_old_clients
from odradek.broker.later import Later
from odradek.broker.nearest_replica import nearest_replica
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchAbortedTransaction,
    FetchEpochEndOffset,
    FetchLeaderIdAndEpoch,
    FetchNodeEndpoint,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition
from odradek.replication.waiters import Parked
from odradek.storage.files import FileSlice
from odradek.storage.log import Log
from odradek.storage.log_reading import Bounds, Isolation

# A tool that reads what a follower would, without being one.
DEBUGGING_CONSUMER: Final = -2
NO_OFFSET: Final = -1

A = TypeVar("A")

_LEADER_MOVED = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)


class Fetch(Generic[A]):
    """`answer` makes of a fetch that has ended what its peer is told."""

    __slots__ = (
        "_answer",
        "_is_noted",
        "_parked",
        "_results",
        "_session",
        "_terms",
        "_timer",
        "_to_answer",
        "_version",
        "bytes_read",
        "context",
        "is_follower",
        "isolation",
        "limit_bytes",
        "must_tell",
        "replica_id",
        "request",
        "request_context",
    )

    context: FetchContext

    def __init__(
        self,
        request: FetchRequest,
        request_context: RequestContext,
        terms: FetchTerms,
        answer: Callable[["Fetch[A]"], A],
    ) -> None:
        self.request = request
        self.request_context = request_context
        self._version = request_context.version
        self._terms = terms
        self._to_answer = answer
        self.limit_bytes = max(0, min(request.max_bytes, terms.max_bytes))
        state = request.replica_state
        self.replica_id = request.replica_id if state is None else state.replica_id
        self.is_follower = self.replica_id >= 0
        self.isolation = _isolation(self.replica_id, request.isolation_level)
        # None stands for "nothing that its client does not know".
        self._results: dict[WantedPartition, FetchPartitionData | None] = {}

    def begin(self, context: FetchContext, *, is_noted: bool = False) -> A | Later[A]:
        """`is_noted` is said of a follower's fetch if what it has was noted already."""
        self.context = context
        self._session = context.watching
        self._is_noted = is_noted
        self.read()
        return self._to_answer(self) if self.is_complete else self.park()

    def end(self, context: FetchContext) -> A:
        """Answer one that has waited elsewhere, and was noted there."""
        self.context = context
        self._session = context.watching
        self._is_noted = True
        self.read()
        return self._to_answer(self)

    @property
    def is_complete(self) -> bool:
        return (
            self.must_tell
            or self.bytes_read >= self.request.min_bytes
            or self.request.max_wait_ms <= 0
            or self.context.is_empty
        )

    # Reading --------------------------------------------------------------------------------

    def read(self) -> None:
        """Read all wanted partitions, in their order, until the limit is used up."""
        self.bytes_read = 0
        self.must_tell = False
        self._results = {wanted: self._read_one(wanted) for wanted in self.context.wanted}
        if self.context.is_incremental and self._session is not None and self._session.is_looking:
            # What else a look has found, high watermarks mostly, is not to wait for records.
            self.must_tell |= any(data is not None for data in self._results.values())

    def _read_one(self, wanted: WantedPartition) -> FetchPartitionData | None:
        partition = wanted.found
        try:
            if partition is None or partition.role is None:
                partition = wanted.found = self._find(wanted)
            return self._read_partition(partition, wanted)
        except KafkaError as error:
            wanted.found = None
            self.must_tell = True
            return self._refused(wanted, error)

    def _find(self, wanted: WantedPartition) -> Partition:
        terms, topic_id = self._terms, wanted.topic_id
        if topic_id == NO_ID:
            return terms.replicas.hosted(TopicPartition(wanted.topic, wanted.request.partition))
        name = terms.metadata.view.names_by_id.get(topic_id)
        if name is None:
            raise KafkaError(Errors.UNKNOWN_TOPIC_ID)
        partition = terms.replicas.hosted(TopicPartition(name, wanted.request.partition))
        if partition.topic_id != topic_id:
            raise KafkaError(Errors.INCONSISTENT_TOPIC_ID)
        return partition

    def _read_partition(
        self, partition: Partition, wanted: WantedPartition
    ) -> FetchPartitionData | None:
        request = wanted.request
        partition.check_readable(
            request.current_leader_epoch, leader_only=self.is_follower or self._version < 11
        )
        if request.last_fetched_epoch != NO_EPOCH:
            diverged = self._diverged(partition, wanted)
            if diverged is not None:
                return diverged
        if self.is_follower:
            return self._read_for_follower(partition, wanted)
        return self._read_for_consumer(partition, wanted)

    def _read_for_follower(
        self, partition: Partition, wanted: WantedPartition
    ) -> FetchPartitionData | None:
        if self._is_known(wanted, partition.log):
            self._note_follower(partition, wanted)
            session = self._session
            if session is not None and self._may_be_left_alone(partition, wanted):
                session.settle(wanted, partition)
            return None
        request = wanted.request
        room = min(request.partition_max_bytes, self.limit_bytes - self.bytes_read)
        may_read = not partition.holds_up(self.replica_id)
        records, bounds = self._terms.shared_reads.read(
            partition,
            request.fetch_offset,
            max(0, room) if may_read else 0,
            min_one_batch=may_read and self.bytes_read == 0,
        )
        self._note_follower(partition, wanted)
        partition.note_sent(len(records))
        self.bytes_read += len(records)
        return _data_of(wanted, bounds, records)

    def _is_known(self, wanted: WantedPartition, log: Log) -> bool:
        """Whether the client knows all that is to be told of a partition now."""
        return (
            self.context.is_incremental
            and wanted.is_level(log)
            and (wanted.high_watermark == log.high_watermark or self._tells_records_only)
        )

    @property
    def _tells_records_only(self) -> bool:
        session = self._session
        return session is not None and not session.is_looking and not self._terms.reads_near_by

    def _may_be_left_alone(self, partition: Partition, wanted: WantedPartition) -> bool:
        """Whether a follower that has everything has nothing to become, and, where consumers read
        from it, nothing more to hear of what its fetch has moved."""
        log = partition.log
        return partition.has_in_sync(self.replica_id) and (
            not self._terms.reads_near_by
            or wanted.high_watermark == log.high_watermark == log.log_end_offset
        )

    def _read_for_consumer(
        self, partition: Partition, wanted: WantedPartition
    ) -> FetchPartitionData | None:
        if self._is_known(wanted, partition.log):
            return None
        request = wanted.request
        if self._terms.reads_near_by and self.request.rack_id:
            referred = self._referred(partition, wanted)
            if referred is not None:
                return referred
        room = min(request.partition_max_bytes, self.limit_bytes - self.bytes_read)
        found, bounds, aborted = partition.read(
            request.fetch_offset,
            max(0, room),
            isolation=self.isolation,
            min_one_batch=self.bytes_read == 0,
        )
        records = found or b""
        self.bytes_read += len(records)
        data = _data_of(wanted, bounds, records)
        if aborted is not None:
            data.aborted_transactions = [
                FetchAbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
                for txn in aborted
            ]
        if self._version < FIRST_VERSION_FOR_ALL and records:
            data.records = for_old_clients(records, partition.log.config, self._version)
        return data

    def _referred(self, partition: Partition, wanted: WantedPartition) -> FetchPartitionData | None:
        """What a consumer is told that had better read elsewhere: where, and no records."""
        request, bounds = wanted.request, partition.log.bounds()
        if not isinstance(partition.role, Leader) or not (
            bounds.log_start <= request.fetch_offset <= bounds.high_watermark
        ):
            return None
        nearest = nearest_replica(
            self.request.rack_id,
            request.fetch_offset,
            partition.role,
            self._terms.metadata.view.brokers,
            self.request_context.listener,
        )
        if nearest is None:
            return None
        self.must_tell = True
        data = _data_of(wanted, bounds)
        data.preferred_read_replica = nearest
        return data

    def _diverged(self, partition: Partition, wanted: WantedPartition) -> FetchPartitionData | None:
        """What a fetcher is told whose log has parted from ours."""
        request = wanted.request
        end = partition.diverging_end(request.last_fetched_epoch, request.fetch_offset)
        if end is None:
            return None
        self.must_tell = True
        data = _data_of(wanted, partition.log.bounds())
        data.diverging_epoch = FetchEpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
        return data

    def _note_follower(self, partition: Partition, wanted: WantedPartition) -> None:
        """The follower has all before the offset it asks for; that was noted when it asked."""
        if not self.is_follower or self._is_noted:
            return
        state = self.request.replica_state
        partition.note_follower_fetch(
            self.replica_id,
            fetch_offset=wanted.request.fetch_offset,
            log_start_offset=wanted.request.log_start_offset,
            broker_epoch=-1 if state is None else state.replica_epoch,
        )

    def _refused(self, wanted: WantedPartition, error: KafkaError) -> FetchPartitionData:
        data = FetchPartitionData(
            partition_index=wanted.request.partition,
            error_code=error.error,
            high_watermark=NO_OFFSET,
            records=b"",
        )
        if error.error in _LEADER_MOVED:
            topic = self._terms.metadata.view.topic(wanted.topic, wanted.topic_id)
            known = None if topic is None else topic.partitions.get(wanted.request.partition)
            if known is not None:
                data.current_leader = FetchLeaderIdAndEpoch(
                    leader_id=known.leader, leader_epoch=known.leader_epoch
                )
        return data

    # Waiting --------------------------------------------------------------------------------

    def park(self) -> Later[A]:
        loop = self._terms.loop
        self._is_noted = True
        self._answer: Later[A] = Later()
        self._timer = loop.call_later(self.request.max_wait_ms / 1000, self._finish)
        self._parked: list[Parked] = []
        session = self._session
        if session is None:
            for wanted in self._results:
                self._park_on(wanted)
        else:
            session.on_move = self._look
            for wanted in self._results:
                if wanted.found is not None:
                    session.watch(wanted, wanted.found)
        if self.is_follower:
            self._look_at_what_it_moved()
            if self._terms.reads_near_by:
                self._park_on_high_watermarks()
        return self._answer

    def _look_at_what_it_moved(self) -> None:
        """A follower's fetch may commit records, and whoever hears of that may append others, to
        partitions that were read already or left alone: the end of a transaction does."""
        session = self._session
        for wanted in (*self._results, *(() if session is None else session.unsettled)):
            partition = wanted.found
            if partition is None:
                continue
            if partition.log.log_end_offset > wanted.request.fetch_offset:
                self._look(wanted)

    def _park_on_high_watermarks(self) -> None:
        """A follower's consumers wait for the high watermark, so it must hear of it at once."""
        for wanted in self._results:
            partition = wanted.found
            if partition is None:
                continue
            if wanted.high_watermark < partition.log.high_watermark:
                self._terms.loop.call_soon(self._finish)
                return
            after = partition.log.high_watermark + 1
            self._parked.append(partition.hw_waiters.park(after, self._tell_high_watermarks))

    def _tell_high_watermarks(self) -> None:
        if not self._answer.is_there:
            self._results = {wanted: self._read_one(wanted) for wanted in self._results}
            self._finish()

    def _park_on(self, wanted: WantedPartition) -> None:
        """Wait for the next record that a partition may show."""
        partition = wanted.found
        if partition is None:
            return
        if self.isolation is Isolation.LOG_END:
            waiters, seen = partition.data_waiters, partition.log.log_end_offset
        else:
            waiters, seen = partition.hw_waiters, partition.log.high_watermark
        self._parked.append(waiters.park(seen + 1, partial(self._look, wanted)))

    def _look(self, wanted: WantedPartition) -> None:
        """A partition moved: read it again, and answer if that is enough."""
        if self._answer.is_there:
            return
        seen = self._results.get(wanted)
        self.bytes_read -= 0 if seen is None else len(seen.records or b"")
        self._results[wanted] = self._read_one(wanted)
        session = self._session
        if self.is_complete:
            self._finish()
        elif session is None:
            self._park_on(wanted)
        elif wanted.found is not None:
            session.watch(wanted, wanted.found)

    def _finish(self) -> None:
        self._timer.cancel()
        for parked in self._parked:
            parked.cancel()
        session = self._session
        if session is not None and session.on_move == self._look:
            session.on_move = None
        if not self._answer.is_there:
            self._answer.set(self._to_answer(self))

    # Answering ------------------------------------------------------------------------------

    def news(self) -> list[tuple[WantedPartition, FetchPartitionData]]:
        """What there is to tell. Called once: what it names is told."""
        news = [
            (wanted, data)
            for wanted, data in self._results.items()
            if data is not None and self.context.tells(wanted, data)
        ]
        if self._session is not None:
            self._session.told_nothing = not news
        return news

    def response(self) -> FetchResponse:
        return self.response_of(self.news())

    def response_of(self, news: list[tuple[WantedPartition, FetchPartitionData]]) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        last: FetchableTopicResponse | None = None
        for wanted, data in news:
            if last is None or last.topic != wanted.topic or last.topic_id != wanted.topic_id:
                last = FetchableTopicResponse(
                    topic=wanted.topic, topic_id=wanted.topic_id, partitions=[]
                )
                topics.append(last)
            if type(data.records) is FileSlice and data.records.length <= SMALL_BYTES:
                # With the answer around it one piece, which is sent by one call.
                data.records = data.records.read_cached() or data.records
            last.partitions.append(data)
        response = FetchResponse(session_id=self.context.session_id, responses=topics)
        if self.must_tell:
            response.node_endpoints = endpoints_of(
                (data.current_leader.leader_id for _, data in news if data.current_leader),
                self._terms.metadata.view,
                self.request_context.listener,
                FetchNodeEndpoint,
            )
        return response


def _data_of(
    wanted: WantedPartition, bounds: Bounds, records: FileSlice | bytes = b""
) -> FetchPartitionData:
    return FetchPartitionData(
        partition_index=wanted.request.partition,
        error_code=0,
        high_watermark=bounds.high_watermark,
        last_stable_offset=bounds.last_stable,
        log_start_offset=bounds.log_start,
        records=records,
    )


def _isolation(replica_id: int, isolation_level: int) -> Isolation:
    if replica_id >= 0 or replica_id == DEBUGGING_CONSUMER:
        return Isolation.LOG_END
    if isolation_level == READ_COMMITTED:
        return Isolation.LAST_STABLE
    return Isolation.HIGH_WATERMARK
