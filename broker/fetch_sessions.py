"""Incremental fetch sessions (KIP-227): a broker that remembers what a client fetches.

A client with many partitions names them once; afterwards it sends only what changed, and hears
only of partitions with something to tell. A session has an id the broker chose and an epoch that
both count: a request with an epoch out of step is refused, and the client begins anew.

    epoch -1   no session, and close the one named    full request, full response
    epoch  0   begin a session                        full request, full response
    epoch  n   go on with a session                   changes only, changes only

Most partitions have nothing new when a follower fetches, and a follower may have thousands. So of a
follower's session only those are looked at that are *unsettled*: named by this request, moved since
they were last read, or not in sync. The others are watched. As a watch tells only of records and
roles, all are looked at again every quarter of a second, and when there was nothing to tell last
time. Then a follower also hears of high watermarks that have moved without records; between two
looks it is told what came, mostly a batch of one partition.

The cache has a fixed number of slots. When all are taken, a newcomer displaces a session that was
idle for the eviction time, or a smaller one that had its share; otherwise it gets session id 0,
which tells the client to send full requests. Followers displace consumers, not the reverse.
"""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Final

from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest
from odradek.protocol.types import NO_ID
from odradek.replication.partition import Partition
from odradek.replication.waiters import Parked
from odradek.storage.log import Log

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
# How long a quiet partition of a follower is left alone.
LOOK_SECONDS: Final = 0.25

# Topics are named by id from Fetch v13 on, by name before.
Key = tuple[bytes | str, int]


