"""A member of a classic group: what it said of itself, and the requests it waits for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.broker.coordinator.timers import Deadline
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupResponse,
)

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]

NO_MEMBER = ""
NO_GENERATION = -1

_FIRST_VERSION_WITH_REQUIRED_ID = 4
_FIRST_VERSION_SKIPPING_ASSIGNMENT = 9


class Client(NamedTuple):
    """Who sent a request."""

    id: str
    host: str


class Protocol(NamedTuple):
    """A way to assign that a member knows, with what it wants said to the leader."""

    name: str
    metadata: bytes


class Offer(NamedTuple):
    """What a member says of itself when it joins."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]

    @classmethod
    def of(cls, request: JoinGroupRequest) -> "Offer":
        # Version 0 has no rebalance timeout: the session's stands for it.
        rebalance_ms = request.rebalance_timeout_ms
        return cls(
            request.session_timeout_ms,
            request.session_timeout_ms if rebalance_ms < 0 else rebalance_ms,
            tuple(Protocol(p.name, bytes(p.metadata)) for p in request.protocols),
        )


class Join(NamedTuple):
    """A join as everything here looks at it."""

    member_id: str
    instance_id: str | None
    client: Client
    protocol_type: str
    offer: Offer
    version: int
    reply: JoinReply

    @classmethod
    def of(
        cls, request: JoinGroupRequest, version: int, client: Client, reply: JoinReply
    ) -> "Join":
        return cls(
            request.member_id,
            request.group_instance_id,
            client,
            request.protocol_type,
            Offer.of(request),
            version,
            reply,
        )

    def refuse(self, error: Errors) -> None:
        self.reply(join_refused(error, self.member_id))

    @property
    def needs_id_first(self) -> bool:
        """Whether a newcomer is told its id before it may join with it."""
        return self.instance_id is None and self.version >= _FIRST_VERSION_WITH_REQUIRED_ID

    @property
    def can_skip_assignment(self) -> bool:
        return self.version >= _FIRST_VERSION_SKIPPING_ASSIGNMENT


@dataclass(slots=True, eq=False)
class Member:
    id: str
    instance_id: str | None
    client: Client
    offer: Offer
    session: Deadline = field(init=False)
    assignment: bytes = b""
    is_new: bool = False
    """Not yet part of a generation."""
    awaiting_join: JoinReply | None = None
    awaiting_sync: SyncReply | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.offer.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        for protocol in self.offer.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that is among the candidates."""
        return next(p.name for p in self.offer.protocols if p.name in candidates)

    def answer_join(self, response: JoinGroupResponse) -> None:
        reply, self.awaiting_join = self.awaiting_join, None
        if reply is not None:
            reply(response)

    def answer_sync(self, response: SyncGroupResponse) -> None:
        reply, self.awaiting_sync = self.awaiting_sync, None
        if reply is not None:
            reply(response)

    def refuse_all(self, error: Errors) -> None:
        """Answer whatever it waits for with an error."""
        self.answer_join(join_refused(error, self.id))
        self.answer_sync(sync_refused(error))


def join_refused(error: Errors, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def sync_refused(error: Errors) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")
