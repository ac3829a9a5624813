"""A leader asks for another set of in-sync replicas (AlterPartition): is it granted? Pure.

The order of the checks is part of the promise. First who is behind: a broker that knows more than
this controller is told so; a leader of an older epoch is fenced. Then a change that has been made
already is granted again, whatever partition epoch it was asked with, because its first answer may
have been lost. Only then is an old partition epoch a conflict. Members must be replicas, alive, in
the life the leader knew when it asked, and not about to stop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from odradek.controller.decide import Terms
from odradek.controller.image import ClusterImage
from odradek.controller.znodes import PartitionState
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition

ANY_EPOCH = -1


@dataclass(frozen=True, slots=True)
class IsrChange:
    """`members` are the wanted in-sync replicas with the broker epoch of each, -1 if unknown."""

    where: TopicPartition
    leader: int
    leader_epoch: int
    partition_epoch: int
    members: Mapping[int, int]
    recovering: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """The state to store; already stored when `is_done`."""

    state: PartitionState
    is_done: bool = False


def judge(image: ClusterImage, change: IsrChange, terms: Terms) -> Granted | Errors:
    state = image.states.get(change.where)
    assignment = image.assignment(change.where)
    if state is None or assignment is None or change.where.topic in image.deleting:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if change.partition_epoch > state.partition_epoch or change.leader_epoch > state.leader_epoch:
        # The broker has heard of a later state than this controller: it is not the latest one.
        return Errors.NOT_CONTROLLER
    if change.leader_epoch < state.leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    if change.leader != state.leader:
        return Errors.INVALID_REQUEST
    if set(change.members) == set(state.isr) and change.recovering == state.recovering:
        return Granted(state, is_done=True)
    if change.partition_epoch < state.partition_epoch:
        return Errors.INVALID_UPDATE_VERSION
    if not set(change.members) <= set(assignment.replicas) or state.leader not in change.members:
        return Errors.INVALID_REQUEST
    if change.recovering and (len(change.members) > 1 or not state.recovering):
        return Errors.INVALID_REQUEST
    if not all(_is_eligible(image, change, member) for member in change.members):
        return Errors.INELIGIBLE_REPLICA
    isr = tuple(change.members)
    wanted = replace(state, isr=isr, recovering=change.recovering)
    return Granted(replace(wanted, controller_epoch=terms.controller_epoch))


def _is_eligible(image: ClusterImage, change: IsrChange, member: int) -> bool:
    """The leader itself always is: it asks, so it lives, and it may be the one that stops."""
    if member == change.leader:
        return True
    broker = image.brokers.get(member)
    if broker is None or member in image.shutting_down:
        return False
    return change.members[member] in (ANY_EPOCH, broker.epoch)
