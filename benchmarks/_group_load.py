"""A thousand members on their own connections, in one process that hardly thinks.

Frames are encoded once and sent again and again; of the answers only their number is looked at.
"""

import selectors
import time
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, cast

from odradek.protocol.frames import encode_request
from odradek.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

from tests.support.raw_client import RawClient

SUBSCRIPTION = bytes.fromhex("000000000001000562656e6368ffffffff")
ASSIGNMENT = bytes(64)
TOPIC = "bench"
# Before version 4 a member joins without being told its id first.
JOIN, SYNC, HEARTBEAT, COMMIT, DESCRIBE = 3, 2, 2, 7, 0
SESSION_MS = 60_000
_LENGTH = Struct(">i")
_TICK_SECONDS = 0.005


class Member:
    def __init__(self, port: int, group: str) -> None:
        self.group = group
        self.client = RawClient(port, timeout=60)
        self.id = ""
        self.generation = -1
        self.unread = b""

    def ask_to_join(self) -> None:
        protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.client.request(request, JOIN)

    def joined(self) -> list[str]:
        """The ids of all members, if this one leads them."""
        _, response = self.client.read_response(JoinGroupRequest, JOIN)
        answer = cast(JoinGroupResponse, response)
        assert answer.error_code == 0, answer
        self.id, self.generation = answer.member_id, answer.generation_id
        return [member.member_id for member in answer.members]

    def ask_to_sync(self, members: Sequence[str]) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=ASSIGNMENT)
                for member in members
            ],
        )
        self.client.request(request, SYNC)

    def synced(self) -> None:
        _, response = self.client.read_response(SyncGroupRequest, SYNC)
        assert response.error_code == 0, response  # type: ignore[attr-defined]

    def heartbeat(self) -> bytes:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.id
        )
        return encode_request(request, HEARTBEAT, 1, "bench")

    def is_at_peace(self) -> bool:
        self.client.send(self.heartbeat())
        _, response = self.client.read_response(HeartbeatRequest, HEARTBEAT)
        return response.error_code == 0  # type: ignore[attr-defined, no-any-return]

    def count_members(self) -> int:
        request = DescribeGroupsRequest(groups=[self.group])
        answer = cast(DescribeGroupsResponse, self.client.ask(request, DESCRIBE))
        return len(answer.groups[0].members)

    def commit(self, partition: int) -> bytes:
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=12345, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[committed])],
        )
        return encode_request(request, COMMIT, 1, "bench")

    def answers(self) -> int:
        """How many have come, after the connection was said to have something."""
        self.unread += self.client.socket.recv(1 << 16)
        count = 0
        while len(self.unread) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self.unread)[0]
            if len(self.unread) < end:
                break
            self.unread = self.unread[end:]
            count += 1
        return count


def gather(members: Sequence[Member]) -> float:
    """The first member joins alone, then all others come; seconds from then until all have
    synced."""
    leader, *others = members
    leader.ask_to_join()
    _finish([leader])
    began = time.monotonic()
    for member in others:
        member.ask_to_join()
    while leader.count_members() < len(members):
        pass
    leader.ask_to_join()
    _finish(members)
    return time.monotonic() - began


def rebalance(members: Sequence[Member]) -> float:
    """The leader joins again, the others hear of it and follow; seconds until all have synced."""
    leader, *others = members
    began = time.monotonic()
    leader.ask_to_join()
    while others[0].is_at_peace():
        pass
    for member in others:
        member.ask_to_join()
    _finish(members)
    return time.monotonic() - began


def _finish(members: Sequence[Member]) -> None:
    """Read the answers to joins, sync, and read the answers to that."""
    lists = [member.joined() for member in members]
    for member, ids in zip(members, lists, strict=True):
        member.ask_to_sync(ids)
    for member in members:
        member.synced()


class Rates(NamedTuple):
    heartbeats_per_second: int
    commits_per_second: int


class Load:
    """Sends at even rates and counts the answers."""

    def __init__(self, members: Sequence[Member], rates: Rates) -> None:
        self._heartbeats = [(member, member.heartbeat()) for member in members]
        self._commits = [(m, m.commit(number % 10)) for number, m in enumerate(members)]
        self._rates = rates
        self.sent = self.answered = 0
        self._selector = selectors.DefaultSelector()
        for member in members:
            self._selector.register(member.client.socket, selectors.EVENT_READ, member)

    def run(self, seconds: float) -> None:
        began = time.monotonic()
        heartbeats = commits = 0
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * self._rates.heartbeats_per_second)
            self._send(self._heartbeats, heartbeats, due)
            heartbeats = due
            due = int(passed * self._rates.commits_per_second)
            self._send(self._commits, commits, due)
            commits = due
            self._read(_TICK_SECONDS)
        while self.answered < self.sent and self._read(1.0):
            pass

    def _send(self, frames: Sequence[tuple[Member, bytes]], start: int, end: int) -> None:
        for number in range(start, end):
            member, frame = frames[number % len(frames)]
            member.client.send(frame)
        self.sent += end - start

    def _read(self, timeout: float) -> bool:
        ready = self._selector.select(timeout)
        for key, _ in ready:
            self.answered += key.data.answers()
        return bool(ready)
