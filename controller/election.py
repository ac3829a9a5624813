"""Who leads a partition: pure rules, one per occasion.

Each takes the partition's state, its replicas in order of preference, and the brokers that may
lead, and gives the next state or None when it has nothing better. The next state keeps the epochs
of the old one plus one; `partition_epoch` stays the version to compare with when it is stored.
Only `unclean` may pick a leader outside the in-sync replicas: records they acknowledged may be lost
then, so it is used only where the topic allows it.

What no rule here can know: whether the last in-sync replica lost the end of its log in a crash of
its machine. It is elected when it returns, as in Kafka's ZooKeeper mode; whoever cannot accept that
asks for more than one in-sync replica (min.insync.replicas) or for a flush before acknowledging.
"""

from collections.abc import Sequence, Set
from dataclasses import replace

from odradek.controller.znodes import NO_LEADER, PartitionState


def first_state(
    replicas: Sequence[int], live: Set[int], controller_epoch: int
) -> PartitionState | None:
    """The state of a new partition: led by its first live replica, all live ones in sync."""
    isr = tuple(broker for broker in replicas if broker in live)
    if not isr:
        return None
    return PartitionState(isr[0], 0, isr, controller_epoch)


def clean(
    state: PartitionState, replicas: Sequence[int], candidates: Set[int]
) -> PartitionState | None:
    """The first in-sync replica that may lead."""
    for broker in replicas:
        if broker in candidates and broker in state.isr:
            isr = tuple(member for member in state.isr if member in candidates)
            return _led_by(state, broker, isr)
    return None


def unclean(
    state: PartitionState, replicas: Sequence[int], candidates: Set[int]
) -> PartitionState | None:
    """A clean leader if there is one, else the first replica that lives, alone and recovering."""
    elected = clean(state, replicas, candidates)
    if elected is not None:
        return elected
    for broker in replicas:
        if broker in candidates:
            return replace(_led_by(state, broker, (broker,)), recovering=True)
    return None


def preferred(
    state: PartitionState, replicas: Sequence[int], candidates: Set[int]
) -> PartitionState | None:
    """The first replica, if it is in sync and does not lead already."""
    head = replicas[0]
    if head == state.leader or head not in candidates or head not in state.isr:
        return None
    return _led_by(state, head, state.isr)


def controlled_shutdown(
    state: PartitionState, replicas: Sequence[int], candidates: Set[int], stopping: Set[int]
) -> PartitionState | None:
    """Another in-sync replica, and nobody in sync who is about to stop.

    `candidates` live and stay; None when the stopping leader is the last of them.
    """
    for broker in replicas:
        if broker in candidates and broker in state.isr:
            isr = tuple(member for member in state.isr if member not in stopping)
            return _led_by(state, broker, isr)
    return None


def reassigned(
    state: PartitionState, target: Sequence[int], candidates: Set[int]
) -> PartitionState | None:
    """The first of the target replicas that is in sync and may lead; others leave the ISR."""
    for broker in target:
        if broker in candidates and broker in state.isr:
            isr = tuple(member for member in state.isr if member in target)
            return _led_by(state, broker, isr)
    return None


def without(state: PartitionState, gone: Set[int]) -> PartitionState | None:
    """The state once replicas are gone and nobody else is elected; None when that changes nothing.

    A leader that is gone leaves NO_LEADER. The last in-sync replicas stay listed even when all of
    them are gone: they alone have every acknowledged record, and whichever returns may lead.
    """
    isr = tuple(member for member in state.isr if member not in gone) or state.isr
    leader = NO_LEADER if state.leader in gone else state.leader
    if (isr, leader) == (state.isr, state.leader):
        return None
    return _led_by(state, leader, isr)


def _led_by(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
