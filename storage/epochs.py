"""The history of leader epochs of one log: which epoch began at which offset.

Entries (epoch, start offset) grow strictly in both columns. They answer the question on which
replication rests: where did an epoch end? An entry is made by the first batch of an epoch, and
by becoming leader even before any batch is written (otherwise the new leader could not answer
for its own epoch).

The history is kept in `leader-epoch-checkpoint` in the log's directory. The file is replaced
whenever entries change, without waiting for the disk; the log syncs it (`path`) before its
recovery point moves on. What a power cut takes away is thus always found again in the batches
above the recovery point.

One owner: the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from odradek.storage.checkpoints import LEADER_EPOCHS, natural, read_rows, write_rows
from odradek.storage.files import Files

NO_EPOCH = -1
NO_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end (exclusive) of an epoch in this log; NO_EPOCH and NO_OFFSET when unknown."""

    epoch: int
    end_offset: int


UNKNOWN_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    def __init__(self, directory: str, *, files: Files) -> None:
        """Load the history of the log in `directory`. `damage` says why it may be incomplete:
        then call clear() and assign() the epochs found in the log's batches."""
        self._files = files
        self.path = f"{directory}/{LEADER_EPOCHS}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        rows, self.damage = read_rows(files, self.path, _parse_entry)
        self._load(rows)

    def _load(self, rows: list[EpochEntry]) -> None:
        for epoch, start in rows:
            if self._epochs and (epoch <= self._epochs[-1] or start <= self._starts[-1]):
                self.damage = self.damage or f"{self.path}: entries do not grow at epoch {epoch}"
                continue
            self._epochs.append(epoch)
            self._starts.append(start)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int:
        """NO_EPOCH when there is no entry. Epoch 0 is as good as any."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`; nothing happens if that is known.

        An epoch that begins at or below what is recorded replaces the entries it contradicts:
        they belong to epochs that left no record here.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot begin at offset {start_offset}")
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._write()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch`, or the largest epoch below it that is known here, ended."""
        if not self._epochs or epoch < 0:
            return UNKNOWN_END
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return UNKNOWN_END  # the asker is ahead of us; it must not truncate on our word
        if following == 0:
            return EpochEnd(epoch, self._starts[0])  # older than all: nothing of it is left here
        return EpochEnd(self._epochs[following - 1], self._starts[following])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch of the record at `offset`, NO_EPOCH when it lies before the first entry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def start_offset_of(self, epoch: int) -> int:
        """Where exactly this epoch began, NO_OFFSET when it has no entry."""
        index = bisect_left(self._epochs, epoch)
        if index < len(self._epochs) and self._epochs[index] == epoch:
            return self._starts[index]
        return NO_OFFSET

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that begin at or after `offset`.

        To be called for every truncation, also to the log end or beyond: an entry without data
        that stayed behind would make a follower truncate for ever.
        """
        keep = bisect_left(self._starts, offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._write()

    def truncate_from_start(self, offset: int) -> None:
        """Forget what lies before `offset`; the epoch that holds it now begins there."""
        holding = bisect_right(self._starts, offset) - 1
        if holding < 0 or (holding == 0 and self._starts[0] == offset):
            return
        del self._epochs[:holding], self._starts[:holding]
        self._starts[0] = offset
        self._write()

    def adopt(self, entries: Sequence[EpochEntry]) -> None:
        """Take over the history of another copy of the same log."""
        self._epochs = [entry.epoch for entry in entries]
        self._starts = [entry.start_offset for entry in entries]
        self._write()

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed."""
        self.path = f"{directory}/{LEADER_EPOCHS}"

    def clear(self) -> None:
        self.damage = None
        if self._epochs or self._files.exists(self.path):
            self._epochs.clear()
            self._starts.clear()
            self._write()

    def _write(self) -> None:
        rows = (f"{e} {s}" for e, s in zip(self._epochs, self._starts, strict=True))
        write_rows(self._files, self.path, rows, sync=False)


def _parse_entry(line: str) -> EpochEntry:
    epoch, start_offset = line.split(" ")
    return EpochEntry(natural(epoch), natural(start_offset))
