"""The rules of the in-sync set, one by one."""

from collections.abc import Iterable

import pytest
from odradek.replication.isr import (
    FollowerProgress,
    Isr,
    effective_min_isr,
    high_watermark,
    lagging,
    may_join,
)


def follower(id_: int, end: int, caught_up_at: float = 0.0) -> FollowerProgress:
    return FollowerProgress(id_, log_end_offset=end, caught_up_at=caught_up_at)


@pytest.mark.parametrize(
    ("leader_end", "ends", "isr", "expected"),
    [
        (10, {}, {1}, 10),
        (10, {2: 7, 3: 9}, {1, 2, 3}, 7),
        (10, {2: 7, 3: 9}, {1, 3}, 9),
        (10, {2: -1}, {1, 2}, -1),
    ],
    ids=["alone", "slowest of all", "slow one is out", "follower not heard of yet"],
)
def test_the_high_watermark_is_what_all_in_sync_replicas_have(
    leader_end: int, ends: dict[int, int], isr: set[int], expected: int
) -> None:
    followers = [follower(id_, end) for id_, end in ends.items()]
    assert high_watermark(leader_end, followers, isr) == expected


def test_while_a_change_is_under_way_old_and_new_members_count() -> None:
    growing = Isr(frozenset({1, 2}), frozenset({1, 2, 3}))
    shrinking = Isr(frozenset({1, 2, 3}), frozenset({1, 2}))
    assert growing.maximal == shrinking.maximal == {1, 2, 3}
    assert Isr(frozenset({1, 2})).maximal == {1, 2}


def out(followers: Iterable[FollowerProgress], *, leader_end: int, now: float) -> frozenset[int]:
    return lagging(followers, {1, 2}, leader_end_offset=leader_end, now=now, max_lag_seconds=30)


def test_an_idle_follower_that_is_level_stays_in_sync_for_ever() -> None:
    assert out([follower(2, 10)], leader_end=10, now=1e6) == frozenset()


def test_a_follower_leaves_after_the_time_it_was_behind() -> None:
    assert out([follower(2, 9, 100.0)], leader_end=10, now=130.0) == frozenset()
    assert out([follower(2, 9, 100.0)], leader_end=10, now=130.1) == {2}


def test_a_follower_joins_only_past_the_high_watermark_and_the_epoch_start() -> None:
    assert may_join(follower(2, 10), high_watermark=10, epoch_start_offset=8)
    assert not may_join(follower(2, 9), high_watermark=10, epoch_start_offset=8)
    # A lagging high watermark is not enough: the follower must have reached this leader's epoch.
    assert not may_join(follower(2, 10), high_watermark=5, epoch_start_offset=12)


def test_min_isr_never_asks_for_more_than_there_are_replicas() -> None:
    assert effective_min_isr(2, 1) == 1
    assert effective_min_isr(2, 3) == 2
