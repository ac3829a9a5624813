"""All logs of a broker, over one or more log directories.

Directories are used side by side: a new partition goes to the one with the fewest logs. When one
fails, its logs answer KAFKA_STORAGE_ERROR and the others go on; `on_offline` is told, and asks
`online` whether any directory is left.

Owner: the broker's loop. `open`, `load` and `close` wait for disks and run before and after it.
In between only the parts named so run in threads: writing checkpoints, flushing, and removing
what was deleted.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.storage.directory import Checkpoints, LogDirectory
from odradek.storage.files import Files
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.partition_names import (
    deleted_name,
    directory_name,
    is_deleted_name,
    parse_directory_name,
)
from odradek.storage.properties_files import LogDirectoryError, read_topic_id, write_topic_id
from odradek.storage.recovery import LogOpening, open_log

_log = logging.getLogger(__name__)

# What an open log holds at the least: its log file and, until Python 3.13, one per mapped index.
_FILES_PER_LOG = 3
_FILES_FOR_OTHERS = 1000
_PROGRESS_EVERY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSettings:
    """What holds for all logs of a broker."""

    config_of: Callable[[str], LogConfig]  # by topic
    producer_expiration_ms: int = 86_400_000
    recovery_threads_per_directory: int = 1
    max_open_files: int | None = None


class DeletedPartition(NamedTuple):
    """A renamed directory and when, in monotonic seconds, it may be removed."""

    due: float
    directory: LogDirectory
    path: str


class _Loaded(NamedTuple):
    directory: LogDirectory
    partition: TopicPartition
    log: Log | None  # None: its directory went offline


class Logs:
    def __init__(
        self,
        paths: Sequence[str],
        *,
        files: Files,
        clock: Clock,
        random: Random,
        settings: LogsSettings,
        on_offline: Callable[[LogDirectory], None],
    ) -> None:
        self.directories = [
            LogDirectory(path, files=files, on_offline=on_offline) for path in paths
        ]
        self._files = files
        self._clock = clock
        self._random = random
        self._settings = settings
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._deleted: list[DeletedPartition] = []

    # Opening --------------------------------------------------------------------------------

    def open(self, broker_id: int, cluster_id: str) -> None:
        """Take the directories into use. One that fails is offline; one that belongs to somebody
        else is an error."""
        for directory in self.directories:
            try:
                directory.open(broker_id, cluster_id)
            except OSError as error:
                directory.fail(error)
            except LogDirectoryError:
                self.unlock()
                raise

    def load(self) -> None:
        """Open every log there is, the directories side by side."""
        tasks: list[Callable[[], _Loaded]] = []
        for directory in self.online:
            tasks += self._loading_tasks(directory)
        for number, (directory, tp, log) in enumerate(self._run_all(tasks), 1):
            if log is not None:
                self._keep(directory, tp, log)
            if number % _PROGRESS_EVERY == 0:
                _log.info("Loaded %d of %d logs", number, len(tasks))
        self._check_open_files()

    def _check_open_files(self) -> None:
        limit = self._settings.max_open_files
        needed = len(self._logs) * _FILES_PER_LOG + _FILES_FOR_OTHERS
        if limit is not None and needed > limit:
            _log.warning(
                "%d logs may need %d open files, but the hard limit is %d: raise it (ulimit -Hn, "
                "LimitNOFILE) before appends begin to fail",
                len(self._logs),
                needed,
                limit,
            )

    def _loading_tasks(self, directory: LogDirectory) -> list[Callable[[], _Loaded]]:
        try:
            names = [entry.name for entry in self._files.scan(directory.path) if entry.is_dir]
            checkpoints = directory.read_checkpoints()
        except OSError as error:
            directory.fail(error)
            return []
        partitions = list(self._partitions_in(directory, names))
        how = "after a clean stop" if directory.was_clean else "with recovery: no clean stop"
        _log.info("Loading %d logs from %s %s", len(partitions), directory.path, how)
        return [partial(self._load_log, directory, tp, checkpoints) for tp in partitions]

    def _run_all(self, tasks: Sequence[Callable[[], _Loaded]]) -> Iterator[_Loaded]:
        threads = self._settings.recovery_threads_per_directory * len(self.online)
        if threads <= 1:
            yield from (task() for task in tasks)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(lambda task: task(), tasks)

    def _partitions_in(
        self, directory: LogDirectory, names: Sequence[str]
    ) -> Iterator[TopicPartition]:
        for name in names:
            tp = parse_directory_name(name)
            if is_deleted_name(name):
                gone = DeletedPartition(0.0, directory, f"{directory.path}/{name}")
                self._deleted.append(gone)
            elif tp is None:
                _log.warning("Ignoring %s/%s: not a partition's name", directory.path, name)
            elif tp in self._homes:
                other = self._homes[tp].path
                raise LogDirectoryError(f"{tp} is in both {other} and {directory.path}")
            else:
                self._homes[tp] = directory
                yield tp

    def _load_log(
        self, directory: LogDirectory, tp: TopicPartition, checkpoints: Checkpoints
    ) -> _Loaded:
        if not directory.is_online:
            return _Loaded(directory, tp, None)
        try:
            return _Loaded(
                directory,
                tp,
                self._open_log(directory, tp, checkpoints, is_clean=directory.was_clean),
            )
        except OSError as error:
            directory.fail(error)
            return _Loaded(directory, tp, None)

    def _open_log(
        self,
        directory: LogDirectory,
        tp: TopicPartition,
        checkpoints: Checkpoints,
        *,
        is_clean: bool,
    ) -> Log:
        log = open_log(
            LogOpening(
                topic_partition=tp,
                directory=f"{directory.path}/{directory_name(tp)}",
                files=self._files,
                clock=self._clock,
                random=self._random,
                config=self._settings.config_of(tp.topic),
                producer_expiration_ms=self._settings.producer_expiration_ms,
                on_failure=directory.fail,
                is_clean=is_clean,
                recovery_point=checkpoints.recovery_points.get(tp, 0),
                log_start_offset=checkpoints.log_starts.get(tp, 0),
            )
        )
        log.update_high_watermark(checkpoints.high_watermarks.get(tp, 0))
        return log

    def _keep(self, directory: LogDirectory, tp: TopicPartition, log: Log) -> None:
        directory.logs[tp] = log
        self._logs[tp] = log
        self._homes[tp] = directory
        topic_id = read_topic_id(self._files, log.directory)
        if topic_id is not None:
            self._topic_ids[tp] = topic_id

    # Looking up -----------------------------------------------------------------------------

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def topic_id(self, tp: TopicPartition) -> bytes | None:
        """The id of the topic the log was made for, None when it does not say."""
        return self._topic_ids.get(tp)

    def directory_of(self, tp: TopicPartition) -> LogDirectory | None:
        return self._homes.get(tp)

    # Creating and deleting ------------------------------------------------------------------

    def create(
        self,
        tp: TopicPartition,
        *,
        topic_id: bytes | None = None,
        is_new: bool = True,
        preferred: LogDirectory | None = None,
    ) -> Log:
        """Make an empty log, or return the one there is.

        A partition that is not new may have its records in a directory that is offline: making
        an empty log for it would lose them.
        """
        if (log := self._logs.get(tp)) is not None:
            return log
        online = self.online
        if not online or (not is_new and len(online) < len(self.directories)):
            raise KafkaError(Errors.KAFKA_STORAGE_ERROR, f"no log directory to make {tp} in")
        home = preferred if preferred in online else None
        home = home or min(online, key=lambda directory: len(directory.logs))
        try:
            log = self._make(home, tp, topic_id)
        except OSError as error:
            home.fail(error)
            raise home.storage_error() from error
        self._keep(home, tp, log)
        return log

    def _make(self, home: LogDirectory, tp: TopicPartition, topic_id: bytes | None) -> Log:
        path = f"{home.path}/{directory_name(tp)}"
        self._files.make_dir(path)
        if topic_id is not None:
            write_topic_id(self._files, path, topic_id)
        return self._open_log(home, tp, Checkpoints({}, {}, {}), is_clean=True)

    def delete(self, tp: TopicPartition) -> None:
        """Give up a log. Its directory is renamed at once and removed later, so that the name is
        free for a new partition and nothing of the old one can be taken for it."""
        log = self._logs.pop(tp, None)
        if log is None:
            return
        home = self._homes.pop(tp)
        self._topic_ids.pop(tp, None)
        del home.logs[tp]
        log.retire(f"{tp} was deleted")
        log.segments.release()
        path = f"{home.path}/{deleted_name(tp, self._random)}"
        try:
            self._files.replace(log.directory, path)
        except OSError as error:
            home.fail(error)
            raise home.storage_error() from error
        due = self._clock.monotonic() + log.config.file_delete_delay_ms / 1000
        self._deleted.append(DeletedPartition(due, home, path))

    def take_deleted(self, now: float) -> list[DeletedPartition]:
        """Deleted partitions whose delay is over, for `remove_deleted`."""
        due = [deleted for deleted in self._deleted if deleted.due <= now]
        self._deleted = [deleted for deleted in self._deleted if deleted.due > now]
        return due

    def remove_deleted(self, deleted: Sequence[DeletedPartition]) -> None:
        """Remove directories for good. Safe in a thread; OSError is for the caller to report
        with `fail` on the loop."""
        for gone in deleted:
            self._files.sync_dir(gone.directory.path)  # the rename before the removal
            self._files.remove_tree(gone.path)

    # Closing --------------------------------------------------------------------------------

    def close(self, broker_epoch: int = -1, *, threads: int = 1) -> None:
        """Make everything durable and leave the clean markers. Blocks."""
        for directory in self.directories:
            if not directory.is_online:
                directory.unlock()
                continue
            try:
                directory.close(broker_epoch, threads=threads)
            except OSError as error:
                directory.fail(error)
            except KafkaError as error:
                _log.error("%s was not closed cleanly: %s", directory.path, error)

    def unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()
