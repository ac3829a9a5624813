"""A stream that waits for enough, and not for ever."""

from odradek.protocol.clock import ManualClock
from odradek.spark_jobs.patience import Patience


def test_a_batch_waits_until_enough_is_there_or_it_has_waited_long_enough():
    clock = ManualClock()
    patience = Patience(100, 60_000, clock)
    assert patience.is_over(3), "the first of a run waits for nothing"
    assert not patience.is_over(99)
    clock.advance(1_000)
    assert patience.is_over(100)
    clock.advance(59_999)
    assert not patience.is_over(99), "the wait began with the batch before"
    clock.advance(1)
    assert patience.is_over(0)
    assert not patience.is_over(99)


def test_without_a_limit_nothing_waits():
    patience = Patience(None, 60_000, ManualClock())
    assert all(patience.is_over(behind) for behind in (1, 0, 1))
