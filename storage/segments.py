"""The life of a log's segments: rolling to new ones, discarding, replacing and removing old ones.

A segment is rolled when the next batch would make it too large or too old, when an index is full,
or when an offset no longer fits its 31-bit distance from the base. Discarded segments are renamed
to `.deleted` at once, so that their names are free and a crash finishes the job, and removed
after `file.delete.delay.ms`: readers may still be at them.

One owner, the log. OSError passes through; the log knows what to do about it.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from odradek.protocol.clock import Clock
from odradek.protocol.records import BatchHeader
from odradek.storage import segment_swap
from odradek.storage.files import Files
from odradek.storage.log_config import LogConfig
from odradek.storage.log_segments import SegmentList
from odradek.storage.retention import SegmentFacts
from odradek.storage.segment import MAX_RELATIVE_OFFSET, Segment


class Removal(NamedTuple):
    """A discarded segment and when, in monotonic seconds, its files may go."""

    due: float
    segment: Segment


class Segments(SegmentList):
    __slots__ = (
        "_clock",
        "_files",
        "_random",
        "_removals",
        "_segment_bytes",
        "_segment_ms",
        "config",
        "directory",
        "has_unsynced_names",
    )

    def __init__(
        self,
        directory: str,
        segments: Iterable[Segment] = (),
        *,
        files: Files,
        clock: Clock,
        random: Random,
        config: LogConfig,
    ) -> None:
        super().__init__(segments)
        self.directory = directory
        self._files = files
        self._clock = clock
        self._random = random
        self._removals: list[Removal] = []
        # Whether names were made or changed that a power cut would take back.
        self.has_unsynced_names = True
        self.config = config
        self.use_config(config)

    def use_config(self, config: LogConfig) -> None:
        self.config = config
        # Asked for every append, and plain attributes are cheaper than settings.
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms
        if len(self):
            self.active.limit_bytes = -1

    # Birth ----------------------------------------------------------------------------------

    def create(self, base_offset: int) -> Segment:
        """Begin a new active segment."""
        config = self.config
        jitter_ms = config.segment_jitter_ms
        segment = Segment(
            self._files,
            self.directory,
            base_offset,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            modified_ms=self._clock.now_ms(),
            roll_jitter_ms=self._random.randrange(jitter_ms + 1) if jitter_ms else 0,
        )
        segment.create(config.segment_bytes if config.preallocate else 0)
        self.add(segment)
        self.has_unsynced_names = True
        return segment

    def must_roll_for(self, size: int, headers: Sequence[BatchHeader]) -> bool:
        """Whether batches of `size` bytes have to go to a new segment."""
        segment, last = self._segments[-1], headers[-1]
        if last.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not segment.size:
            return False
        now_ms = max([header.max_timestamp for header in headers])
        must_roll = (
            segment.size > self._segment_bytes - size
            or segment.is_index_full
            or self._is_old(segment, now_ms)
        )
        if not must_roll:
            self._set_limits(segment)
        return must_roll

    def _is_old(self, segment: Segment, now_ms: int) -> bool:
        """Age is counted in the records' own time, or from the file's when they have none."""
        began_ms = segment.first_timestamp
        if began_ms < 0 or now_ms < 0:
            began_ms, now_ms = segment.modified_ms, self._clock.now_ms()
        return now_ms - began_ms > self._segment_ms - segment.roll_jitter_ms

    def _set_limits(self, segment: Segment) -> None:
        """Spare the next appends these questions: within the limits the answer is no."""
        began_ms = segment.first_timestamp
        age_ms = self._segment_ms - segment.roll_jitter_ms
        segment.limit_timestamp = began_ms + age_ms if began_ms >= 0 else -1
        segment.limit_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        segment.limit_bytes = self._segment_bytes

    def roll(self, base_offset: int) -> Segment:
        """Complete the active segment and begin another. An empty one is given up for it."""
        active = self.active
        if active.size:
            active.become_inactive()
        else:
            self.discard([active])
        return self.create(base_offset)

    # Death ----------------------------------------------------------------------------------

    def discard(self, segments: Sequence[Segment]) -> None:
        """Take segments out of the log; their files stay, renamed, for readers still at them."""
        due = self._clock.monotonic() + self.config.file_delete_delay_ms / 1000
        for segment in segments:
            self.remove(segment)
            segment.rename(segment_swap.DELETED)
            self._removals.append(Removal(due, segment))
        self.has_unsynced_names = True

    def replace(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put segments whose files are complete and synced, under the suffix .cleaned, in the
        place of the ones they were made from."""
        segment_swap.begin(new)
        self.discard(old)
        for segment in new:
            self.add(segment)
        segment_swap.finish(new)

    def take_removals(self, now: float) -> list[Segment]:
        """Discarded segments whose delay is over, for `remove_files`."""
        due = [removal.segment for removal in self._removals if removal.due <= now]
        self._removals = [removal for removal in self._removals if removal.due > now]
        return due

    def remove_files(self, segments: Sequence[Segment]) -> None:
        """Delete discarded segments for good. Safe in a thread."""
        try:
            if segments:
                self._files.sync_dir(self.directory)  # the renames before the removals
        except FileNotFoundError:
            return  # the log was given up meanwhile, and its directory goes as a whole
        for segment in segments:
            segment.remove()

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed."""
        self.directory = directory
        for segment in (*self, *(removal.segment for removal in self._removals)):
            segment.moved_to(directory)

    def release(self) -> None:
        for segment in self:
            segment.release()

    # For retention --------------------------------------------------------------------------

    def facts(self, log_end: int) -> list[SegmentFacts]:
        segments = list(self)
        ends = [segment.base_offset for segment in segments[1:]] + [log_end]
        return [
            SegmentFacts(s.base_offset, end, s.size, s.latest.timestamp, s.modified_ms)
            for s, end in zip(segments, ends, strict=True)
        ]
