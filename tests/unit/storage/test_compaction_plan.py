"""Which log is cleaned next, how far, and in which portions."""

from odradek.protocol.types import TopicPartition
from odradek.storage.compaction_plan import (
    Cleanable,
    SegmentSpan,
    cleanable,
    dirtiest,
    group_by_size,
)
from odradek.storage.log_config import LogConfig

NOW = 1_000_000
ORDERS = TopicPartition("orders", 0)


def config(**values: str) -> LogConfig:
    return LogConfig({}).with_overrides({n.replace("_", "."): v for n, v in values.items()})


def log(*ages_ms: int, size: int = 100) -> list[SegmentSpan]:
    """Segments of ten offsets and these ages, the active one last."""
    return [
        SegmentSpan(10 * n, 10 * n + 10, size, NOW - age, NOW - age)
        for n, age in enumerate(ages_ms)
    ]


def look(
    segments: list[SegmentSpan],
    *,
    cleaned_to: int | None = None,
    stable: int = 1000,
    **settings: str,
) -> Cleanable:
    return cleanable(
        ORDERS,
        segments,
        cleaned_to=cleaned_to,
        last_stable=stable,
        config=config(**settings),
        now_ms=NOW,
    )


def test_all_but_the_active_segment_can_be_cleaned() -> None:
    seen = look(log(0, 0, 0, 0))
    assert (seen.first_dirty, seen.end, seen.clean_bytes, seen.dirty_bytes) == (0, 30, 0, 300)


def test_what_is_clean_counts_as_clean() -> None:
    seen = look(log(0, 0, 0, 0), cleaned_to=20)
    assert (seen.first_dirty, seen.end, seen.clean_bytes, seen.dirty_bytes) == (20, 30, 200, 100)
    assert round(seen.dirty_ratio, 2) == 0.33


def test_cleaning_stops_before_the_segment_with_the_last_stable_offset() -> None:
    assert look(log(0, 0, 0, 0), stable=29).end == 20
    assert look(log(0, 0, 0, 0), stable=20).end == 20
    assert look(log(0, 0, 0, 0), stable=0).dirty_bytes == 0


def test_young_segments_are_left_alone() -> None:
    assert look(log(900, 500, 400, 0), min_compaction_lag_ms="500").end == 20
    assert look(log(900, 100, 900, 0), min_compaction_lag_ms="500").end == 10


def test_old_dirt_is_overdue() -> None:
    assert look(log(900, 100, 0), max_compaction_lag_ms="800").is_overdue
    assert not look(log(900, 100, 0), max_compaction_lag_ms="900").is_overdue
    assert not look(log(900, 100, 0), cleaned_to=10, max_compaction_lag_ms="800").is_overdue


def test_a_checkpoint_outside_the_log_is_not_believed() -> None:
    cut = log(0, 0, 0)[1:]
    assert look(cut, cleaned_to=5).first_dirty == 10
    assert look(log(0, 0), cleaned_to=21).first_dirty == 0
    assert look(log(0, 0), cleaned_to=20).dirty_bytes == 0


def test_a_log_of_one_segment_has_nothing_to_clean() -> None:
    assert look(log(0)).dirty_bytes == 0


def share(dirty: int, clean: int, *, is_overdue: bool = False, topic: str = "t") -> Cleanable:
    return Cleanable(TopicPartition(topic, 0), 0, 10, clean, dirty, is_overdue)


def test_the_dirtiest_log_comes_first() -> None:
    some, most = share(60, 40, topic="some"), share(70, 30, topic="most")
    assert dirtiest([(some, config()), (most, config())]) is most


def test_a_log_below_its_ratio_is_not_due_unless_overdue() -> None:
    assert dirtiest([(share(50, 50), config())]) is None
    assert dirtiest([(share(51, 49), config())]) is not None
    assert dirtiest([(share(10, 90), config(min_cleanable_dirty_ratio="0.05"))]) is not None
    assert dirtiest([(share(1, 99, is_overdue=True), config())]) is not None
    assert dirtiest([(share(0, 99, is_overdue=True), config())]) is None
    assert dirtiest([]) is None


def bases(groups: list[list[SegmentSpan]]) -> list[list[int]]:
    return [[span.base_offset for span in group] for group in groups]


def test_neighbours_are_grouped_while_they_fit_one_segment() -> None:
    assert bases(group_by_size(log(0, 0, 0, 0, 0), 250)) == [[0, 10], [20, 30], [40]]
    assert bases(group_by_size(log(0, 0, 0), 50)) == [[0], [10], [20]]
    assert bases(group_by_size([], 50)) == []


def test_a_group_stays_within_the_offsets_an_index_can_reach() -> None:
    near = SegmentSpan(0, 10, 1, 0, 0)
    reachable = SegmentSpan(10, 2**31, 1, 0, 0)
    too_far = SegmentSpan(2**31, 2**31 + 1, 1, 0, 0)
    assert bases(group_by_size([near, reachable, too_far], 100)) == [[0, 10], [2**31]]
