"""A member of a consumer group: what it says of itself, and what it holds.

A member speaks the consumer protocol, or the classic one: in a group that is being moved from one
to the other there are members of both kinds.
"""

from typing import NamedTuple

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.members import Client, Protocol
from odradek.broker.coordinator.reconciliation import Holding, MemberState
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataClassicMemberMetadata,
    ConsumerGroupMemberMetadataClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentAssignmentTopicPartitions,
    TargetAssignmentTopicPartition,
)

NO_PATTERN = ""


class ClassicSide(NamedTuple):
    """What a member that speaks the classic protocol said in its join."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class Subscription(NamedTuple):
    """What a member says of itself."""

    client: Client = Client("", "")
    instance_id: str | None = None
    rack_id: str | None = None
    topics: frozenset[str] = frozenset()
    pattern: str = NO_PATTERN
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None

    def to_record(self) -> ConsumerGroupMemberMetadataValue:
        classic = self.classic
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client.id,
            client_host=self.client.host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None
            if classic is None
            else ConsumerGroupMemberMetadataClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ConsumerGroupMemberMetadataClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        )

    @classmethod
    def from_record(cls, value: ConsumerGroupMemberMetadataValue) -> "Subscription":
        classic = value.classic_member_metadata
        return cls(
            client=Client(value.client_id, value.client_host),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex or NO_PATTERN,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicSide(
                classic.session_timeout_ms,
                tuple(Protocol(p.name, bytes(p.metadata)) for p in classic.supported_protocols),
            ),
        )


class ConsumerMember(NamedTuple):
    id: str
    says: Subscription = Subscription()
    has: Holding = Holding()


def holding_to_record(holding: Holding) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=holding.epoch,
        previous_member_epoch=holding.previous_epoch,
        state=holding.state,
        assigned_partitions=_current(holding.assigned),
        partitions_pending_revocation=_current(holding.revoking),
    )


def holding_from_record(value: ConsumerGroupCurrentMemberAssignmentValue) -> Holding:
    return Holding(
        value.member_epoch,
        value.previous_member_epoch,
        _state(value.state),
        {each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
        {each.topic_id: frozenset(each.partitions) for each in value.partitions_pending_revocation},
    )


def target_to_record(assignment: Assignment) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetAssignmentTopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assignment.items())
        ]
    )


def target_from_record(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


def _current(assignment: Assignment) -> list[CurrentAssignmentTopicPartitions]:
    return [
        CurrentAssignmentTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(assignment.items())
    ]


def _state(number: int) -> MemberState:
    """A state that only a newer coordinator knows: as if others held what is missing."""
    known = set(MemberState)
    return MemberState(number) if number in known else MemberState.UNRELEASED
