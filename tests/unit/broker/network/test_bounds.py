"""Caps, rates, deadlines, memory and complaints: the bookkeeping that keeps peers in bounds."""

import logging

import pytest
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.complaints import QUIET_SECONDS, Complaints
from odradek.broker.network.deadlines import Deadlines
from odradek.broker.network.limits import ConnectionCaps, ConnectionLimits, parse_overrides
from odradek.protocol.clock import ManualClock
from odradek.protocol.settings import SettingsError


def test_the_total_bounds_all_hosts_together() -> None:
    limits = ConnectionLimits(ConnectionCaps(total=2), 0.0)
    assert limits.enter("a") is None
    assert limits.enter("b") is None
    assert "max.connections" in (limits.enter("c") or "")
    limits.leave("a")
    assert limits.enter("c") is None


def test_a_host_is_bounded_and_may_have_a_bound_of_its_own() -> None:
    limits = ConnectionLimits(ConnectionCaps(per_host=1, overrides={"big": 2, "none": 0}), 0.0)
    assert limits.enter("a") is None
    assert limits.enter("a") is not None
    assert limits.enter("big") is None
    assert limits.enter("big") is None
    assert limits.enter("big") is not None
    assert limits.enter("none") is not None
    limits.leave("a")
    assert limits.enter("a") is None


def test_a_listener_counts_within_its_broker() -> None:
    broker = ConnectionLimits(ConnectionCaps(total=3), 0.0)
    inside = ConnectionLimits(ConnectionCaps(total=2), 0.0, within=broker)
    outside = ConnectionLimits(ConnectionCaps(total=2), 0.0, within=broker)
    assert inside.enter("a") is None
    assert inside.enter("a") is None
    assert inside.enter("a") is not None
    assert broker.total == 2
    assert outside.enter("a") is None
    assert outside.enter("a") is not None
    inside.leave("a")
    assert outside.enter("a") is None


def test_new_caps_hold_for_new_connections_only() -> None:
    limits = ConnectionLimits(ConnectionCaps(), 0.0)
    for _ in range(5):
        assert limits.enter("a") is None
    limits.caps = ConnectionCaps(total=3)
    assert limits.enter("a") is not None
    assert limits.total == 5


def test_a_second_gives_as_many_connections_as_the_rate_says() -> None:
    limits = ConnectionLimits(ConnectionCaps(creations_per_second=10), 0.0)
    assert [limits.delay(0.0) for _ in range(10)] == [0.0] * 10
    assert limits.delay(0.0) == pytest.approx(0.1)
    assert limits.delay(0.05) == pytest.approx(0.05)
    assert limits.delay(0.1001) == 0.0
    assert [limits.delay(100.0) for _ in range(10)] == [0.0] * 10
    assert limits.delay(100.0) > 0


def test_a_rate_of_zero_accepts_nothing() -> None:
    limits = ConnectionLimits(ConnectionCaps(creations_per_second=0), 0.0)
    assert limits.delay(0.0) > 0
    assert limits.delay(1000.0) > 0


def test_overrides_are_read_host_by_host() -> None:
    assert parse_overrides("10.0.0.1:5, [::1]:7,") == {"10.0.0.1": 5, "::1": 7}
    assert parse_overrides("") == {}
    for bad in ("10.0.0.1", "10.0.0.1:many", ":5"):
        with pytest.raises(SettingsError, match=r"max\.connections\.per\.ip\.overrides"):
            parse_overrides(bad)


def test_a_frame_gets_more_time_the_longer_it_is() -> None:
    deadlines = Deadlines(idle_seconds=600, frame_seconds=30)
    assert not deadlines.frame_is_late(None, 0, now=1e9)
    assert not deadlines.frame_is_late(100.0, 10, now=129.9)
    assert deadlines.frame_is_late(100.0, 10, now=130.1)
    assert not deadlines.frame_is_late(100.0, 100 * 1024**2, now=500.0)
    assert deadlines.frame_is_late(100.0, 100 * 1024**2, now=531.0)


def test_a_connection_that_is_being_served_is_not_idle() -> None:
    deadlines = Deadlines(idle_seconds=10)
    assert deadlines.is_idle(0.0, 10.1, is_being_served=False)
    assert not deadlines.is_idle(0.0, 9.9, is_being_served=False)
    assert not deadlines.is_idle(0.0, 1e6, is_being_served=True)
    assert not Deadlines(idle_seconds=None).is_idle(0.0, 1e6, is_being_served=False)


def test_connections_are_looked_at_often_enough_but_not_all_the_time() -> None:
    assert Deadlines(idle_seconds=600).interval == 3.0
    assert Deadlines(idle_seconds=0.01).interval == 0.05
    assert Deadlines(idle_seconds=None, frame_seconds=3600).interval == 10.0


class Waiter:
    def __init__(self) -> None:
        self.resumed = 0

    def resume_receiving(self) -> None:
        self.resumed += 1


def test_those_who_wait_for_memory_are_told_when_there_is_some() -> None:
    budget = MemoryBudget(100)
    first, second = Waiter(), Waiter()
    budget.reserve(150)
    assert budget.is_exhausted
    budget.wait(first)
    budget.wait(second)
    budget.forget(second)
    budget.release(10)
    assert first.resumed == 0
    budget.release(90)
    assert (first.resumed, second.resumed) == (1, 0)


def test_a_budget_without_a_limit_is_never_exhausted() -> None:
    budget = MemoryBudget(-1)
    budget.reserve(10**15)
    assert not budget.is_exhausted


def test_a_host_is_complained_about_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints(logging.getLogger("network"), clock)
    for _ in range(5):
        complaints.write("10.0.0.1", "bad")
    complaints.write("10.0.0.2", "also bad")
    assert caplog.messages == ["bad", "also bad"]
    clock.advance(int(QUIET_SECONDS * 1000))
    complaints.write("10.0.0.1", "bad")
    assert caplog.messages[-1] == "bad (4 more like this before)"


def test_complaints_forget_the_oldest_of_very_many_hosts(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("network"), ManualClock())
    for number in range(1001):
        complaints.write(f"host {number}", "bad")
    complaints.write("host 0", "bad")
    assert len(caplog.messages) == 1002
