"""What to compact next, and in which portions: pure decisions.

A compacted log is a clean head, where each key occurs once, and a dirty tail. Up to where the
tail may be cleaned is a matter of whole segments: never the active one, nothing at or above the
last stable offset (which is never above the high watermark), nothing younger than
`min.compaction.lag.ms`. A log is due when its dirty part makes up more than
`min.cleanable.dirty.ratio` of the whole, or holds a record older than `max.compaction.lag.ms`.
Of several logs the one with the largest dirty share comes first.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.storage.log_config import LogConfig

# The reach of an index entry: a segment's offsets lie within 31 bits above its base.
MAX_OFFSET_RANGE = 0x7FFFFFFF


class SegmentSpan(NamedTuple):
    base_offset: int
    next_offset: int  # the next segment's base offset, or the log end offset
    size_bytes: int
    first_timestamp: int
    largest_timestamp: int


class Cleanable(NamedTuple):
    """The offsets [first_dirty, end) of a log can be cleaned, end being a segment boundary."""

    topic_partition: TopicPartition
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable(
    topic_partition: TopicPartition,
    segments: Sequence[SegmentSpan],
    *,
    cleaned_to: int | None,
    last_stable: int,
    config: LogConfig,
    now_ms: int,
) -> Cleanable:
    """`segments` in order, the active one last; `cleaned_to` from the cleaner's checkpoint."""
    start, log_end = segments[0].base_offset, segments[-1].next_offset
    # A checkpoint outside the log belongs to a log that was cut since: all of it is dirty.
    first_dirty = cleaned_to if cleaned_to is not None and start <= cleaned_to <= log_end else start
    end = start
    for segment in segments[:-1]:
        lag_ms = now_ms - segment.largest_timestamp
        is_too_young = config.min_compaction_lag_ms > 0 and lag_ms < config.min_compaction_lag_ms
        is_dirty = segment.next_offset > first_dirty
        if segment.next_offset > last_stable or (is_dirty and is_too_young):
            break
        end = segment.next_offset
    dirty = [s for s in segments[:-1] if first_dirty < s.next_offset <= end]
    clean_bytes = sum(s.size_bytes for s in segments[:-1] if s.next_offset <= first_dirty)
    return Cleanable(
        topic_partition,
        first_dirty,
        max(first_dirty, end),
        clean_bytes,
        sum(s.size_bytes for s in dirty),
        _is_overdue(dirty, config, now_ms),
    )


def _is_overdue(dirty: Sequence[SegmentSpan], config: LogConfig, now_ms: int) -> bool:
    oldest = min((s.first_timestamp for s in dirty if s.first_timestamp > 0), default=now_ms)
    return now_ms - oldest > config.max_compaction_lag_ms


def dirtiest(candidates: Iterable[tuple[Cleanable, LogConfig]]) -> Cleanable | None:
    """The log to clean next, None when no log is due."""
    due = [
        candidate
        for candidate, config in candidates
        if candidate.dirty_bytes
        and (candidate.is_overdue or candidate.dirty_ratio > config.min_cleanable_dirty_ratio)
    ]
    return max(due, key=lambda candidate: candidate.dirty_ratio, default=None)


def group_by_size(segments: Sequence[SegmentSpan], segment_bytes: int) -> list[list[SegmentSpan]]:
    """Neighbours that together still fit one segment, as cleaning leaves small ones behind."""
    groups: list[list[SegmentSpan]] = []
    size = 0
    for segment in segments:
        size += segment.size_bytes
        is_near = groups and segment.next_offset - 1 - groups[-1][0].base_offset <= MAX_OFFSET_RANGE
        if groups and is_near and size <= segment_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size_bytes
    return groups
