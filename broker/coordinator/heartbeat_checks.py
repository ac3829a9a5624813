"""What is wrong with a heartbeat of the consumer protocol, in Kafka's words.

Pure. Each function raises the KafkaError that the member is told.
"""

from collections.abc import Iterable

from odradek.broker.coordinator.assignments import Assignment, contains
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_members import NO_PATTERN, ConsumerMember
from odradek.broker.coordinator.pattern_syntax import PatternError
from odradek.broker.coordinator.reconciliation import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from odradek.broker.coordinator.topic_pattern import topic_pattern
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest

_FIRST_WITH_OWN_MEMBER_ID = 1
_NOT_GIVEN = -1


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Iterable[str]
) -> None:
    """What can be said without a look at the group."""
    _refuse_blank(request.group_id, "GroupId can't be empty.")
    _refuse_blank(request.instance_id, "InstanceId can't be empty.")
    _refuse_blank(request.rack_id, "RackId can't be empty.")
    epoch = request.member_epoch
    if epoch != JOINING_EPOCH or version >= _FIRST_WITH_OWN_MEMBER_ID:
        _refuse_blank(request.member_id, "MemberId can't be empty.")
    if epoch < AWAY_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if epoch == AWAY_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    _check_assignor(request.server_assignor, assignors)
    if request.subscribed_topic_regex:
        check_pattern(request.subscribed_topic_regex)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_GIVEN:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )


def _check_assignor(name: str | None, assignors: Iterable[str]) -> None:
    known = list(assignors)
    if name is not None and name not in known:
        raise KafkaError(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(known)}.",
        )


def check_pattern(text: str) -> None:
    if text == NO_PATTERN:
        return
    try:
        topic_pattern(text)
    except PatternError as error:
        raise KafkaError(
            Errors.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}.",
        ) from None


def check_room(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        raise KafkaError(
            Errors.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def known_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None = None
) -> ConsumerMember:
    """The member of this id, and of this instance if one is named."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise KafkaError(
                Errors.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {group.id}.",
            )
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(Errors.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.id != member_id:
        raise KafkaError(
            Errors.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by "
            f"member {member.id}.",
        )
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """A member may be one epoch behind, if it holds nothing that it may not hold: then it did not
    hear the last answer."""
    current = member.has.epoch
    if epoch == current:
        return
    is_behind = epoch == member.has.previous_epoch and epoch < current
    if is_behind and owned is not None and contains(member.has.assigned, owned):
        return
    comparison = "greater" if epoch > current else "smaller"
    raise KafkaError(
        Errors.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known "
        f"by the group coordinator ({current}). The member must abandon all its partitions and "
        "rejoin.",
    )


def check_released(member: ConsumerMember, member_id: str) -> None:
    """Whether the instance of a static member may be taken over: it must have said that it goes."""
    if member.has.epoch != AWAY_EPOCH:
        raise KafkaError(
            Errors.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.says.instance_id} cannot join the "
            f"group because the instance id is owned by {member.id} member.",
        )


def not_a_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def is_leaving(epoch: int) -> bool:
    return epoch in (LEAVING_EPOCH, AWAY_EPOCH)


def _refuse_blank(value: str | None, complaint: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(complaint)


def _invalid(message: str) -> KafkaError:
    return KafkaError(Errors.INVALID_REQUEST, message)
