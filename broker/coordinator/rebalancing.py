"""How a classic group gets from one generation to the next.

    Empty ------- first join -----> PreparingRebalance, for the initial delay, which every newcomer
                                    makes longer, up to the largest rebalance timeout
    Stable ------ a change -------> PreparingRebalance, until all members have joined again or the
                                    largest rebalance timeout is over
    Preparing --- joins are over -> CompletingRebalance (Empty if nobody is left), a new generation
    Completing -- the leader's ---> Stable
                  assignment

A leader that has had its share and joins again at once, as one does that gave something back, waits
a moment for members that have not asked for theirs: they would miss the generation, and most of
them are only a few milliseconds late.

Members that do not come back are dropped; static ones stay until their session ends. A rebalance
for which nobody came back but static members are known begins anew. Whoever has joined must sync
within the rebalance timeout, or is dropped.

Every change of members goes through here, and every timer of a group is set here.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_config import NEW_MEMBER_TIMEOUT_MS, GroupConfig
from odradek.broker.coordinator.group_records import ClassicRecord, GroupRecord
from odradek.broker.coordinator.group_states import GroupState, can_rebalance
from odradek.broker.coordinator.members import JoinReply, Member, Offer, sync_refused
from odradek.broker.coordinator.shard import Writer
from odradek.broker.coordinator.timers import Deadline, Timers
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import JoinGroupResponse

log: Final = logging.getLogger(__name__)

SYNC_GRACE_MS: Final = 100


class GroupTools(NamedTuple):
    """What everything that works on groups needs."""

    clock: Clock
    timers: Timers
    config: GroupConfig
    writer: Writer[ClassicRecord]
    new_id: Callable[[], str]
    """Text that nobody has had before."""

    def deadline(self, on_expiry: Callable[[], None]) -> Deadline:
        return Deadline(self.timers, self.clock, on_expiry)


class Rebalancing:
    def __init__(self, tools: GroupTools) -> None:
        self._tools = tools
        self._clock = tools.clock
        self._config = tools.config

    # Sessions -------------------------------------------------------------------------------

    def watch_session(self, group: Group, member: Member) -> None:
        """Give the member a session, which runs from the first time it is heard of."""
        member.session = self._tools.deadline(partial(self._session_is_over, group, member))

    def keep_alive(self, member: Member) -> None:
        """The member was heard of."""
        member.session.set(member.offer.session_timeout_ms)

    def end_sessions(self, group: Group) -> None:
        """Let members go whose time is over, should their timers be late."""
        for member in list(group.members.values()):
            member.session.look()

    def _session_is_over(self, group: Group, member: Member) -> None:
        if group.members.get(member.id) is not member:
            return
        is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
        if is_waiting and not member.is_new:
            # It waits for us, not we for it; its session begins anew with the answer.
            return
        self.remove_member(group, member, "was not heard of in time")

    # Members --------------------------------------------------------------------------------

    def add_member(
        self, group: Group, member: Member, protocol_type: str, reply: JoinReply
    ) -> None:
        """Take a new member in, which begins a rebalance."""
        member.is_new = True
        member.awaiting_join = reply
        if group.initial_delay_left_ms is not None and not group.generation:
            group.has_newcomers = True
        group.add(member, protocol_type)
        self.watch_session(group, member)
        member.session.set(NEW_MEMBER_TIMEOUT_MS)
        self.rebalance(group, f"member {member.id} joins")

    def rejoin_member(self, group: Group, member: Member, offer: Offer, reply: JoinReply) -> None:
        """A member joins again with something new to say."""
        self.wait_for_join(group, member, offer, reply)
        reason = f"member {member.id} joins again"
        if group.state is not GroupState.STABLE or not group.pending_sync - {member.id}:
            self.rebalance(group, reason)
            return
        if group.rejoin_deadline is None:
            later = partial(self.rebalance, group, "a member that waited joins again")
            group.rejoin_deadline = self._tools.deadline(later)
        if not group.rejoin_deadline.is_set:
            group.rejoin_deadline.set(SYNC_GRACE_MS)

    def wait_for_join(self, group: Group, member: Member, offer: Offer, reply: JoinReply) -> None:
        group.accept(member, offer)
        repeated, member.awaiting_join = member.awaiting_join, reply
        if repeated is not None:
            # The client sent the request again, and only listens for this one.
            repeated(_repeated_join(member))

    def remove_member(self, group: Group, member: Member, reason: str) -> None:
        log.info("group %s: member %s %s", group.id, member.id, reason)
        self._forget_member(group, member)
        if group.state is GroupState.PREPARING:
            self.finish_joins(group)
        else:
            self.rebalance(group, f"member {member.id} {reason}")

    def _forget_member(self, group: Group, member: Member) -> None:
        member.session.clear()
        member.refuse_all(Errors.UNKNOWN_MEMBER_ID)
        group.remove(member)

    def promise_id(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        """Give out an id; a rebalance waits for who was told it, for the time of a session."""
        deadline = self._tools.deadline(partial(self.withdraw_id, group, member_id))
        group.pending_members[member_id] = deadline
        deadline.set(session_timeout_ms)

    def take_promise(self, group: Group, member_id: str) -> None:
        group.pending_members.pop(member_id).clear()

    def withdraw_id(self, group: Group, member_id: str) -> None:
        self.take_promise(group, member_id)
        if group.state is GroupState.PREPARING:
            self.finish_joins(group)

    # Collecting joins -----------------------------------------------------------------------

    def rebalance(self, group: Group, reason: str) -> None:
        """Begin a rebalance unless one has begun; either way see whether it can end."""
        if can_rebalance(group.state):
            self._prepare(group, reason)
        if group.state is GroupState.PREPARING:
            self.finish_joins(group)

    def _prepare(self, group: Group, reason: str) -> None:
        log.info(
            "group %s prepares a rebalance after generation %d: %s",
            group.id,
            group.generation,
            reason,
        )
        if group.state is GroupState.COMPLETING:
            self.drop_assignments(group, Errors.REBALANCE_IN_PROGRESS)
        for deadline in (group.sync_deadline, group.rejoin_deadline):
            if deadline is not None:
                deadline.clear()
        was_empty = group.state is GroupState.EMPTY
        group.become(GroupState.PREPARING, self._clock.now_ms())
        if group.join_deadline is None:
            group.join_deadline = self._tools.deadline(partial(self._joins_are_over, group))
        timeout_ms = group.rebalance_timeout_ms
        if was_empty:
            delay_ms = self._config.initial_rebalance_delay_ms
            group.initial_delay_left_ms = max(0, timeout_ms - delay_ms)
            group.has_newcomers = False
            timeout_ms = delay_ms
        group.join_deadline.set(timeout_ms)

    def finish_joins(self, group: Group) -> None:
        """End the collecting of joins if all who are expected have come."""
        if group.initial_delay_left_ms is None and group.has_all_joined:
            self._complete_joins(group)

    def _joins_are_over(self, group: Group) -> None:
        if group.state is not GroupState.PREPARING:
            return
        left_ms = group.initial_delay_left_ms
        if left_ms and group.has_newcomers:
            delay_ms = min(self._config.initial_rebalance_delay_ms, left_ms)
            group.initial_delay_left_ms = left_ms - delay_ms
            group.has_newcomers = False
            assert group.join_deadline is not None
            group.join_deadline.set(delay_ms)
            return
        self._complete_joins(group)

    def _complete_joins(self, group: Group) -> None:
        assert group.join_deadline is not None
        group.join_deadline.clear()
        group.initial_delay_left_ms = None
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                log.info("group %s: member %s did not join again", group.id, member.id)
                self._forget_member(group, member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has come: wait for one, or for the end of
            # their sessions.
            group.join_deadline.set(group.rebalance_timeout_ms)
            return
        group.begin_generation(self._clock.now_ms())
        if group.state is GroupState.EMPTY:
            self._write_empty(group)
        else:
            self._answer_joins(group)

    def _write_empty(self, group: Group) -> None:
        log.info("group %s is empty in generation %d", group.id, group.generation)

        def written(error: Errors) -> None:
            if error is not Errors.NONE:
                # The next coordinator will take the old members for living, until their sessions
                # end there.
                log.warning("group %s could not be written as empty: %s", group.id, error.name)

        record = GroupRecord(group.id, group.to_record({}))
        self._tools.writer.write([record], written)

    def _answer_joins(self, group: Group) -> None:
        log.info(
            "group %s: generation %d has %d members, protocol %s",
            group.id,
            group.generation,
            len(group.members),
            group.protocol_name,
        )
        for member in group.members.values():
            member.is_new = False
            group.pending_sync.add(member.id)
            self.keep_alive(member)
            member.answer_join(joined(group, member, lists_members=member.id == group.leader_id))
        if group.sync_deadline is None:
            group.sync_deadline = self._tools.deadline(partial(self._syncs_are_over, group))
        group.sync_deadline.set(group.rebalance_timeout_ms)

    # Collecting syncs -----------------------------------------------------------------------

    def note_sync(self, group: Group, member: Member) -> None:
        group.pending_sync.discard(member.id)
        if not group.pending_sync and group.sync_deadline is not None:
            group.sync_deadline.clear()

    def sync_is_answered(self, group: Group) -> None:
        """Whoever waited to join again need not wait for more than the last of the others."""
        if not group.pending_sync and group.rejoin_deadline is not None:
            group.rejoin_deadline.expire()

    def _syncs_are_over(self, group: Group) -> None:
        if group.state not in (GroupState.COMPLETING, GroupState.STABLE) or not group.pending_sync:
            return
        late = [group.members[member_id] for member_id in sorted(group.pending_sync)]
        for member in late:
            log.info("group %s: member %s did not sync in time", group.id, member.id)
            self._forget_member(group, member)
        self.rebalance(group, f"{len(late)} members did not sync in time")

    def drop_assignments(self, group: Group, error: Errors) -> None:
        """The generation comes to nothing: those who wait for an assignment must join again."""
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                self.keep_alive(member)
                member.answer_sync(sync_refused(error))

    # Ends -----------------------------------------------------------------------------------

    def dissolve(self, group: Group, error: Errors) -> None:
        """The group is gone from here: answer all, stop all timers."""
        group.become(GroupState.DEAD, self._clock.now_ms())
        deadlines = (group.join_deadline, group.sync_deadline, group.rejoin_deadline)
        for deadline in (*deadlines, *group.pending_members.values()):
            if deadline is not None:
                deadline.clear()
        group.pending_members.clear()
        for member in group.members.values():
            member.session.clear()
            member.refuse_all(error)


def joined(group: Group, member: Member, *, lists_members: bool) -> JoinGroupResponse:
    """The answer to a join: the current generation."""
    return JoinGroupResponse(
        error_code=Errors.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.id,
        members=group.member_list() if lists_members else [],
    )


def _repeated_join(member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=Errors.REBALANCE_IN_PROGRESS,
        protocol_name=None,
        leader="",
        member_id=member.id,
        members=[],
    )
