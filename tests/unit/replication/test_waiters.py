"""Parked requests are called once, in order, when their offset is reached."""

from odradek.replication.waiters import Waiters


def test_callbacks_run_in_order_of_offset_and_arrival() -> None:
    waiters, called = Waiters(), []
    for name, offset in (("late", 9), ("first", 5), ("second", 5)):
        waiters.park(offset, lambda name=name: called.append(name))
    waiters.reach(4)
    assert called == []
    waiters.reach(5)
    assert called == ["first", "second"]
    waiters.reach(100)
    assert called == ["first", "second", "late"]
    assert not waiters.parked


def test_a_cancelled_callback_waits_in_vain() -> None:
    waiters, called = Waiters(), []
    waiters.park(1, lambda: called.append("gone")).cancel()
    waiters.park(1, lambda: called.append("there"))
    waiters.reach(1)
    assert called == ["there"]


def test_release_calls_everyone_whatever_they_wait_for() -> None:
    waiters, called = Waiters(), []
    waiters.park(10, lambda: called.append(10))
    waiters.park(5, lambda: called.append(5))
    waiters.release()
    assert called == [5, 10]
    assert not waiters.parked


def test_a_callback_may_park_again() -> None:
    waiters, called = Waiters(), []

    def again() -> None:
        called.append("again")
        if len(called) < 3:
            waiters.park(len(called), again)

    waiters.park(0, again)
    waiters.reach(5)
    assert called == ["again"] * 3


def test_timed_out_polls_do_not_pile_up() -> None:
    waiters = Waiters()
    for _ in range(10_000):
        waiters.park(1, lambda: None).cancel()
    assert len(waiters.parked) <= 64
