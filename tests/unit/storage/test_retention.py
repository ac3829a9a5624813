"""Retention decides which segments go; told as segments of ten offsets each."""

from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.log_config import LogConfig
from odradek.storage.retention import Reason, Retention, SegmentFacts, retain

NOW = 1_000_000


def config(**values: str) -> LogConfig:
    settings = {"retention.ms": "-1", **{n.replace("_", "."): v for n, v in values.items()}}
    return LogConfig({}).with_overrides(settings)


def log(*ages_ms: int, size: int = 100, last_size: int | None = None) -> list[SegmentFacts]:
    """Segments of these ages (of their newest record), the active one last."""
    sizes = [size] * len(ages_ms)
    sizes[-1] = size if last_size is None else last_size
    return [
        SegmentFacts(10 * n, 10 * n + 10, sizes[n], NOW - age, NOW) for n, age in enumerate(ages_ms)
    ]


def decide(
    segments: list[SegmentFacts], config: LogConfig, *, hw: int = 1000, log_start: int = 0
) -> Retention:
    return retain(segments, config=config, log_start=log_start, high_watermark=hw, now_ms=NOW)


def test_segments_older_than_the_retention_time_go() -> None:
    decision = decide(log(500, 301, 300, 10), config(retention_ms="300"))
    assert decision == ([(0, Reason.TIME), (10, Reason.TIME)], False, 20)


def test_a_young_segment_protects_older_looking_ones_behind_it() -> None:
    assert decide(log(10, 500, 500), config(retention_ms="300")).deletions == []


def test_an_expired_active_segment_is_rolled_first() -> None:
    decision = decide(log(500, 400), config(retention_ms="300"))
    assert decision == ([(0, Reason.TIME), (10, Reason.TIME)], True, 20)


def test_an_empty_active_segment_stays() -> None:
    decision = decide(log(500, 400, last_size=0), config(retention_ms="300"))
    assert decision == ([(0, Reason.TIME)], False, 10)


def test_without_record_timestamps_the_files_age_counts() -> None:
    old = SegmentFacts(0, 10, 100, -1, NOW - 301)
    young = SegmentFacts(0, 10, 100, -1, NOW - 300)
    assert decide([old], config(retention_ms="300")).deletions == [(0, Reason.TIME)]
    assert decide([young], config(retention_ms="300")).deletions == []


def test_a_retention_of_minus_one_keeps_for_ever() -> None:
    assert decide(log(10**12, 10**12), config(retention_ms="-1")).deletions == []


def test_segments_beyond_the_size_go_while_the_rest_is_large_enough() -> None:
    decision = decide(log(0, 0, 0, 0), config(retention_bytes="250"))
    assert decision == ([(0, Reason.SIZE)], False, 10)
    assert decide(log(0, 0, 0, 0), config(retention_bytes="401")).deletions == []


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    """KAFKA-5634."""
    expired = config(retention_ms="300", retention_bytes="0")
    assert decide(log(500, 500, 500), expired, hw=19) == ([(0, Reason.SIZE)], False, 10)
    assert decide(log(500, 500, 500), expired, hw=0) == ([], False, 0)


def test_segments_below_the_log_start_go_under_any_policy() -> None:
    decision = decide(log(0, 0, 0), config(cleanup_policy="compact"), log_start=25)
    assert decision == ([(0, Reason.LOG_START), (10, Reason.LOG_START)], False, 25)


def test_the_active_segment_stays_even_when_the_log_start_is_its_end() -> None:
    decision = decide(log(0, 0), config(), log_start=20)
    assert decision == ([(0, Reason.LOG_START)], False, 20)


def test_a_compacted_log_is_not_cut_by_time_or_size() -> None:
    limits = {"retention_ms": "1", "retention_bytes": "1"}
    assert decide(log(500, 500), config(cleanup_policy="compact", **limits)).deletions == []
    both = decide(log(500, 500), config(cleanup_policy="compact,delete", **limits))
    assert len(both.deletions) == 2


def test_reasons_may_follow_each_other() -> None:
    limits = config(retention_ms="300", retention_bytes="250")
    decision = decide(log(0, 0, 500, 0), limits, log_start=10)
    assert decision.deletions == [(0, Reason.LOG_START)]
    decision = decide(log(0, 500, 0, 0), limits)
    assert decision.deletions == [(0, Reason.SIZE), (10, Reason.TIME)]


@given(
    ages=st.lists(st.integers(0, 600), min_size=1, max_size=6),
    size=st.integers(0, 100),
    retention_ms=st.integers(-1, 600),
    retention_bytes=st.integers(-1, 400),
    hw=st.integers(0, 70),
    log_start=st.integers(0, 70),
)
def test_a_run_from_the_start_goes_and_never_past_the_high_watermark(
    ages: list[int], size: int, retention_ms: int, retention_bytes: int, hw: int, log_start: int
) -> None:
    segments = log(*ages, size=size)
    limits = config(retention_ms=str(retention_ms), retention_bytes=str(retention_bytes))
    start = min(log_start, hw)
    deletions, roll_first, new_start = decide(segments, limits, hw=hw, log_start=start)
    count = len(deletions)
    assert [d.base_offset for d in deletions] == [s.base_offset for s in segments[:count]]
    assert start <= new_start <= hw
    assert roll_first == (count == len(segments))
    by_size = [s for s, d in zip(segments, deletions, strict=False) if d.reason is Reason.SIZE]
    if by_size:
        left = sum(s.size_bytes for s in segments if s.base_offset > by_size[-1].base_offset)
        assert left >= retention_bytes
