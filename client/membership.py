"""This consumer as a member of its group: joining, staying, leaving.

    OUTSIDE -step-> joining (a task: JoinGroup, the leader shares out, SyncGroup) -step-> MEMBER
    MEMBER -the coordinator says so, the subscription or the cluster changed-> joining again

Only `step`, called from the consumer's poll, changes what is assigned and calls the application's
listener, so an application never loses a partition while it is busy with one of its records. A
heartbeat task keeps the membership alive meanwhile, and leaves the group when nobody polls for
longer than max.poll.interval.ms.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from odradek.client.assignors import Assignor
from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.connection import Connection
from odradek.client.group_protocol import (
    PROTOCOL_TYPE,
    Wish,
    chosen_assignors,
    encode_assignment,
    encode_wish,
    is_cooperative,
    read_assignment,
    read_member,
    share_out,
)
from odradek.client.identity import MOVED_COORDINATOR
from odradek.client.settings import ConsumerSettings
from odradek.client.subscription import Pattern, Subscription
from odradek.client.values import GroupMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupMemberIdentity,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

NO_GENERATION: Final = -1
NOT_KNOWN: Final = -1
# A coordinator may need this much longer than the rebalance itself.
JOIN_GRACE_S: Final = 5.0

# Errors after which the member is none any more, or at least not of this generation.
LOST: Final = frozenset({Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION})


@dataclass(slots=True)
class Activity:
    """Whether the application asked for records since the last look."""

    is_fresh: bool = True


@dataclass(frozen=True, slots=True)
class Joined:
    generation: int
    assigned: list[TopicPartition]
    assignor: str
    is_leader: bool
    # The topics of the whole group with their partition counts, as its leader saw them; 0 where
    # there is no such topic, NOT_KNOWN where it could not be told.
    counts: dict[str, int]
    topics: frozenset[str]


class Membership:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        activity: Activity,
        before_revocation: Callable[[], Awaitable[None]],
        on_news: Callable[[], None],
    ) -> None:
        assert settings.group_id is not None, "a member has a group"
        self._cluster = cluster
        self._settings = settings
        self._subscription = subscription
        self._activity = activity
        self._before_revocation = before_revocation
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._group_id = settings.group_id
        self._assignors: list[Assignor] = chosen_assignors(settings.partition_assignment_strategy)
        self._is_cooperative = is_cooperative(self._assignors)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._joined: Joined | None = None
        self._joining: asyncio.Task[Joined] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._remembered: tuple[TopicPartition, ...] = ()
        self._remembered_generation = NO_GENERATION
        self._is_lost = False
        self._needs_join = True
        self._reason = "the consumer subscribed"
        self._polled_at = self._loop.time()
        cluster.on_change(self._look_at_the_cluster)

    # What others may know

    @property
    def is_settled(self) -> bool:
        return self._joined is not None and not self._needs_join and self._joining is None

    @property
    def needs_step(self) -> bool:
        """Whether the next poll has something to do here."""
        return self._needs_join or (self._joining is not None and self._joining.done())

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(
            self._group_id, self._generation, self._member_id, self._settings.group_instance_id
        )

    def join_again(self, reason: str) -> None:
        if not self._needs_join:
            self._needs_join = True
            self._reason = reason
            log.info("group %s: joins again: %s", self._group_id, reason)
            self._on_news()

    # Steps, taken while the application polls

    async def step(self) -> None:
        """Begin or finish a rebalance if it is time; returns without waiting for the group."""
        if self._joining is not None and self._joining.done():
            joining, self._joining = self._joining, None
            await self._finish(joining.result())
        if self._needs_join and self._joining is None:
            self._needs_join = False
            await self._prepare()
            self._joining = self._loop.create_task(self._join())
            self._joining.add_done_callback(self._join_ended)

    def _join_ended(self, task: "asyncio.Task[Joined]") -> None:
        if not task.cancelled() and task.exception() is not None:
            # Raised by the next step; whatever it was, the member has to join again.
            self._needs_join = True
        self._on_news()

    async def _prepare(self) -> None:
        """Give up what has to be given up before joining."""
        owned = list(self._subscription.partitions)
        self._joined = None
        if self._is_lost:
            self._is_lost = False
            self._subscription.assign(())
            if owned:
                await self._subscription.listener.on_partitions_lost(owned)
            return
        if self._generation != NO_GENERATION:
            self._remembered = tuple(owned)
            self._remembered_generation = self._generation
        await self._before_revocation()
        topics = self._subscription.topics(self._cluster.view)
        kept = [p for p in owned if p.topic in topics] if self._is_cooperative else []
        await self._revoke([p for p in owned if p not in kept])

    async def _revoke(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        await self._subscription.listener.on_partitions_revoked(partitions)
        gone = set(partitions)
        self._subscription.assign([p for p in self._subscription.partitions if p not in gone])

    async def _finish(self, joined: Joined) -> None:
        """Take over what the leader gave."""
        self._joined = joined
        owned = set(self._subscription.partitions)
        assigned = set(joined.assigned)
        revoked = [p for p in self._subscription.partitions if p not in assigned]
        if self._is_cooperative and revoked:
            await self._before_revocation()
            await self._revoke(revoked)
            self.join_again("partitions were given up for others")
        self._subscription.assign(joined.assigned)
        self._remembered = tuple(joined.assigned)
        self._remembered_generation = joined.generation
        log.info("group %s: generation %d: %s", self._group_id, joined.generation, joined.assigned)
        await self._subscription.listener.on_partitions_assigned(
            [p for p in joined.assigned if p not in owned]
        )
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = self._loop.create_task(self._keep_alive())
        self._look_at_the_cluster()

    def _look_at_the_cluster(self) -> None:
        """Topics that appeared or grew are reasons to share out anew."""
        joined = self._joined
        if joined is None or self._needs_join:
            return
        view = self._cluster.view
        if self._subscription.topics(view) != joined.topics:
            self.join_again("the subscribed topics changed")
        elif joined.is_leader and has_changed(joined.counts, self._counts(joined.counts)):
            self.join_again("topics of the group changed")

    def _counts(self, topics: "dict[str, int] | set[str]") -> dict[str, int]:
        counts = {}
        for name in topics:
            topic = self._cluster.view.topics.get(name)
            if topic is None or topic.error not in (Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION):
                counts[name] = NOT_KNOWN
            else:
                counts[name] = 0 if topic.error else topic.partition_count
        return counts

    # Joining

    async def _join(self) -> Joined:
        failures = 0
        is_current = not isinstance(self._subscription.choice, Pattern)
        while True:
            try:
                if not is_current:
                    await self._cluster.refresh()
                    is_current = True
                return await self._join_once()
            except KafkaError as error:
                if error.error is Errors.MEMBER_ID_REQUIRED:
                    continue
                if error.error in LOST:
                    self._forget_member(error.error)
                elif error.error in MOVED_COORDINATOR:
                    self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
                elif error.error is not Errors.REBALANCE_IN_PROGRESS and not error.error.retriable:
                    raise
                log.info("group %s: joining: %s", self._group_id, error)
                failures += 1
            await asyncio.sleep(self._cluster.backoff.pause_s(failures))

    async def _join_once(self) -> Joined:
        connection = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        topics = frozenset(self._subscription.topics(self._cluster.view))
        answer = await self._ask_to_join(connection, topics)
        if answer.error_code == Errors.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        _check(answer.error_code)
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        assignor = answer.protocol_name or ""
        is_leader = answer.leader == answer.member_id
        counts: dict[str, int] = {}
        shares: list[SyncGroupRequestAssignment] = []
        if is_leader and not answer.skip_assignment:
            counts, shares = await self._share_out(answer, assignor)
        sync = await connection.request(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._settings.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=assignor,
                assignments=shares,
            ),
            SyncGroupResponse,
            timeout_s=self._rebalance_s,
        )
        _check(sync.error_code)
        assigned = read_assignment(bytes(sync.assignment))
        return Joined(self._generation, assigned, assignor, is_leader, counts, topics)

    @property
    def _rebalance_s(self) -> float:
        return self._settings.max_poll_interval_ms / 1000 + JOIN_GRACE_S

    async def _ask_to_join(
        self, connection: Connection, topics: frozenset[str]
    ) -> JoinGroupResponse:
        wish = Wish(
            topics,
            tuple(self._subscription.partitions),
            self._remembered_generation,
            self._settings.client_rack or None,
        )
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=assignor.name, metadata=encode_wish(wish, assignor, self._remembered)
                )
                for assignor in self._assignors
            ],
            reason=self._reason[:255],
        )
        return await connection.request(request, JoinGroupResponse, timeout_s=self._rebalance_s)

    async def _share_out(
        self, answer: JoinGroupResponse, assignor: str
    ) -> tuple[dict[str, int], list[SyncGroupRequestAssignment]]:
        """The leader's part: who gets what."""
        members = [read_member(row) for row in answer.members]
        topics = {topic for member in members for topic in member.topics}
        for topic in topics:
            self._cluster.follow_also(topic)
        if NOT_KNOWN in self._counts(topics).values():
            await self._cluster.refresh()
        counts = self._counts(topics)
        existing = {name: count for name, count in counts.items() if count > 0}
        assignment = share_out(assignor, members, existing)
        shares = [
            SyncGroupRequestAssignment(member_id=name, assignment=encode_assignment(partitions))
            for name, partitions in assignment.items()
        ]
        return counts, shares

    def _forget_member(self, error: Errors) -> None:
        if error is Errors.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._generation = NO_GENERATION

    # Staying and leaving

    async def _keep_alive(self) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        pause_s = interval_s
        while True:
            await asyncio.sleep(pause_s)
            pause_s = interval_s
            if self._joining is not None or self._generation == NO_GENERATION:
                continue
            if self._activity.is_fresh:
                self._activity.is_fresh = False
                self._polled_at = self._loop.time()
            idle_s = self._loop.time() - self._polled_at
            if idle_s > self._settings.max_poll_interval_ms / 1000:
                log.warning("group %s: nobody polled for %.0f s; leaves", self._group_id, idle_s)
                await self.leave("the application did not poll in time")
                self._lose("it had left the group")
                return
            try:
                await self._beat()
            except KafkaError as error:
                self._read_refusal(error)
                pause_s = min(interval_s, self._settings.retry_backoff_ms / 1000)

    async def _beat(self) -> None:
        connection = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
        generation = self._generation
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        answer = await connection.request(
            request, HeartbeatResponse, timeout_s=self._settings.session_timeout_ms / 1000
        )
        if generation == self._generation and self._joining is None:
            _check(answer.error_code)

    def _read_refusal(self, error: KafkaError) -> None:
        if error.error is Errors.REBALANCE_IN_PROGRESS:
            self.join_again("the group rebalances")
        elif error.error in LOST or error.error is Errors.FENCED_INSTANCE_ID:
            self._forget_member(error.error)
            self._lose(str(error))
        else:
            log.info("group %s: heartbeat: %s", self._group_id, error)
            if error.error in MOVED_COORDINATOR:
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id)

    def _lose(self, reason: str) -> None:
        self._is_lost = True
        self.join_again(reason)

    def commit_refused(self, error: KafkaError) -> None:
        """A commit told us, before a heartbeat could, that we are out."""
        if error.error in LOST:
            self._read_refusal(error)

    async def leave(self, reason: str) -> None:
        """Tell the coordinator at once rather than let it find out. Static members stay silent:
        they may come back."""
        member_id, self._member_id = self._member_id, ""
        self._generation = NO_GENERATION
        if not member_id or self._settings.group_instance_id is not None:
            return
        try:
            connection = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group_id)
            identity = LeaveGroupMemberIdentity(member_id=member_id, reason=reason[:255])
            request = LeaveGroupRequest(
                group_id=self._group_id, member_id=member_id, members=[identity]
            )
            await connection.request(request, LeaveGroupResponse)
        except KafkaError as error:
            log.info("group %s: leaving: %s", self._group_id, error)

    async def close(self) -> None:
        """End the membership: revoke, leave, and stop all tasks."""
        tasks = [task for task in (self._joining, self._heartbeat) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._subscription.uses_group:
            await self._revoke(list(self._subscription.partitions))
        await self.leave("the consumer was closed")


def has_changed(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether topics came, grew or went; one that cannot be told of at the moment did not."""
    return any(now[name] not in (NOT_KNOWN, count) for name, count in before.items())


def _check(code: int) -> None:
    if code:
        raise KafkaError(Errors.of(code))
