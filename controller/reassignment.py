"""Moving a partition to other brokers (AlterPartitionReassignments). Pure.

A move has two steps. `begin` writes the union of old and new replicas, with the difference noted as
adding and removing, and tells all of them; `complete` finds moves whose target replicas are all in
sync, hands the lead to one of them, stops and deletes what is to go, and then writes the plain
target. The second step first changes the state and stops replicas, and writes the topic last: a
controller that dies in between leaves a move that its successor completes in the same way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from odradek.controller import election
from odradek.controller.decide import Decision, Plan, Stop, Terms
from odradek.controller.image import ClusterImage, Topic
from odradek.controller.znodes import NO_LEADER, Assignment, PartitionState
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition

# Wanted replicas of each partition; None cancels a move.
Wishes = Mapping[TopicPartition, tuple[int, ...] | None]


def check(image: ClusterImage, where: TopicPartition, wanted: tuple[int, ...] | None) -> None:
    """KafkaError for what cannot be begun or cancelled."""
    assignment = image.assignment(where)
    if assignment is None or where.topic in image.deleting:
        raise KafkaError(
            Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist or is being deleted."
        )
    if wanted is None and not assignment.is_moving:
        raise KafkaError(Errors.NO_REASSIGNMENT_IN_PROGRESS)
    if wanted is not None:
        _check_replicas(image, wanted)
    state = image.states.get(where)
    if state is not None and not set(state.isr) & set(moved(assignment, wanted).replicas):
        # Only replicas that would be dropped have every acknowledged record.
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, "No in-sync replica would be left in the partition."
        )


def _check_replicas(image: ClusterImage, wanted: tuple[int, ...]) -> None:
    if not wanted:
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, "Empty replica list specified in reassignment."
        )
    if len(set(wanted)) < len(wanted):
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, f"Duplicate replicas in {list(wanted)}."
        )
    absent = sorted(set(wanted) - image.live)
    if absent:
        raise KafkaError(
            Errors.INVALID_REPLICA_ASSIGNMENT, f"Brokers {absent} are unknown or not alive."
        )


def moved(assignment: Assignment, wanted: tuple[int, ...] | None) -> Assignment:
    """The assignment while it moves to `wanted`, or back when that is None."""
    origin = assignment.origin
    if wanted is None:
        return Assignment(origin)
    adding = tuple(b for b in wanted if b not in origin)
    removing = tuple(b for b in origin if b not in wanted)
    return Assignment((*wanted, *removing), adding, removing)


def begin(image: ClusterImage, wishes: Wishes, terms: Terms) -> Decision:
    """Start or cancel moves that `check` let pass."""
    topics: dict[str, Topic] = {}
    states, stop, fresh = {}, [], []
    for where, wanted in wishes.items():
        topic = topics.get(where.topic, image.topics[where.topic])
        before = topic.assignments[where.partition]
        after = moved(before, wanted)
        if after == before:
            continue
        topics[topic.name] = _with_assignment(topic, where.partition, after)
        dropped = [b for b in before.replicas if b not in after.replicas]
        stop += [Stop(where, b, delete=True) for b in dropped]
        fresh += [(where, b) for b in after.adding if b not in before.replicas]
        state = _bumped(image, where, after.replicas, terms)
        if state is not None:
            states[where] = state
    plan = Plan(
        topics=tuple(topics.values()), states=states, stop=tuple(stop), fresh=frozenset(fresh)
    )
    return Decision(image, plan)


def _bumped(
    image: ClusterImage, where: TopicPartition, replicas: tuple[int, ...], terms: Terms
) -> PartitionState | None:
    """A new leader epoch, so that every replica reconciles under the new assignment."""
    state = image.states.get(where)
    if state is None:
        return None
    if state.leader >= 0 and state.leader not in replicas:
        elected = election.reassigned(state, replicas, image.can_lead(where))
        state = elected if elected is not None else _within(state, NO_LEADER, replicas)
    else:
        state = _within(state, state.leader, replicas)
    return replace(state, controller_epoch=terms.controller_epoch)


def _within(state: PartitionState, leader: int, replicas: tuple[int, ...]) -> PartitionState:
    isr = tuple(b for b in state.isr if b in replicas)
    assert isr, "a move that leaves nobody in sync is refused"
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)


def is_ready(image: ClusterImage, where: TopicPartition) -> bool:
    """Whether a moving partition has all its target replicas in sync."""
    assignment, state = image.assignment(where), image.states.get(where)
    if assignment is None or state is None or where.topic in image.deleting:
        return False
    return assignment.is_moving and set(assignment.target) <= set(state.isr)


def complete(
    image: ClusterImage, partitions: Iterable[TopicPartition], terms: Terms
) -> tuple[Decision, Plan]:
    """What ends the moves of ready partitions: first states and stops, then the topic nodes.

    The first picture has the target assignment already, for that is what replicas are told.
    """
    topics: dict[str, Topic] = {}
    states, stop = {}, []
    for where in partitions:
        if not is_ready(image, where):
            continue
        topic = topics.get(where.topic, image.topics[where.topic])
        assignment = topic.assignments[where.partition]
        state = _on_target(image, where, assignment, terms)
        if state is None:
            continue
        states[where] = state
        stop += [Stop(where, b, delete=True) for b in assignment.removing]
        topics[topic.name] = _with_assignment(topic, where.partition, Assignment(assignment.target))
    plan = Plan(states=states, stop=tuple(stop))
    return Decision(image.with_topics(topics.values()), plan), Plan(topics=tuple(topics.values()))


def _on_target(
    image: ClusterImage, where: TopicPartition, assignment: Assignment, terms: Terms
) -> PartitionState | None:
    state = image.states[where]
    target = assignment.target
    if state.leader in target and image.is_online(state.leader, where):
        state = _within(state, state.leader, target)
    else:
        elected = election.reassigned(state, target, image.can_lead(where))
        if elected is None:
            return None
        state = elected
    return replace(state, controller_epoch=terms.controller_epoch)


def ongoing(image: ClusterImage) -> dict[TopicPartition, Assignment]:
    return {
        TopicPartition(topic.name, index): assignment
        for topic in image.topics.values()
        for index, assignment in topic.assignments.items()
        if assignment.is_moving and topic.name not in image.deleting
    }


def _with_assignment(topic: Topic, partition: int, assignment: Assignment) -> Topic:
    return replace(topic, assignments={**topic.assignments, partition: assignment})
