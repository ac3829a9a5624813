"""Which segments of a log have to go, and why: a pure decision.

Segments leave oldest first and only as a run from the start of the log, because a hole would be
seen by readers. A segment may go when every offset in it is below the high watermark and

- it lies wholly below the log start offset (after DeleteRecords) and is not the active one;
  this holds under any cleanup policy;
- the log without it is still at least `retention.bytes` large;
- its newest record is older than `retention.ms`. Time is the records' own largest timestamp, or
  the file's modification time when no record has one.

The last two apply to `delete` and `compact,delete`, and also to the active segment unless it is
empty. A log always has a segment: when all of them go, the caller rolls a new one first.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from odradek.storage.log_config import LogConfig


class SegmentFacts(NamedTuple):
    base_offset: int
    next_offset: int  # the next segment's base offset, or the log end offset
    size_bytes: int
    largest_timestamp: int  # -1: no record has one
    modified_ms: int


class Reason(StrEnum):
    LOG_START = "all its records are below the log start offset"
    SIZE = "the log is larger than retention.bytes"
    TIME = "all its records are older than retention.ms"


class Deletion(NamedTuple):
    base_offset: int
    reason: Reason


class Retention(NamedTuple):
    """What is to be done, in this order: roll, raise the log start offset, delete."""

    deletions: list[Deletion]
    roll_first: bool
    log_start: int


def retain(
    segments: Sequence[SegmentFacts],
    *,
    config: LogConfig,
    log_start: int,
    high_watermark: int,
    now_ms: int,
) -> Retention:
    """`segments` in order, the active one last."""
    excess_bytes = _excess_bytes(segments, config)
    deletions: list[Deletion] = []
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        if segment.next_offset > high_watermark or (is_active and segment.size_bytes == 0):
            break
        if segment.next_offset <= log_start and not is_active:
            reason: Reason | None = Reason.LOG_START
        else:
            reason = _breach(segment, config, excess_bytes, now_ms)
        if reason is None:
            break
        excess_bytes -= segment.size_bytes
        deletions.append(Deletion(segment.base_offset, reason))
    if deletions:
        log_start = max(log_start, segments[len(deletions) - 1].next_offset)
    return Retention(deletions, 0 < len(deletions) == len(segments), log_start)


def _excess_bytes(segments: Sequence[SegmentFacts], config: LogConfig) -> int:
    """How many bytes have to go for the size's sake; less than any segment when none have to."""
    if config.retention_bytes < 0 or not config.has_retention:
        return -1
    return sum(segment.size_bytes for segment in segments) - config.retention_bytes


def _breach(
    segment: SegmentFacts, config: LogConfig, excess_bytes: int, now_ms: int
) -> Reason | None:
    if not config.has_retention:
        return None
    if excess_bytes >= segment.size_bytes:
        return Reason.SIZE
    newest_ms = segment.largest_timestamp
    if newest_ms < 0:
        newest_ms = segment.modified_ms
    if 0 <= config.retention_ms < now_ms - newest_ms:
        return Reason.TIME
    return None
