"""Where a follower cuts its log, as a decision."""

import pytest
from odradek.replication.divergence import restart_offset, truncation_offset
from odradek.storage.epochs import UNKNOWN_END, EpochEnd


@pytest.mark.parametrize(
    ("leader", "own", "log_end", "expected"),
    [
        (EpochEnd(3, 10), EpochEnd(3, 12), 15, 10),
        (EpochEnd(3, 12), EpochEnd(3, 10), 15, 10),
        (EpochEnd(3, 12), EpochEnd(2, 7), 15, 7),
        (EpochEnd(3, 20), EpochEnd(3, 15), 15, 15),
        (EpochEnd(3, 12), UNKNOWN_END, 15, 12),
    ],
    ids=[
        "both know the epoch and the leader's is shorter",
        "both know the epoch and ours is shorter",
        "we do not know the epoch: back to the end of the one before, then ask again",
        "never beyond the log end",
        "we know no epoch at all",
    ],
)
def test_the_common_past_ends_where_epochs_part(leader, own, log_end, expected):
    assert truncation_offset(leader=leader, own=own, log_end_offset=log_end) == expected


@pytest.mark.parametrize(
    ("log_end", "start", "end", "expected"),
    [
        (10, 0, 5, (5, False)),
        (10, 20, 30, (20, True)),
        (10, 5, 30, (10, False)),
        (0, 0, 0, (0, False)),
    ],
    ids=["leader ends below us", "leader begins above us", "within its range", "both empty"],
)
def test_out_of_range_is_left_for_the_nearest_place_in_range(log_end, start, end, expected):
    assert restart_offset(log_end_offset=log_end, leader_start=start, leader_end=end) == expected
