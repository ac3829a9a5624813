"""A classic group: members, generation, protocol, and the rules that need nothing else.

Everything here is decided and changed in memory at once; timers, answers and records are the
business of `rebalancing`, `joining`, `syncing` and `static_members`.

Invariants: the leader is a member whenever there are members; `instances` names exactly the
static members; PreparingRebalance alone has members that wait for a join, except a static member
whose new id is being written down while the group is Stable.
"""

from collections import Counter
from collections.abc import Iterable

from odradek.broker.coordinator.group_states import TRANSITIONS, GroupState
from odradek.broker.coordinator.members import Member, Offer, Protocol
from odradek.broker.coordinator.offsets import GroupOffsets
from odradek.broker.coordinator.subscriptions import CONSUMER, subscribed_topics
from odradek.broker.coordinator.timers import Deadline
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_records import (
    GroupMetadataMemberMetadata,
    GroupMetadataValue,
)
from odradek.protocol.messages.groups import JoinGroupResponseMember


class Group:
    def __init__(self, group_id: str, now_ms: int) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: int | None = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        # How many members know each protocol.
        self._knowing: Counter[str] = Counter()
        self.instances: dict[str, str] = {}
        # Ids that were given out and not come back with yet, and when they are forgotten.
        self.pending_members: dict[str, Deadline] = {}
        # Members of this generation that have not asked for their assignment yet.
        self.pending_sync: set[str] = set()
        # None: not known, so any topic may be subscribed.
        self.subscribed_topics: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        # The end of the collecting of joins, of the waiting for syncs, and of the leader's waiting
        # for syncs before it may join again.
        self.join_deadline: Deadline | None = None
        self.sync_deadline: Deadline | None = None
        self.rejoin_deadline: Deadline | None = None
        # While an empty group collects its first members: how much longer that may be made, and
        # whether somebody came since it was last made longer.
        self.initial_delay_left_ms: int | None = None
        self.has_newcomers = False

    def __repr__(self) -> str:
        return f"Group({self.id!r}, {self.state.value}, generation {self.generation})"

    def become(self, state: GroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self} cannot become {state.value}"
        self.state = state
        self.state_timestamp_ms = now_ms

    # Members --------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.id
        self.members[member.id] = member
        self._knowing.update(member.protocol_names)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id

    def accept(self, member: Member, offer: Offer) -> None:
        """A member says something new of itself."""
        self._knowing.subtract(member.protocol_names)
        member.offer = offer
        self._knowing.update(member.protocol_names)

    def remove(self, member: Member) -> None:
        del self.members[member.id]
        self._knowing.subtract(member.protocol_names)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self.pending_sync.discard(member.id)
        if self.leader_id == member.id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member comes back under another id; its place among the members stays."""
        old_id, member.id = member.id, member_id
        self.members = {each.id: each for each in self.members.values()}
        assert member.instance_id is not None, "only static members get new ids"
        self.instances[member.instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)

    def membership_problem(self, member_id: str, instance_id: str | None) -> Errors:
        """Why a request of this member is not taken, NONE if it is."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                return Errors.UNKNOWN_MEMBER_ID
            if current != member_id:
                return Errors.FENCED_INSTANCE_ID
        return Errors.NONE if member_id in self.members else Errors.UNKNOWN_MEMBER_ID

    def has_room_for(self, member_id: str, max_size: int) -> bool:
        if self.state is GroupState.EMPTY or self.state is GroupState.DEAD:
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING:
            # Those who come first stay: a group over its size sheds who comes last.
            is_in = member is not None and member.awaiting_join is not None
            return is_in or len(self.joined) < max_size
        return member is not None or len(self.members) < max_size

    @property
    def joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.awaiting_join is not None]

    @property
    def has_all_joined(self) -> bool:
        if self.pending_members:
            return False
        return all(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.offer.rebalance_timeout_ms for m in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Let a member that has joined lead; False if none has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is None:
            joined = self.joined
            if not joined:
                return False
            self.leader_id = joined[0].id
        return True

    # Protocols ------------------------------------------------------------------------------

    def supports(self, protocol_type: str, offer: Offer) -> bool:
        """Whether someone who knows these protocols can be a member."""
        if not protocol_type or not offer.protocols:
            return False
        if not self.members:
            return True
        if protocol_type != self.protocol_type:
            return False
        return any(
            self._knowing[protocol.name] == len(self.members) for protocol in offer.protocols
        )

    def select_protocol(self) -> str:
        """The protocol that most members prefer, among those that all of them know."""
        everyone = len(self.members)
        common = frozenset(name for name, count in self._knowing.items() if count == everyone)
        return majority(member.vote(common) for member in self.members.values())

    # Generations ----------------------------------------------------------------------------

    def begin_generation(self, now_ms: int) -> None:
        """Joins are over: the members that are left form the next generation."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.become(GroupState.COMPLETING, now_ms)
        else:
            self.protocol_name = None
            self.become(GroupState.EMPTY, now_ms)
        self._learn_subscriptions()

    def _learn_subscriptions(self) -> None:
        if self.protocol_type != CONSUMER:
            self.subscribed_topics = None
            return
        name = self.protocol_name
        self.subscribed_topics = subscribed_topics(m.metadata(name) for m in self.members.values())

    def member_list(self) -> list[JoinGroupResponseMember]:
        """What the leader needs to assign."""
        return [
            JoinGroupResponseMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # Records --------------------------------------------------------------------------------

    def to_record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=_or_unknown(self.state_timestamp_ms),
            members=[
                GroupMetadataMemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client.id,
                    client_host=member.client.host,
                    rebalance_timeout=member.offer.rebalance_timeout_ms,
                    session_timeout=member.offer.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ],
        )

    def restore(self, value: GroupMetadataValue, members: Iterable[Member]) -> None:
        """Be what the record says, as far as it says it."""
        self.members = {member.id: member for member in members}
        self._knowing = Counter(n for m in self.members.values() for n in m.protocol_names)
        self.instances = {
            member.instance_id: member.id
            for member in self.members.values()
            if member.instance_id is not None
        }
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader if self.members else None
        known = value.current_state_timestamp
        self.state_timestamp_ms = None if known < 0 else known
        self._learn_subscriptions()


def restored_offer(value: GroupMetadataMemberMetadata, protocol_name: str | None) -> Offer:
    """Of what a member offered, the record keeps what was chosen."""
    rebalance_ms = value.rebalance_timeout
    return Offer(
        value.session_timeout,
        value.session_timeout if rebalance_ms < 0 else rebalance_ms,
        (Protocol(protocol_name or "", bytes(value.subscription)),),
    )


def majority(votes: Iterable[str]) -> str:
    """The name with most votes; of several, the one that was named first."""
    return Counter(votes).most_common(1)[0][0]


def _or_unknown(timestamp_ms: int | None) -> int:
    return -1 if timestamp_ms is None else timestamp_ms
