"""All logs of a broker, over one or more log directories.

Directories are used side by side: a new partition goes to the one with the fewest logs. When one
fails, its logs answer KAFKA_STORAGE_ERROR and the others go on; `on_offline` is told, and asks
`online` whether any directory is left.

A log moves to another directory as a copy, its *future*, which is made and caught up by others
and takes its place in one step (`take_over`).

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
from odradek.storage.found_logs import FoundLog, survey
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.log_seal import is_sealed
from odradek.storage.partition_names import deleted_name, directory_name, future_name
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


class Future(NamedTuple):
    """A copy of a log that is to take its place."""

    directory: LogDirectory
    log: Log


class _Loaded(NamedTuple):
    directory: LogDirectory
    found: FoundLog
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
        self.futures: dict[TopicPartition, Future] = {}
        # Where a partition shall be made that is not here yet.
        self.wishes: dict[TopicPartition, LogDirectory] = {}
        # Logs whose futures took over: their directories still have their names.
        self._left_behind: dict[TopicPartition, Future] = {}

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
        tasks = self._loading_tasks()
        for number, (directory, found, log) in enumerate(self._run_all(tasks), 1):
            if log is not None and found.name == directory_name(found.partition):
                self._keep(directory, found.partition, log)
            elif log is not None:
                self._keep_future(directory, found.partition, log)
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

    def _loading_tasks(self) -> list[Callable[[], _Loaded]]:
        names: dict[str, list[str]] = {}
        checkpoints: dict[str, Checkpoints] = {}
        homes = {directory.path: directory for directory in self.online}
        for path, directory in homes.items():
            try:
                names[path] = [entry.name for entry in self._files.scan(path) if entry.is_dir]
                checkpoints[path] = directory.read_checkpoints()
            except OSError as error:
                names.pop(path, None)
                directory.fail(error)
        found = survey(names, partial(is_sealed, self._files))
        for path, gone in found.deleted:
            self._deleted.append(DeletedPartition(0.0, homes[path], gone))
        for left in found.left_behind:
            self._discard(homes[left.home], left.partition, left.path)
        self._homes.update((tp, homes[log.home]) for tp, log in found.logs.items())
        logs = [*found.logs.values(), *found.futures.values()]
        for path in names:
            directory = homes[path]
            how = "after a clean stop" if directory.was_clean else "with recovery: no clean stop"
            count = sum(log.home == path for log in logs)
            _log.info("Loading %d logs from %s %s", count, path, how)
        return [partial(self._load_log, homes[f.home], f, checkpoints[f.home]) for f in logs]

    def _run_all(self, tasks: Sequence[Callable[[], _Loaded]]) -> Iterator[_Loaded]:
        threads = self._settings.recovery_threads_per_directory * len(self.online)
        if threads <= 1:
            yield from (task() for task in tasks)
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(lambda task: task(), tasks)

    def _load_log(
        self, directory: LogDirectory, found: FoundLog, checkpoints: Checkpoints
    ) -> _Loaded:
        if not directory.is_online:
            return _Loaded(directory, found, None)
        try:
            log = self._open_log(directory, found, checkpoints, is_clean=directory.was_clean)
        except OSError as error:
            directory.fail(error)
            return _Loaded(directory, found, None)
        return _Loaded(directory, found, log)

    def _open_log(
        self, directory: LogDirectory, found: FoundLog, checkpoints: Checkpoints, *, is_clean: bool
    ) -> Log:
        tp = found.partition
        log = open_log(
            LogOpening(
                topic_partition=tp,
                directory=found.path,
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

    def _keep_future(self, directory: LogDirectory, tp: TopicPartition, log: Log) -> None:
        directory.futures[tp] = log
        self.futures[tp] = Future(directory, log)

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
    ) -> Log:
        """Make an empty log, or return the one there is; where `wishes` say, if that is possible.

        A partition that is not new may have its records in a directory that is offline: making
        an empty log for it would lose them.
        """
        if (log := self._logs.get(tp)) is not None:
            return log
        online = self.online
        if not online or (not is_new and len(online) < len(self.directories)):
            raise KafkaError(Errors.KAFKA_STORAGE_ERROR, f"no log directory to make {tp} in")
        wished = self.wishes.pop(tp, None)
        home = wished if wished is not None and wished.is_online else None
        home = home or min(online, key=lambda directory: len(directory.logs))
        log = self._make(home, FoundLog(tp, home.path, directory_name(tp)), topic_id)
        self._keep(home, tp, log)
        return log

    def _make(self, home: LogDirectory, place: FoundLog, topic_id: bytes | None) -> Log:
        try:
            self._files.make_dir(place.path)
            if topic_id is not None:
                write_topic_id(self._files, place.path, topic_id)
            return self._open_log(home, place, Checkpoints({}, {}, {}), is_clean=True)
        except OSError as error:
            home.fail(error)
            raise home.storage_error() from error

    def delete(self, tp: TopicPartition) -> None:
        """Give up a log. Its directory is renamed at once and removed later, so that the name is
        free for a new partition and nothing of the old one can be taken for it."""
        self.drop_future(tp)
        self.discard_left_behind(tp)
        log = self._logs.pop(tp, None)
        if log is None:
            return
        home = self._homes.pop(tp)
        self._topic_ids.pop(tp, None)
        del home.logs[tp]
        self._give_up(home, log, f"{tp} was deleted")
        if not home.is_online:
            raise home.storage_error()

    def _give_up(self, home: LogDirectory, log: Log, reason: str) -> None:
        log.retire(reason)
        log.segments.release()
        self._discard(home, log.topic_partition, log.directory, log.config.file_delete_delay_ms)

    def _discard(
        self, home: LogDirectory, tp: TopicPartition, path: str, delay_ms: int = 0
    ) -> None:
        gone = f"{home.path}/{deleted_name(tp, self._random)}"
        try:
            self._files.replace(path, gone)
        except OSError as error:
            home.fail(error)
            return
        due = self._clock.monotonic() + delay_ms / 1000
        self._deleted.append(DeletedPartition(due, home, gone))

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

    # Moving to another directory ------------------------------------------------------------

    def create_future(self, tp: TopicPartition, home: LogDirectory) -> Log:
        """Begin an empty copy of a log in another directory."""
        name = future_name(tp, self._random)
        if name is None:
            raise KafkaError(Errors.KAFKA_STORAGE_ERROR, f"the name of {tp} is too long to move it")
        log = self._make(home, FoundLog(tp, home.path, name), self._topic_ids.get(tp))
        self._keep_future(home, tp, log)
        return log

    def drop_future(self, tp: TopicPartition) -> None:
        """Give up a copy; fine when there is none."""
        future = self.futures.pop(tp, None)
        if future is not None:
            del future.directory.futures[tp]
            self._give_up(future.directory, future.log, f"{tp} does not move any more")

    def take_over(self, tp: TopicPartition) -> Log:
        """Let the copy, which has all that the log has and is sealed, be the log.

        The old directory keeps its name until `discard_left_behind`: should the new name be lost
        in a power cut, it is the log.
        """
        old, future = self._homes[tp], self.futures[tp]
        before, log = self._logs[tp], future.log
        try:
            log.epochs.adopt(before.epochs.entries)
            _rename(self._files, log, f"{future.directory.path}/{directory_name(tp)}")
        except OSError as error:
            future.directory.fail(error)
            raise future.directory.storage_error() from error
        log.use_config(before.config)
        log.update_high_watermark(before.high_watermark)
        del self.futures[tp], future.directory.futures[tp], old.logs[tp]
        future.directory.logs[tp] = self._logs[tp] = log
        self._homes[tp] = future.directory
        self._left_behind[tp] = Future(old, before)
        before.retire(f"{tp} has moved to {future.directory.path}")
        before.segments.release()
        return log

    def discard_left_behind(self, tp: TopicPartition) -> LogDirectory | None:
        """Give up what a log has moved away from, once its new name is durable; says where."""
        left = self._left_behind.pop(tp, None)
        if left is None:
            return None
        self._give_up(left.directory, left.log, f"{tp} has moved away")
        return left.directory

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


def _rename(files: Files, log: Log, directory: str) -> None:
    """Give a log's directory another name while the log is in use."""
    files.replace(log.directory, directory)
    log.directory = directory
    log.is_name_synced = False
    log.segments.moved_to(directory)
    log.epochs.moved_to(directory)
    log.producers.snapshots.moved_to(directory)
