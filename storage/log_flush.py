"""Making a log durable without stopping it.

fsync takes milliseconds, so it runs in a thread while the owner's loop goes on appending:

    flush = log.begin_flush()          on the loop: notes which files hold unsynced bytes, and
                                       the log end offset they reach
    flush.run()                        in a thread: syncs them; touches nothing of the log
    log.finish_flush(flush)            on the loop: moves the recovery point to that offset,
                                       unless the log was cut meanwhile

An error from `run` means that nobody knows what is on the disk: the owner calls `log.fail(error)`
and must not try again, because a second fsync may report success for pages that were dropped.

What is synced: the log files that hold offsets from the recovery point on; of those that are
complete also the indexes, the aborted-transaction index and the producer snapshot; the leader
epoch file when it changed; and the directory, so that new names survive a power cut.
The active segment's indexes are not: an unclean start makes them again anyway.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.storage.files import File, Files


class Flush(NamedTuple):
    """Work noted by Log.begin_flush."""

    files: Files
    target_offset: int
    shape: int  # counts truncations; a flush begun before one proves nothing after it
    logs: Sequence[File]
    side_files: Sequence[str]
    directories: Sequence[str]

    def run(self) -> None:
        for log in self.logs:
            log.sync()
        for path in self.side_files:
            self._sync_path(path)
        for directory in self.directories:
            self._sync_directory(directory)

    def _sync_path(self, path: str) -> None:
        try:
            self.files.open(path).sync()
        except FileNotFoundError:
            return  # optional, or deleted together with its segment: nothing left to keep

    def _sync_directory(self, directory: str) -> None:
        try:
            self.files.sync_dir(directory)
        except FileNotFoundError:
            return  # the partition was deleted and its directory renamed
