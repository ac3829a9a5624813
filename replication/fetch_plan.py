"""What a follower asks its leader for: one incremental fetch session per leader (KIP-227). Pure.

A session makes idle partitions free: only those that moved are named again. Any doubt about the
session ends it, and the next request names everything.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.protocol.forms import Form
from odradek.protocol.frames import LENGTH
from odradek.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from odradek.protocol.types import NO_ID, TopicPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
MAX_EPOCH: Final = (1 << 31) - 1

# The version from which a fetch tells the epoch of the last record, so that the leader can say
# where the logs part; topics are named by id, and a follower tells which life it is in, later.
DIVERGENCE_VERSION: Final = 12
TOPIC_ID_VERSION: Final = 13
REPLICA_EPOCH_VERSION: Final = 15
NEWEST_VERSION: Final = 17


class Wanted(NamedTuple):
    """What a follower has of a partition, and so wants next."""

    topic_id: bytes
    epoch: int
    fetch_offset: int
    last_epoch: int
    log_start: int


class FetchLimits(NamedTuple):
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


class Sender(NamedTuple):
    broker_id: int
    broker_epoch: int


class Place(NamedTuple):
    """Where in which session a request stands."""

    session_id: int
    epoch: int


BEFORE_ANY_SESSION: Final = Place(NO_SESSION, FIRST_EPOCH)


class FetchSession:
    """The session with one leader. `asked` is what the answer under way is about."""

    def __init__(self) -> None:
        self.place = BEFORE_ANY_SESSION
        self.asked: dict[TopicPartition, Wanted] = {}
        self.names: dict[bytes, str] = {}
        """Of the topics in `asked`, by id."""

    def restart(self) -> None:
        self.place = BEFORE_ANY_SESSION

    def answered(self, session_id: int) -> None:
        """The answer came, with the session that the leader grants."""
        if session_id == NO_SESSION:
            self.place = BEFORE_ANY_SESSION
        else:
            epoch = self.place.epoch
            self.place = Place(session_id, 1 if epoch == MAX_EPOCH else epoch + 1)

    def request(
        self,
        wanted: Mapping[TopicPartition, Wanted],
        version: int,
        sender: Sender,
        limits: FetchLimits,
    ) -> FetchRequest:
        """The next request, for exactly these partitions."""
        known = {} if self.place.epoch == FIRST_EPOCH else self.asked
        forgotten = {
            where: row
            for where, row in known.items()
            if where not in wanted or wanted[where].topic_id != row.topic_id
        }
        changed = {where: row for where, row in wanted.items() if known.get(where) != row}
        self.asked = dict(wanted)
        self.names = {row.topic_id: where.topic for where, row in wanted.items()}
        return fetch_request(self.place, changed, version, sender, limits, forgotten)

    def go_on(
        self,
        moved: Mapping[TopicPartition, Wanted],
        version: int,
        sender: Sender,
        limits: FetchLimits,
    ) -> FetchRequest:
        """The next request, for all partitions of the one before, of which only these moved."""
        self.asked.update(moved)
        return fetch_request(self.place, moved, version, sender, limits)

    def frame(
        self, form: Form, where: TopicPartition, row: Wanted, sender: Sender, correlation_id: int
    ) -> bytes:
        """Like `go_on` for one partition, encoded already."""
        self.asked[where] = row
        topic_id, epoch, fetch_offset, last_epoch, log_start = row
        return LENGTH.pack(form.size) + form.write(
            correlation_id,
            *self.place,
            topic_id,
            where.partition,
            epoch,
            fetch_offset,
            last_epoch,
            log_start,
            *sender,
        )


def fetch_request(
    place: Place,
    named: Mapping[TopicPartition, Wanted],
    version: int,
    sender: Sender,
    limits: FetchLimits,
    forgotten: Mapping[TopicPartition, Wanted] | None = None,
) -> FetchRequest:
    """A follower's request at this place of its session."""
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        session_id=place.session_id,
        session_epoch=place.epoch,
        topics=_topics(named, version, limits.partition_max_bytes),
        forgotten_topics_data=_forgotten(forgotten or {}, version),
    )
    if version >= REPLICA_EPOCH_VERSION:
        request.replica_state = FetchReplicaState(
            replica_id=sender.broker_id, replica_epoch=sender.broker_epoch
        )
    else:
        request.replica_id = sender.broker_id
    return request


def _topics(
    rows: Mapping[TopicPartition, Wanted], version: int, max_bytes: int
) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for where, row in rows.items():
        topic = topics.get(where.topic)
        if topic is None:
            name, topic_id = _named(where.topic, row.topic_id, version)
            topic = topics[where.topic] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=where.partition,
                current_leader_epoch=row.epoch,
                fetch_offset=row.fetch_offset,
                last_fetched_epoch=row.last_epoch,
                log_start_offset=row.log_start,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(rows: Mapping[TopicPartition, Wanted], version: int) -> list[FetchForgottenTopic]:
    topics: dict[tuple[str, bytes], FetchForgottenTopic] = {}
    for where, row in rows.items():
        named = _named(where.topic, row.topic_id, version)
        topic = topics.setdefault(
            named, FetchForgottenTopic(topic=named[0], topic_id=named[1], partitions=[])
        )
        topic.partitions.append(where.partition)
    return list(topics.values())


def _named(topic: str, topic_id: bytes, version: int) -> tuple[str, bytes]:
    return ("", topic_id) if version >= TOPIC_ID_VERSION else (topic, NO_ID)