class WantedPartition:
    """A partition a client fetches, and what it was last told about it."""

    __slots__ = (
        "found",
        "high_watermark",
        "log_start_offset",
        "request",
        "topic",
        "topic_id",
        "watch",
    )

    def __init__(self, topic: str, topic_id: bytes, request: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        # What a name and an index led to; it stays right until the partition has no role.
        self.found: Partition | None = None
        self.watch: Parked | None = None

    def is_level(self, log: Log) -> bool:
        """Whether the client has every record of a log and knows where it begins."""
        return (
            self.request.fetch_offset == log.log_end_offset
            and self.log_start_offset == log.log_start_offset
            and log.failure is None
        )

    def note(self, data: FetchPartitionData) -> bool:
        """Remember what `data` tells; whether any of it is news."""
        is_news = (
            bool(data.records)
            or data.error_code != 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch is not None
        )
        # An error is told again and again until it is gone.
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return is_news


class FetchSession:
    __slots__ = (
        "created",
        "epoch",
        "id",
        "is_looking",
        "is_privileged",
        "last_used",
        "looked_at",
        "on_move",
        "partitions",
        "told_nothing",
        "unsettled",
        "uses_topic_ids",
    )

    def __init__(
        self, id_: int, wanted: dict[Key, WantedPartition], *, by_id: bool, privileged: bool
    ) -> None:
        self.id = id_
        self.epoch = INITIAL_EPOCH
        self.partitions = wanted
        self.uses_topic_ids = by_id
        self.is_privileged = privileged
        self.created = 0.0
        self.last_used = 0.0
        # Of a follower: when all partitions were looked at and whether they are now, whether the
        # last answer told nothing, which partitions must be looked at again, and whom to tell when
        # one of the others moves.
        self.looked_at = 0.0
        self.is_looking = True
        self.told_nothing = False
        self.unsettled: dict[WantedPartition, None] = {}
        if privileged:
            self.unsettled = dict.fromkeys(wanted.values())
        self.on_move: Callable[[WantedPartition], None] | None = None

    @property
    def must_look(self) -> bool:
        """Whether a fetch must look at all partitions, settled or not."""
        is_late = self.last_used - self.looked_at >= LOOK_SECONDS
        return is_late or self.told_nothing or not self.is_privileged

    def due(self) -> Iterable[WantedPartition]:
        """The partitions that a fetch must look at, those first that have waited longest."""
        self.is_looking = self.must_look
        if not self.is_looking:
            return self.unsettled
        self.looked_at = self.last_used
        return self.partitions.values()

    def context(self) -> "FetchContext":
        """What to fetch when the session goes on."""
        return FetchContext(self.due(), session=self, is_incremental=True)

    def served(self, wanted: WantedPartition) -> None:
        """Whoever was served goes to the end of the queue, so that no partition starves when the
        response is full before its turn."""
        key = _key(wanted.topic, wanted.topic_id, wanted.request.partition)
        if key in self.partitions:
            self.partitions[key] = self.partitions.pop(key)
            if self.is_privileged:
                self.unsettled.pop(wanted, None)
                self.unsettled[wanted] = None

    def settle(self, wanted: WantedPartition, partition: Partition) -> None:
        """Leave a partition alone until it moves."""
        self.watch(wanted, partition)
        self.unsettled.pop(wanted, None)

    def watch(self, wanted: WantedPartition, partition: Partition) -> None:
        if wanted.watch is None:
            moved = partial(self._moved, wanted)
            wanted.watch = partition.data_waiters.park(partition.log.log_end_offset + 1, moved)

    def _moved(self, wanted: WantedPartition) -> None:
        wanted.watch = None
        self.unsettled[wanted] = None
        if self.on_move is not None:
            self.on_move(wanted)

    def forget(self, wanted: WantedPartition) -> None:
        self.unsettled.pop(wanted, None)
        if wanted.watch is not None:
            wanted.watch.cancel()
            wanted.watch = None

    def close(self) -> None:
        for wanted in self.partitions.values():
            self.forget(wanted)


class FetchContext:
    """One fetch: what is wanted, in order, and which of the results go into the answer."""

    __slots__ = ("is_incremental", "session", "session_id", "wanted")

    def __init__(
        self,
        wanted: Iterable[WantedPartition],
        *,
        session: FetchSession | None = None,
        is_incremental: bool = False,
    ) -> None:
        self.wanted = list(wanted)
        self.session_id = session.id if session else NO_SESSION
        self.session = session
        self.is_incremental = is_incremental

    @property
    def is_empty(self) -> bool:
        return self.session is None and not self.wanted

    @property
    def watching(self) -> FetchSession | None:
        """The session that watches over its partitions from one fetch to the next, if one does."""
        session = self.session
        return session if session is not None and session.is_privileged else None

    def tells(self, wanted: WantedPartition, data: FetchPartitionData) -> bool:
        """Whether this result belongs in the answer."""
        session = self.session
        if session is None:
            return True
        is_news = wanted.note(data)
        if self.is_incremental and is_news:
            session.served(wanted)
        return is_news or not self.is_incremental


class FetchSessions:
    """All sessions of a broker."""

    def __init__(
        self, *, max_slots: int, eviction_seconds: float, clock: Clock, random: Random
    ) -> None:
        self._max_slots = max_slots
        self._eviction_seconds = eviction_seconds
        self._clock = clock
        self._random = random
        # Ordered by last use, oldest first.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, *, from_follower: bool) -> FetchContext:
        """What to fetch for this request. Raises KafkaError for a session out of step."""
        if request.session_epoch > INITIAL_EPOCH:
            return self._go_on(request, by_id=version >= 13)
        if request.session_id in self._sessions:
            self._end(self._sessions[request.session_id])
        wanted = _wanted(request)
        if request.session_epoch == FINAL_EPOCH or not wanted:
            return FetchContext(wanted.values())
        session = self._create(wanted, by_id=version >= 13, privileged=from_follower)
        return FetchContext(wanted.values(), session=session)

    def find(self, session_id: int, epoch: int) -> FetchSession | None:
        """A follower's session that names topics by id, if it is this one's turn."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or not session.uses_topic_ids:
            return None
        return session if session.is_privileged else None

    def go_on_with(self, session: FetchSession, moved: WantedPartition) -> None:
        """The request of one partition is another, and all else is as it was."""
        session.unsettled[moved] = None
        self._touch(session)

    def _go_on(self, request: FetchRequest, *, by_id: bool) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(Errors.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(Errors.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            raise KafkaError(Errors.FETCH_SESSION_TOPIC_ID_ERROR)
        self._update(session, request)
        if not session.partitions:
            self._end(session)
            return FetchContext(())
        self._touch(session)
        return session.context()

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        for key, wanted in _wanted(request).items():
            known = session.partitions.get(key)
            if known is None:
                known = session.partitions[key] = wanted
            else:
                known.request = wanted.request
            if session.is_privileged:
                session.unsettled[known] = None
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                key = _key(topic.topic, topic.topic_id, partition)
                if (forgotten := session.partitions.pop(key, None)) is not None:
                    session.forget(forgotten)

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        session.close()

    def _touch(self, session: FetchSession) -> None:
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        session.last_used = self._clock.monotonic()
        self._sessions[session.id] = self._sessions.pop(session.id, session)

    def _create(
        self, wanted: dict[Key, WantedPartition], *, by_id: bool, privileged: bool
    ) -> FetchSession | None:
        if not self._make_room(len(wanted), privileged=privileged):
            return None
        session = FetchSession(self._free_id(), wanted, by_id=by_id, privileged=privileged)
        session.created = session.looked_at = self._clock.monotonic()
        self._touch(session)
        return session

    def _free_id(self) -> int:
        while True:
            chosen = self._random.randint(1, _MAX_EPOCH)
            if chosen not in self._sessions:
                return chosen

    def _make_room(self, size: int, *, privileged: bool) -> bool:
        if len(self._sessions) < self._max_slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        deadline = self._clock.monotonic() - self._eviction_seconds
        if oldest.last_used <= deadline:
            self._end(oldest)
            return True
        candidates = [s for s in self._sessions.values() if s.created <= deadline]
        if privileged:
            candidates += [s for s in self._sessions.values() if not s.is_privileged]
        else:
            candidates = [s for s in candidates if not s.is_privileged]
        if not candidates:
            return False
        least = min(candidates, key=lambda s: (s.is_privileged, len(s.partitions)))
        if least.is_privileged < privileged or len(least.partitions) < size:
            self._end(least)
            return True
        return False


def _wanted(request: FetchRequest) -> dict[Key, WantedPartition]:
    wanted: dict[Key, WantedPartition] = {}
    for topic in request.topics:
        name, topic_id = topic.topic, topic.topic_id
        known_as = name if topic_id == NO_ID else topic_id
        for partition in topic.partitions:
            wanted[known_as, partition.partition] = WantedPartition(name, topic_id, partition)
    return wanted


def _key(topic: str, topic_id: bytes, partition: int) -> Key:
    return (topic if topic_id == NO_ID else topic_id), partition
