"""Throttles of replication: which replicas wait, for how long, and which never do."""

import asyncio

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.settings import MAX_LONG
from odradek.protocol.types import TopicPartition
from odradek.replication.isr import IsrRules
from odradek.replication.throttle import Throttle, Windows

from tests.unit.replication.conftest import new_partition
from tests.unit.replication.members import Members, play

WHERE = TopicPartition("t", 3)
ONE_SECOND = 1000


def throttle(clock: ManualClock, limit: int) -> Throttle:
    return Throttle(broker_id=1, limit=lambda: limit, clock=clock, windows=Windows())


def test_replicas_wait_while_the_average_is_over_the_limit():
    clock = ManualClock()
    held = throttle(clock, 100)
    held.note(WHERE, ("*",), 1000)
    assert not held.holds(WHERE, ("*",)), "ten windows of 100 are just used up"
    held.note(WHERE, ("*",), 1)
    assert held.holds(WHERE, ("*",))
    clock.advance(11 * ONE_SECOND)
    assert not held.holds(WHERE, ("*",))


@pytest.mark.parametrize(
    ("listed", "is_held"),
    [(("*",), True), (("3:1",), True), (("2:1", "3:2"), False), ((), False)],
)
def test_only_replicas_that_the_topic_names_for_this_broker_wait(listed, is_held):
    held = throttle(ManualClock(), 1)
    held.note(WHERE, ("*",), 10_000)
    assert held.holds(WHERE, listed) is is_held


def test_without_a_limit_nobody_waits():
    held = throttle(ManualClock(), MAX_LONG)
    held.note(WHERE, ("*",), 10**12)
    assert not held.holds(WHERE, ("*",))


def test_a_leader_never_holds_up_a_follower_that_is_in_sync():
    clock = ManualClock()
    rules = IsrRules(throttle=throttle(clock, 1))
    settings = {"leader.replication.throttled.replicas": "*"}
    partition = new_partition(clock, local_id=1, rules=rules, **settings)
    partition.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2, 3), isr=(1, 2))
    assert not partition.holds_up(3)
    partition.note_sent(10_000)
    assert partition.holds_up(3)
    assert not partition.holds_up(2)


def test_a_throttled_follower_waits_and_goes_on_when_the_throttle_is_lifted():
    async def scene() -> None:
        clock, limit = ManualClock(), [1]
        held = Throttle(broker_id=2, limit=lambda: limit[0], clock=clock, windows=Windows())
        members = Members(1, 2, clock=clock, throttle=held)
        log = members[2].partition.log
        log.use_config(log.config.with_overrides({"follower.replication.throttled.replicas": "*"}))
        held.note(members[2].partition.where, ("*",), 10_000)
        members.elect(1, 0)
        members[1].append(1)
        await asyncio.sleep(0.05)
        assert log.log_end_offset == 0
        limit[0] = MAX_LONG
        await members.until(lambda: log.log_end_offset == 1)
        await members.close()

    play(scene)
