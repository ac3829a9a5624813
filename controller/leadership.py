"""Elections that someone asked for, and the regular return of preferred leaders. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from odradek.controller import election
from odradek.controller.decide import Plan, Terms
from odradek.controller.image import ClusterImage
from odradek.controller.znodes import PartitionState
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Elections:
    """States to store, and what to answer for each partition asked about."""

    plan: Plan
    outcomes: dict[TopicPartition, Errors]


def elect(
    image: ClusterImage, partitions: Iterable[TopicPartition], kind: ElectionType, terms: Terms
) -> Elections:
    states, outcomes = {}, {}
    for where in partitions:
        outcome = _elect_one(image, where, kind)
        if isinstance(outcome, Errors):
            outcomes[where] = outcome
        else:
            states[where] = replace(outcome, controller_epoch=terms.controller_epoch)
            outcomes[where] = Errors.NONE
    return Elections(Plan(states=states), outcomes)


def _elect_one(
    image: ClusterImage, where: TopicPartition, kind: ElectionType
) -> PartitionState | Errors:
    assignment, state = image.assignment(where), image.states.get(where)
    if assignment is None or where.topic in image.deleting:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if kind is ElectionType.PREFERRED:
        if state is None:
            return Errors.PREFERRED_LEADER_NOT_AVAILABLE
        if state.leader == assignment.replicas[0]:
            return Errors.ELECTION_NOT_NEEDED
        elected = election.preferred(state, assignment.replicas, image.can_lead(where))
        return elected or Errors.PREFERRED_LEADER_NOT_AVAILABLE
    if state is None:
        return Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if image.is_online(state.leader, where):
        return Errors.ELECTION_NOT_NEEDED
    elected = election.unclean(state, assignment.replicas, image.can_lead(where))
    return elected or Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE


def imbalanced(image: ClusterImage, percentage: int) -> list[TopicPartition]:
    """Partitions to hand back to their preferred leaders.

    Looked at per preferred broker: only one that leads so few of the partitions it should lead that
    more than `percentage` percent are missing, and only partitions that could be handed back now.
    """
    by_head: dict[int, list[TopicPartition]] = {}
    for topic in image.topics.values():
        if topic.name in image.deleting:
            continue
        for index, assignment in topic.assignments.items():
            if not assignment.is_moving:
                where = TopicPartition(topic.name, index)
                by_head.setdefault(assignment.replicas[0], []).append(where)
    wanted: list[TopicPartition] = []
    for head, partitions in by_head.items():
        strayed = [where for where in partitions if _is_led_by_another(image, where, head)]
        if head in image.eligible and 100 * len(strayed) > percentage * len(partitions):
            wanted += [w for w in strayed if head in image.states[w].isr]
    return wanted


def _is_led_by_another(image: ClusterImage, where: TopicPartition, head: int) -> bool:
    state = image.states.get(where)
    return state is not None and state.leader != head
