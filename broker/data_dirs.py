"""Taking hold of the log directories before anything in them is read or written.

A directory is locked for as long as the broker runs, because two brokers in one directory would
destroy it. A directory with somebody else's files in it is refused: most likely the path is a
mistake, and a broker deletes what it takes for old data. Raises CannotStart.
"""

import errno
import re
from collections.abc import Iterable
from typing import Final

from odradek.broker.failures import CannotStart
from odradek.storage.files import Files, Lock, read_file

_META: Final = "meta.properties"
_LOCK: Final = ".lock"
# What a broker, ours or Kafka's, leaves in a log directory beside the directories of partitions.
_OWN_NAMES: Final = re.compile(
    r"\.lock|\.kafka_cleanshutdown|lost\+found|meta\.properties.*|metadata\.db.*"
    r"|[a-z-]+-checkpoint(\.tmp)?|.+-\d+(\..+)?|.+\.[0-9a-zA-Z_-]+-(delete|future|stray)"
)


class DataDirs:
    """Holds the locks; released at the end, or by the end of the process."""

    def __init__(self, locks: list[Lock]) -> None:
        self._locks = locks

    def release(self) -> None:
        for lock in self._locks:
            lock.release()
        self._locks = []


def claim(paths: Iterable[str], files: Files) -> DataDirs:
    """Make the directories that are missing, lock all of them, and look whose they are."""
    locks: list[Lock] = []
    try:
        for path in paths:
            locks.append(_lock(path, files))
            _refuse_foreign(path, files)
    except CannotStart:
        DataDirs(locks).release()
        raise
    return DataDirs(locks)


def _lock(path: str, files: Files) -> Lock:
    try:
        files.make_dir(path)
        lock = files.lock(f"{path}/{_LOCK}")
    except OSError as error:
        reason = "it is not a directory" if error.errno == errno.EEXIST else error.strerror
        raise CannotStart(f"The data directory {path} cannot be used: {reason}.") from error
    if lock is None:
        raise CannotStart(f"The data directory {path} is in use by another broker.")
    return lock


def _refuse_foreign(path: str, files: Files) -> None:
    names = [entry.name for entry in files.scan(path)]
    if _META in names:
        _refuse_other_formats(path, files)
        return
    for name in names:
        if not _OWN_NAMES.fullmatch(name):
            raise CannotStart(
                f"The data directory {path} holds {name!r}, which is no broker's: "
                "choose an empty directory."
            )


def _refuse_other_formats(path: str, files: Files) -> None:
    text = read_file(files, f"{path}/{_META}").decode("utf-8", "replace")
    version = re.search(r"^version\s*=\s*(\S+)", text, re.MULTILINE)
    if version is None or version[1] != "0":
        shown = "none" if version is None else version[1]
        raise CannotStart(
            f"The data directory {path} belongs to another kind of broker "
            f"(version {shown} in {_META}; this one writes 0)."
        )
