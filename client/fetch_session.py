"""The client's side of incremental fetches (KIP-227): only what changed is asked for again.

A broker that grants a session remembers the partitions, so that a request names just those that are
new, moved or no longer wanted. Any doubt ends the session and begins a new one with a full request.
One object for each broker; pure, used by `fetcher` alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.protocol.types import TopicPartition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
MAX_EPOCH: Final = (1 << 31) - 1


class Wanted(NamedTuple):
    """What is asked of a partition."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    session_id: int
    epoch: int
    send: dict[TopicPartition, Wanted]
    forget: dict[TopicPartition, Wanted]


class FetchSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}

    def plan(self, wanted: Mapping[TopicPartition, Wanted]) -> FetchPlan:
        """The next request, for exactly these partitions."""
        if self._epoch == FIRST_EPOCH:
            self._known = dict(wanted)
            return FetchPlan(self._id, self._epoch, self._known, {})
        send = {
            partition: row for partition, row in wanted.items() if self._known.get(partition) != row
        }
        forget = {
            partition: row
            for partition, row in self._known.items()
            if partition not in wanted or wanted[partition].topic_id != row.topic_id
        }
        self._known = dict(wanted)
        return FetchPlan(self._id, self._epoch, send, forget)

    def answered(self, session_id: int) -> None:
        """An answer without an error came, with the session the broker grants."""
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch = FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def failed(self, *, is_known: bool) -> None:
        """Something went wrong: begin anew. `is_known`: the broker still has the session, so the
        full request ends it in passing."""
        if not is_known:
            self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
