"""Copying a log into another one that is to take its place, while the log goes on.

The copy is always a beginning of the log: before anything is added it is cut where the two part,
as a follower is cut by its leader, and begun anew where the log has deleted more than it has yet.
Everything a copy decides on, a cut, a deletion, an epoch that began, may have happened since the
last look, so every step begins with one.

Owner: the event loop. Only the bytes of a slice may be read in a thread.
"""

from odradek.replication.divergence import truncation_offset
from odradek.storage.epochs import NO_EPOCH, EpochEnd
from odradek.storage.files import FileSlice
from odradek.storage.log import Log


class LogCopy:
    def __init__(self, log: Log, copy: Log) -> None:
        self.log = log
        self.copy = copy
        self._shape = log.shape

    @property
    def missing(self) -> int:
        """How many offsets the copy has yet to get."""
        return self.log.log_end_offset - self.copy.log_end_offset

    def align(self) -> None:
        """Take from the copy what is not, or is no longer, in the log."""
        log, copy = self.log, self.copy
        self._cut_what_differs()
        if copy.log_end_offset > log.log_end_offset:
            copy.truncate_to(log.log_end_offset)
        if not copy.log_start_offset <= log.log_start_offset <= copy.log_end_offset:
            copy.truncate_fully_and_start_at(log.log_start_offset)
        # No more than that: what is committed is the log's to know until the copy is the log.
        copy.update_high_watermark(log.log_start_offset)
        copy.advance_log_start(log.log_start_offset)

    def _cut_what_differs(self) -> None:
        copy = self.copy
        while (epoch := copy.epochs.latest_epoch) != NO_EPOCH:
            theirs = self.log.end_offset_for_epoch(epoch)
            if theirs.epoch == NO_EPOCH:
                if self.log.epochs.latest_epoch == NO_EPOCH:
                    return
                # The log has never heard of that epoch: it lost a tail that the copy still has.
                theirs = EpochEnd(epoch, copy.epochs.start_offset_of(epoch))
            end = truncation_offset(
                leader=theirs,
                own=copy.end_offset_for_epoch(theirs.epoch),
                log_end_offset=copy.log_end_offset,
            )
            if end >= copy.log_end_offset and theirs.epoch == epoch:
                return
            copy.truncate_to(end)

    def next_slice(self, max_bytes: int) -> FileSlice | None:
        """The batches that come next in the log, for `add`; None when the copy has all."""
        self.align()
        if not self.missing:
            return None
        self._shape = self.log.shape
        return self.log.read(self.copy.log_end_offset, max_bytes).records

    def add(self, data: bytes) -> None:
        """What was read of the slice; nothing, if the log was cut since: who knows what it is."""
        if data and self._shape == self.log.shape:
            self.copy.append_as_follower(data)
