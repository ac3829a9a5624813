"""Copying from one leader: a task that fetches all partitions this broker follows there.

Every answer is about a moment that is past. So before anything is changed, the partition must still
be followed in the epoch that was asked with, and its log must still end where the asking had it
end; everything from that check to the change happens in one turn of the event loop. What a fetcher
learns about a partition that it no longer owns is dropped.

A failure of one partition makes that partition rest; a failure of the connection makes all rest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import FetchPartitionData, FetchRequest, FetchResponse
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.divergence import restart_offset, truncation_offset
from odradek.replication.fetch_plan import (
    DIVERGENCE_VERSION,
    NEWEST_VERSION,
    TOPIC_ID_VERSION,
    FetchLimits,
    FetchSession,
    Sender,
    Wanted,
)
from odradek.replication.partition import Partition
from odradek.replication.throttle import Throttle
from odradek.storage.epochs import NO_EPOCH, EpochEnd

_log = logging.getLogger(__name__)

EARLIEST: Final = -2
LATEST: Final = -1
FOR_EVER: Final = float("inf")
# The leader has forgotten the session, as after a restart: the next request begins another.
SESSION_ERRORS: Final = (
    Errors.FETCH_SESSION_ID_NOT_FOUND,
    Errors.INVALID_FETCH_SESSION_EPOCH,
    Errors.FETCH_SESSION_TOPIC_ID_ERROR,
)
FIRST_REST_SECONDS: Final = 0.02
QUIET_FAILURES: Final = 3
# How soon a partition that is held up is looked at again.
THROTTLE_SECONDS: Final = 0.1

R = TypeVar("R", bound=Response)


class Link(Protocol):
    """A connection to a leader; failures are KafkaError."""

    @property
    def is_open(self) -> bool: ...

    def version_of(self, request: type[Request], at_most: int | None = None) -> int: ...

    async def request(
        self, request: Request, expected: type[R], *, version: int | None = None
    ) -> R: ...

    def close(self) -> None: ...


Connect = Callable[[int], Awaitable[Link]]


class Followed:
    """A partition that the fetcher owns, since which epoch, and until when it rests."""

    __slots__ = ("epoch", "failures", "is_level", "partition", "rests_until")

    def __init__(self, partition: Partition, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.failures = 0
        self.rests_until = 0.0
        # Whether it had all that was committed when it last heard from the leader.
        self.is_level = False

    def wanted(self) -> Wanted:
        log = self.partition.log
        return Wanted(
            self.partition.topic_id,
            self.epoch,
            log.log_end_offset,
            # Of the log, whatever the last answer held: an empty one changes nothing.
            log.epochs.latest_epoch,
            log.log_start_offset,
        )


class Fetcher:
    def __init__(
        self,
        leader_id: int,
        *,
        sender: Callable[[], Sender],
        connect: Connect,
        limits: FetchLimits,
        backoff_seconds: float,
        throttle: Throttle | None = None,
    ) -> None:
        self._leader_id = leader_id
        self._sender = sender
        self._connect = connect
        self._limits = limits
        self._backoff_seconds = backoff_seconds
        self._throttle = throttle
        self._loop = asyncio.get_running_loop()
        self._owned: dict[TopicPartition, Followed] = {}
        self._link: Link | None = None
        self._session = FetchSession()
        self._news = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._owned)

    def follow(self, partition: Partition, epoch: int) -> None:
        known = self._owned.get(partition.where)
        if known is not None and known.partition is partition and known.epoch == epoch:
            return
        self._owned[partition.where] = Followed(partition, epoch)
        self._news.set()

    def leave(self, where: TopicPartition) -> None:
        self._owned.pop(where, None)

    async def close(self) -> None:
        self._owned.clear()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()

    # The task -------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            wanted = self._wanted()
            if not wanted:
                await self._wait_for_work()
                continue
            try:
                await self._fetch(await self._connected(), wanted)
            except (KafkaError, OSError, TimeoutError) as error:
                _log.warning("cannot fetch from broker %d: %s", self._leader_id, error)
                self._disconnect()
                await asyncio.sleep(self._backoff_seconds)

    def _wanted(self) -> dict[TopicPartition, Wanted]:
        now = self._loop.time()
        if self._throttle is not None:
            for followed in self._owned.values():
                if followed.rests_until <= now and self._is_held_up(followed, self._throttle):
                    followed.rests_until = now + THROTTLE_SECONDS
        return {w: f.wanted() for w, f in self._owned.items() if f.rests_until <= now}

    def _is_held_up(self, followed: Followed, throttle: Throttle) -> bool:
        partition = followed.partition
        listed = partition.log.config.follower_replication_throttled_replicas
        return not followed.is_level and throttle.holds(partition.where, listed)

    async def _wait_for_work(self) -> None:
        """Until a partition comes, or one has rested."""
        self._news.clear()
        earliest = min((f.rests_until for f in self._owned.values()), default=FOR_EVER)
        timeout = None if earliest == FOR_EVER else max(0.0, earliest - self._loop.time())
        # Not `wait_for`: before Python 3.12, one that is cancelled in the turn in which the news
        # come loses its cancellation, and this task would never end.
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            return

    async def _connected(self) -> Link:
        if self._link is None or not self._link.is_open:
            self._disconnect()
            self._link = await self._connect(self._leader_id)
        return self._link

    def _disconnect(self) -> None:
        self._session.restart()
        if self._link is not None:
            self._link.close()
            self._link = None

    # A round --------------------------------------------------------------------------------

    async def _fetch(self, link: Link, wanted: dict[TopicPartition, Wanted]) -> None:
        by_name = any(row.topic_id == NO_ID for row in wanted.values())
        newest = TOPIC_ID_VERSION - 1 if by_name else NEWEST_VERSION
        version = link.version_of(FetchRequest, newest)
        if version < DIVERGENCE_VERSION:
            raise KafkaError(Errors.UNSUPPORTED_VERSION, "the leader cannot tell of divergence")
        request = self._session.request(wanted, version, self._sender(), self._limits)
        response = await link.request(request, FetchResponse, version=version)
        if response.error_code:
            error = Errors.of(response.error_code)
            if error not in SESSION_ERRORS:
                raise KafkaError(error)
            _log.info("the fetch session ended: %s", error.name)
            self._session.restart()
            return
        self._session.answered(response.session_id)
        lost = [f for where, f, data in self._answers(response) if self._take(where, f, data)]
        if lost:
            await self._find_place(link, lost)

    def _answers(
        self, response: FetchResponse
    ) -> Iterable[tuple[TopicPartition, Followed, FetchPartitionData]]:
        asked = self._session.asked
        names = {row.topic_id: where.topic for where, row in asked.items()}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                where = TopicPartition(name, data.partition_index)
                followed = self._owned.get(where)
                if followed is not None and where in asked and self._is_current(followed, where):
                    yield where, followed, data

    def _is_current(self, followed: Followed, where: TopicPartition) -> bool:
        """Whether what was asked is still what this partition wants, and from this leader."""
        row = self._session.asked[where]
        return (
            followed.epoch == row.epoch
            and followed.partition.is_followed_in(self._leader_id, row.epoch)
            and followed.partition.log.log_end_offset == row.fetch_offset
        )

    def _take(self, where: TopicPartition, followed: Followed, data: FetchPartitionData) -> bool:
        """Use one partition's answer; whether the leader has nothing where we would go on."""
        error = Errors.of(data.error_code)
        if error is Errors.OFFSET_OUT_OF_RANGE:
            return True
        try:
            if error is not Errors.NONE:
                raise KafkaError(error)
            if data.diverging_epoch is not None:
                # Nothing else in this answer counts: its high watermark is of another past.
                epoch = data.diverging_epoch
                _truncate(followed.partition, EpochEnd(epoch.epoch, epoch.end_offset))
                return False
            records = data.records if isinstance(data.records, memoryview | bytes) else b""
            followed.partition.append_fetched(
                records, leader_hw=data.high_watermark, leader_log_start=data.log_start_offset
            )
            followed.failures = 0
            log = followed.partition.log
            followed.is_level = log.log_end_offset >= data.high_watermark
            if self._throttle is not None:
                listed = log.config.follower_replication_throttled_replicas
                self._throttle.note(where, listed, len(records))
        except KafkaError as failure:
            self._rest(followed, failure)
        return False

    def _rest(self, followed: Followed, failure: KafkaError) -> None:
        """Rest shortly at first: mostly the leader has not heard yet what we have heard."""
        level = logging.DEBUG if followed.failures < QUIET_FAILURES else logging.INFO
        _log.log(level, "%s is not copied now: %s", followed.partition.where, failure)
        rest = min(self._backoff_seconds, FIRST_REST_SECONDS * 2**followed.failures)
        followed.failures += 1
        if failure.error is Errors.FENCED_LEADER_EPOCH:
            # A newer epoch has begun; the controller will tell us of it.
            rest = FOR_EVER
        followed.rests_until = self._loop.time() + rest

    # Out of range ---------------------------------------------------------------------------

    async def _find_place(self, link: Link, lost: list[Followed]) -> None:
        """Ask where the leader's logs begin and end, and go on within."""
        ends = await self._offsets(link, lost, LATEST)
        starts = await self._offsets(link, lost, EARLIEST)
        for followed in lost:
            partition = followed.partition
            start, end = starts.get(partition.where), ends.get(partition.where)
            if start is None or end is None:
                self._rest(followed, KafkaError(Errors.OFFSET_NOT_AVAILABLE))
            elif partition.is_followed_in(self._leader_id, followed.epoch):
                _move_into_range(partition, start, end)

    async def _offsets(
        self, link: Link, lost: list[Followed], timestamp: int
    ) -> dict[TopicPartition, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for followed in lost:
            name, index = followed.partition.where
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=followed.epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._sender().broker_id, topics=list(topics.values())
        )
        response = await link.request(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, partition.partition_index): partition.offset
            for topic in response.topics
            for partition in topic.partitions
            if not partition.error_code
        }


def _truncate(partition: Partition, leader: EpochEnd) -> None:
    log = partition.log
    offset = truncation_offset(
        leader=leader,
        own=log.end_offset_for_epoch(leader.epoch),
        log_end_offset=log.log_end_offset,
    )
    if offset < log.high_watermark:
        _log.warning(
            "%s is cut to %d, below its high watermark %d",
            partition.where,
            offset,
            log.high_watermark,
        )
    _log.info("%s is cut from %d to %d", partition.where, log.log_end_offset, offset)
    log.truncate_to(offset)


def _move_into_range(partition: Partition, start: int, end: int) -> None:
    log = partition.log
    offset, is_empty = restart_offset(
        log_end_offset=log.log_end_offset, leader_start=start, leader_end=end
    )
    _log.info("%s goes on at %d: the leader has %d to %d", partition.where, offset, start, end)
    if is_empty:
        log.truncate_fully_and_start_at(offset)
    else:
        log.truncate_to(offset)


def forget_uncertain(partition: Partition) -> None:
    """Records without any known epoch can only be trusted up to the high watermark."""
    log = partition.log
    if log.epochs.latest_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:
        log.truncate_to(log.high_watermark)
