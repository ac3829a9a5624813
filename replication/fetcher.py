"""Copying from one leader: a task that fetches all partitions this broker follows there.

Every answer is about a moment that is past. So before anything is changed, the partition must still
be followed in the epoch that was asked with, and its log must still end where the asking had it
end; everything from that check to the change happens in one turn of the event loop. What a fetcher
learns about a partition that it no longer owns is dropped.

A failure of one partition makes that partition rest; a failure of the connection makes all rest.

Most answers are records of a partition or two. The next request follows from such an answer, in the
same call, and names no partition but those: the task looks at all of them again when something else
happened, and every half second.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Protocol, TypeVar

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.forms import Form
from odradek.protocol.frames import decode_response
from odradek.protocol.messages.fetch import FetchPartitionData, FetchRequest, FetchResponse
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.fetch_plan import (
    DIVERGENCE_VERSION,
    NEWEST_VERSION,
    NO_SESSION,
    TOPIC_ID_VERSION,
    FetchLimits,
    FetchSession,
    Sender,
    Wanted,
)
from odradek.replication.partition import Partition
from odradek.replication.short_fetch import FIRST_VERSION as SHORT_VERSION
from odradek.replication.short_fetch import answer_form, request_form
from odradek.replication.throttle import Throttle
from odradek.replication.truncation import move_into_range, truncate
from odradek.storage.epochs import EpochEnd

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
# How long partitions that do not move are left alone.
LOOK_SECONDS: Final = 0.5

R = TypeVar("R", bound=Response)


class Link(Protocol):
    """A connection to a leader; failures are KafkaError."""

    @property
    def is_open(self) -> bool: ...

    def version_of(self, request: type[Request], at_most: int | None = None) -> int: ...

    async def request(
        self, request: Request, expected: type[R], *, version: int | None = None
    ) -> R: ...

    @property
    def client_id(self) -> str | None: ...

    def send_then(
        self,
        request: Request,
        on_answer: Callable[[Response | KafkaError], None],
        *,
        version: int | None = None,
    ) -> None: ...

    def exchange(
        self,
        frame_of: Callable[[int], bytes],
        on_frame: Callable[[bytes | bytearray | KafkaError], None],
        kind: type[Request],
    ) -> None: ...

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
        self._version = NEWEST_VERSION
        # Of the rounds on one connection: whom to tell of an answer, how a short request looks.
        self._on_answer: Callable[[Response | bytes | bytearray | KafkaError], None]
        self._form: Form | None = None
        # Whether nothing has happened since all partitions were looked at but records that came.
        self._is_steady = False
        self._looked_at = 0.0
        self._pause: asyncio.Future[list[Followed]] = self._loop.create_future()
        self._news = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._owned)

    def follow(self, partition: Partition, epoch: int) -> None:
        known = self._owned.get(partition.where)
        if known is not None and known.partition is partition and known.epoch == epoch:
            return
        self._owned[partition.where] = Followed(partition, epoch)
        self._is_steady = False
        self._news.set()

    def leave(self, where: TopicPartition) -> None:
        self._owned.pop(where, None)
        self._is_steady = False

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
        """Ask for these, and go on from each answer until all must be looked at again."""
        by_name = any(row.topic_id == NO_ID for row in wanted.values())
        newest = TOPIC_ID_VERSION - 1 if by_name else NEWEST_VERSION
        self._version = link.version_of(FetchRequest, newest)
        if self._version < DIVERGENCE_VERSION:
            raise KafkaError(Errors.UNSUPPORTED_VERSION, "the leader cannot tell of divergence")
        self._is_steady = len(wanted) == len(self._owned)
        self._looked_at = self._loop.time()
        self._pause = self._loop.create_future()
        self._on_answer = partial(self._answered, link)
        self._form = None
        if self._version >= SHORT_VERSION:
            self._form = request_form(self._version, link.client_id, self._limits)
        request = self._session.request(wanted, self._version, self._sender(), self._limits)
        link.send_then(request, self._on_answer, version=self._version)
        lost = await self._pause
        if lost:
            await self._find_place(link, lost)

    def _answered(self, link: Link, answer: Response | bytes | bytearray | KafkaError) -> None:
        """What was asked is answered, by a message or a frame, or something went wrong."""
        if self._pause.done():
            return  # nobody follows this leader any more
        try:
            if isinstance(answer, KafkaError):
                raise answer
            if isinstance(answer, Response):
                self._go_on(link, *self._take_all(answer))
            else:
                self._go_on(link, *self._take_frame(answer))
        except ProtocolError as error:
            nonsense = f"broker {self._leader_id} sent nonsense: {error}"
            self._pause.set_exception(KafkaError(Errors.NETWORK_EXCEPTION, nonsense))
        except Exception as error:
            self._pause.set_exception(error)

    def _go_on(self, link: Link, moved: list[Followed], lost: list[Followed]) -> None:
        """Ask for what comes after an answer, or let the task look at everything."""
        if lost or not self._may_go_on(moved):
            self._pause.set_result(lost)
            return
        session, sender = self._session, self._sender()
        rows = {}
        for followed in moved:
            where, row = followed.partition.where, followed.wanted()
            if row != session.asked.get(where):
                rows[where] = row
        if self._form is not None and len(rows) == 1:
            frame_of = partial(session.frame, self._form, *rows.popitem(), sender)
            link.exchange(frame_of, self._on_answer, FetchRequest)
        else:
            request = session.go_on(rows, self._version, sender, self._limits)
            link.send_then(request, self._on_answer, version=self._version)

    def _take_frame(self, frame: bytes | bytearray) -> tuple[list[Followed], list[Followed]]:
        """Like `_take_all`, for what is mostly records of one partition."""
        found = answer_form(self._version).read(frame)
        if found is None or found[0].session_id != self._session.place.session_id:
            return self._take_all(decode_response(frame, FetchRequest, self._version)[1])
        short, records = found
        self._session.answered(short.session_id)
        where = TopicPartition(self._session.names.get(short.topic_id, ""), short.partition)
        followed = self._followed(where)
        if followed is None:
            return [], []
        try:
            self._append(where, followed, records, short.high_watermark, short.log_start)
        except KafkaError as failure:
            self._rest(followed, failure)
        return [followed], []

    def _take_all(self, response: Response) -> tuple[list[Followed], list[Followed]]:
        """Use an answer: the partitions it was about, and those without a place there."""
        assert isinstance(response, FetchResponse)
        if response.error_code:
            error = Errors.of(response.error_code)
            if error not in SESSION_ERRORS:
                raise KafkaError(error)
            _log.info("the fetch session ended: %s", error.name)
            self._session.restart()
            self._is_steady = False
            return [], []
        self._session.answered(response.session_id)
        if response.session_id == NO_SESSION:
            self._is_steady = False
        answers = list(self._answers(response))
        moved = [followed for _, followed, _ in answers]
        return moved, [f for where, f, data in answers if self._take(where, f, data)]

    def _may_go_on(self, moved: Iterable[Followed]) -> bool:
        throttle = self._throttle
        return (
            self._is_steady
            and self._loop.time() - self._looked_at < LOOK_SECONDS
            and (throttle is None or not any(self._is_held_up(f, throttle) for f in moved))
        )

    def _answers(
        self, response: FetchResponse
    ) -> Iterable[tuple[TopicPartition, Followed, FetchPartitionData]]:
        names = self._session.names
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                where = TopicPartition(name, data.partition_index)
                followed = self._followed(where)
                if followed is not None:
                    yield where, followed, data

    def _followed(self, where: TopicPartition) -> Followed | None:
        """The partition, if what was asked is still what it wants, and from this leader."""
        followed, row = self._owned.get(where), self._session.asked.get(where)
        if (
            followed is not None
            and row is not None
            and followed.epoch == row.epoch
            and followed.partition.is_followed_in(self._leader_id, row.epoch)
            and followed.partition.log.log_end_offset == row.fetch_offset
        ):
            return followed
        return None

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
                truncate(followed.partition, EpochEnd(epoch.epoch, epoch.end_offset))
                return False
            records = data.records if isinstance(data.records, memoryview | bytes) else b""
            self._append(where, followed, records, data.high_watermark, data.log_start_offset)
        except KafkaError as failure:
            self._rest(followed, failure)
        return False

    def _append(
        self,
        where: TopicPartition,
        followed: Followed,
        records: memoryview | bytes,
        high_watermark: int,
        log_start: int,
    ) -> None:
        followed.partition.append_fetched(
            records, leader_hw=high_watermark, leader_log_start=log_start
        )
        followed.failures = 0
        log = followed.partition.log
        followed.is_level = log.log_end_offset >= high_watermark
        if self._throttle is not None:
            listed = log.config.follower_replication_throttled_replicas
            self._throttle.note(where, listed, len(records))

    def _rest(self, followed: Followed, failure: KafkaError) -> None:
        """Rest shortly at first: mostly the leader has not heard yet what we have heard."""
        level = logging.DEBUG if followed.failures < QUIET_FAILURES else logging.INFO
        _log.log(level, "%s is not copied now: %s", followed.partition.where, failure)
        rest = min(self._backoff_seconds, FIRST_REST_SECONDS * 2**followed.failures)
        followed.failures += 1
        self._is_steady = False
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
                move_into_range(partition, start, end)

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
