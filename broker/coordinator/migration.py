"""Groups that change between the classic and the consumer protocol.

A classic group becomes a consumer group when a member of the consumer protocol joins it; the
members that it has stay, and are spoken to in their own protocol (see `classic_members`). It
becomes a classic group again when the last member of the consumer protocol leaves. A group without
members simply becomes what the first to join speaks. Committed offsets stay in any case.

Pure: what is to be written is decided here, `group_shard` writes it.
"""

from collections.abc import Collection

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.consumer_changes import Draft
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_members import ClassicSide, ConsumerMember, Subscription
from odradek.broker.coordinator.group import Group, majority
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.group_records import GroupRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import Member
from odradek.broker.coordinator.reconciliation import Holding
from odradek.broker.coordinator.subscriptions import (
    CONSUMER,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from odradek.broker.coordinator.topic_shapes import Topics, hash_of
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.group_records import (
    GroupMetadataMemberMetadata,
    GroupMetadataValue,
)

# Classic to consumer ----------------------------------------------------------------------------


def upgraded(group: Group, config: GroupConfig, topics: Topics) -> Draft:
    """The consumer group that a classic one becomes. Raises KafkaError when it may not."""
    draft = Draft(ConsumerGroup(group.id))
    if group.generation or group.state is not GroupState.EMPTY:
        draft.records.append(GroupRecord(group.id, None))
    if group.state is GroupState.EMPTY:
        return draft
    if (reason := _why_not_upgraded(group, config)) is not None:
        raise KafkaError(
            Errors.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.id} to consumer group because {reason}.",
        )
    try:
        members = [_consumer_of(member, group, topics) for member in group.members.values()]
    except ProtocolError:
        raise KafkaError(
            Errors.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.id} to consumer group because the embedded "
            "consumer protocol is malformed.",
        ) from None
    for member in members:
        draft.hear(member.id, member.says)
    wanted = {name for member in members for name in member.says.topics}
    draft.begin_epoch(group.generation, hash_of(topics, wanted))
    for member in members:
        draft.shall_hold(member.id, member.has.assigned)
    draft.write_target_epoch(group.generation)
    for member in members:
        draft.hold(member.id, member.has)
    return draft


def _why_not_upgraded(group: Group, config: GroupConfig) -> str | None:
    if not config.can_upgrade:
        return "the online upgrade is disabled"
    if group.protocol_type != CONSUMER or group.protocol_name is None:
        return "the group does not use the consumer embedded protocol"
    if len(group.members) > config.consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return None


def _consumer_of(member: Member, group: Group, topics: Topics) -> ConsumerMember:
    subscription = read_subscription(member.metadata(group.protocol_name))
    return ConsumerMember(
        member.id,
        Subscription(
            client=member.client,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            topics=frozenset(subscription.topics),
            rebalance_timeout_ms=member.offer.rebalance_timeout_ms,
            classic=ClassicSide(member.offer.session_timeout_ms, member.offer.protocols),
        ),
        Holding(
            group.generation,
            group.generation,
            assigned=read_assignment(member.assignment, topics),
        ),
    )


# Consumer to classic ----------------------------------------------------------------------------


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], config: GroupConfig) -> bool:
    """Whether only members of the classic protocol are left, and may be a group of their own."""
    left = [member for member in group.members.values() if member.id not in leaving]
    return (
        config.can_downgrade
        and 0 < len(left) <= config.max_size
        and all(member.says.classic is not None for member in left)
    )


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], topics: Topics, now_ms: int
) -> GroupMetadataValue:
    """The classic group that is left, in its record."""
    left = [member for member in group.members.values() if member.id not in leaving]
    names = {shape.id: name for name, shape in topics.items()}
    protocol = _protocol_of(left)
    return GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.epoch,
        protocol=protocol,
        leader=left[0].id,
        current_state_timestamp=now_ms,
        members=[_classic_of(member, protocol, names) for member in left],
    )


def _protocol_of(members: Collection[ConsumerMember]) -> str:
    """The assignment protocol that most members prefer, among those that all of them know."""
    offers = [[p.name for p in m.says.classic.protocols] for m in members if m.says.classic]
    common = set(offers[0]).intersection(*offers[1:])
    return majority(next(name for name in names if name in common) for names in offers)


def _classic_of(
    member: ConsumerMember, protocol: str, names: dict[bytes, str]
) -> GroupMetadataMemberMetadata:
    classic = member.says.classic
    assert classic is not None, "only members of the classic protocol are left"
    metadata = dict(classic.protocols)[protocol]
    return GroupMetadataMemberMetadata(
        member_id=member.id,
        group_instance_id=member.says.instance_id,
        client_id=member.says.client.id,
        client_host=member.says.client.host,
        rebalance_timeout=member.says.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=metadata,
        assignment=classic_assignment(member.has.assigned, metadata, names),
    )


def classic_assignment(assigned: Assignment, metadata: bytes, names: dict[bytes, str]) -> bytes:
    """What a member holds, in the version of the subscription that it sent."""
    return write_assignment(assigned, names, version_of(metadata))
