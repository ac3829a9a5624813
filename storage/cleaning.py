"""The owner's side of compaction: survey a log, make a job of it, swap the result in.

    cleanable = survey(log, cleaned_to, now_ms)       on the thread that owns the log
    job = prepare(log, cleanable, ...)                on the same
    cleaned = clean_segments(job)                     anywhere, for long (`compaction`)
    cleaned_to = swap_in(log, job, cleaned, ...)      on the owner's thread again

`cleaned_to` goes into the cleaner's checkpoint. Between the steps the log lives on: appends do not
matter, because only inactive segments below the last stable offset are cleaned; what retention or
truncation took away meanwhile is noticed in `swap_in`, which then drops that part of the work.
"""

from collections.abc import Sequence

from odradek.protocol.settings import MAX_LONG
from odradek.storage.compaction import Cleaned, CleanedGroup, CleaningJob
from odradek.storage.compaction_plan import Cleanable, SegmentSpan, cleanable
from odradek.storage.files import Files
from odradek.storage.log import Log
from odradek.storage.segment import SEGMENT_FILES, Segment
from odradek.storage.segment_swap import CLEANED


def survey(log: Log, cleaned_to: int | None, now_ms: int) -> Cleanable:
    """How dirty a compacted log is; `compaction_plan.dirtiest` chooses among several."""
    return cleanable(
        log.topic_partition,
        _spans(log),
        cleaned_to=cleaned_to,
        last_stable=log.last_stable_offset,
        config=log.config,
        now_ms=now_ms,
    )


def _spans(log: Log) -> list[SegmentSpan]:
    """Timestamps are looked up only where a setting asks for them: that opens files."""
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    asks_first = log.config.max_compaction_lag_ms != MAX_LONG
    asks_latest = log.config.min_compaction_lag_ms > 0
    return [
        SegmentSpan(
            segment.base_offset,
            end,
            segment.size,
            segment.first_timestamp if asks_first else -1,
            segment.latest.timestamp if asks_latest else -1,
        )
        for segment, end in zip(segments, ends, strict=True)
    ]


def prepare(log: Log, dirty: Cleanable, *, now_ms: int, map_bytes: int) -> CleaningJob:
    config = log.config
    spans = [span for span in _spans(log) if span.next_offset <= dirty.end]
    aborted = [txn for segment in log.segments for txn in segment.transactions]
    return CleaningJob(
        directory=log.directory,
        segments=tuple(spans),
        first_dirty=dirty.first_dirty,
        aborted=tuple(txn for txn in aborted if txn.first_offset < dirty.end),
        last_records=log.producers.last_records(),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
    )


def swap_in(log: Log, job: CleaningJob, cleaned: Cleaned, *, files: Files) -> int:
    """Put the cleaned segments in their places; returns how far the log is clean now.

    Before that offset is checkpointed, the directory has to be synced: should a power cut take
    back the new names but not the checkpoint, what is dirty would count as clean.
    """
    sizes = {span.base_offset: span.size_bytes for span in job.segments}
    is_complete = True
    for group in cleaned.groups:
        old = [s for s in log.segments if s.base_offset in group.replaced]
        is_unchanged = len(old) == len(group.replaced) and all(
            s is not log.segments.active and s.size == sizes[s.base_offset] for s in old
        )
        new = _cleaned_segment(files, log, group, old)
        if is_unchanged:
            log.replace_segments([new], old)
            for base_offset in group.replaced[1:]:
                log.producers.snapshots.remove(base_offset)
        else:
            new.remove()
            is_complete = is_complete and not old
    return cleaned.cleaned_to if is_complete else job.first_dirty


def _cleaned_segment(
    files: Files, log: Log, group: CleanedGroup, old: Sequence[Segment]
) -> Segment:
    base_offset = group.replaced[0]
    present = {entry.name: entry.size for entry in files.scan(log.directory)}
    names = {kind: f"{base_offset:020d}{kind}{CLEANED}" for kind in SEGMENT_FILES}
    return Segment(
        files,
        log.directory,
        base_offset,
        index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        sizes={kind: present[name] for kind, name in names.items() if name in present},
        modified_ms=old[-1].modified_ms if old else 0,
        suffix=CLEANED,
    )
