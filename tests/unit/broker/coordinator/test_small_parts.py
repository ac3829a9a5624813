"""Where groups are placed, how deadlines move, what a timeline remembers."""

import pytest
from odradek.broker.coordinator.placement import java_hash, partition_for
from odradek.broker.coordinator.subscriptions import subscribed_topics
from odradek.broker.coordinator.timeline import Timeline
from odradek.broker.coordinator.timers import Deadline, ManualTimers
from odradek.protocol.clock import ManualClock

from tests.unit.broker.coordinator.story import subscription


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("my-group", -1906497762),
        ("grüße", 98768023),
        ("😀", 1772899),
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_java_hashes(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partitions_follow_the_true_absolute_value() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("my-group", 50) == 1906497762 % 50


def test_the_one_hash_without_an_absolute_value_goes_to_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0


class Alarm:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.rings = 0
        self.deadline = Deadline(self.timers, self.clock, self.ring)

    def ring(self) -> None:
        self.rings += 1


def test_a_deadline_expires_once() -> None:
    alarm = Alarm()
    alarm.deadline.set(1000)
    alarm.timers.advance(999)
    assert alarm.rings == 0
    alarm.timers.advance(5000)
    assert alarm.rings == 1


def test_a_deadline_can_be_met_before_its_timer() -> None:
    alarm = Alarm()
    alarm.deadline.set(1000)
    alarm.deadline.look()
    assert alarm.rings == 0
    alarm.clock.advance(1000)
    alarm.deadline.look()
    assert (alarm.rings, alarm.timers.pending) == (1, 0)


def test_a_deadline_that_is_moved_keeps_one_timer() -> None:
    alarm = Alarm()
    for _ in range(100):
        alarm.deadline.set(1000)
        alarm.timers.advance(500)
    assert alarm.timers.pending == 1
    assert alarm.rings == 0
    alarm.timers.advance(500)
    assert alarm.rings == 1


def test_a_deadline_can_be_moved_forward_and_cleared() -> None:
    alarm = Alarm()
    alarm.deadline.set(1000)
    alarm.deadline.set(10)
    alarm.timers.advance(10)
    assert alarm.rings == 1
    alarm.deadline.set(10)
    alarm.deadline.clear()
    alarm.timers.advance(100)
    assert (alarm.rings, alarm.timers.pending) == (1, 0)


def test_a_timeline_shows_what_is_committed() -> None:
    timeline: Timeline[str, int] = Timeline()
    timeline.put("k", 1, offset=0, committed_end=0)
    timeline.put("k", 2, offset=1, committed_end=0)
    timeline.put("k", None, offset=2, committed_end=0)
    assert [timeline.committed("k", end) for end in range(4)] == [None, 1, 2, None]


def test_a_timeline_has_the_latest_value_for_writers() -> None:
    timeline: Timeline[str, int] = Timeline()
    timeline.put("k", 1, offset=0, committed_end=1)
    timeline.put("k", 2, offset=1, committed_end=1)
    assert timeline.latest("k") == 2
    assert dict(timeline.all_latest()) == {"k": 2}
    assert dict(timeline.all_committed(1)) == {"k": 1}
    timeline.put("k", None, offset=2, committed_end=2)
    assert timeline.latest("k") is None
    assert dict(timeline.all_latest()) == {}
    assert dict(timeline.all_committed(2)) == {"k": 2}
    assert dict(timeline.all_committed(3)) == {}


def test_a_timeline_forgets_what_no_reader_can_need() -> None:
    timeline: Timeline[str, int] = Timeline()
    timeline.put("k", 1, offset=0, committed_end=1)
    timeline.put("k", None, offset=1, committed_end=2)
    timeline.put("never", None, offset=2, committed_end=2)
    assert not timeline._versions


def test_subscriptions_are_read_and_unreadable_ones_make_them_unknown() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "c")]) == {"a", "b", "c"}
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([subscription("a"), b"\x00"]) is None
    assert subscribed_topics([b"\xff\xff\x00\x00"]) is None
    newer = b"\x00\x09" + subscription("a")[2:] + b"\x00" * 30
    assert subscribed_topics([newer]) == {"a"}
