"""Moves of replicas between this broker's log directories (KIP-113), in the background.

A copy of the log is made in the other directory and follows the log; when it has everything and
that is on disk, it becomes the log within one turn of the event loop, so that nobody sees a
difference:

    copy       slice by slice: read in a thread, appended here; until nothing is missing
    seal       in a thread: what was copied is synced, and the copy is marked as finished
    take over  the last records are copied, the copy gets the log's name and place
    clean up   in a thread: the new name is made durable, then the old directory goes

A crash before the third step leaves the log as it was and a copy that goes on after the start; a
crash behind it leaves two directories, of which the sealed one is the log (`storage.log_seal`).
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, TypeVar

from odradek.broker.config import BrokerConfig
from odradek.broker.flushing import Flusher
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.settings import MAX_LONG
from odradek.protocol.types import TopicPartition
from odradek.replication.log_copy import LogCopy
from odradek.replication.replicas import Replicas
from odradek.replication.throttle import ByteRate, Windows
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.log_seal import break_seal, seal
from odradek.storage.logs import Logs

_log = logging.getLogger(__name__)

R = TypeVar("R")

SLICE_BYTES: Final = 256 * 1024
# What may be copied within the turn of the loop in which a copy takes over.
LAST_BYTES: Final = 1024 * 1024
THROTTLE_SECONDS: Final = 0.1


class ReplicaMoves:
    """One owner: the event loop."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        logs: Logs,
        replicas: Replicas,
        flusher: Flusher,
        files: Files,
        clock: Clock,
        threads: Executor,
    ) -> None:
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._flusher = flusher
        self._files = files
        self._threads = threads
        now = config()
        self._at_once = asyncio.Semaphore(
            now.num_replica_alter_log_dirs_threads or len(logs.directories)
        )
        self._rate = ByteRate(
            clock,
            Windows(
                now.alter_log_dirs_replication_quota_window_num,
                now.alter_log_dirs_replication_quota_window_size_seconds,
            ),
        )
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._at_work: set[asyncio.Future[Any]] = set()

    def __len__(self) -> int:
        """How many moves are under way."""
        return len(self._tasks)

    # Orders ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Go on with the moves that the last stop interrupted."""
        for where in self._logs.futures:
            if self._logs.get(where) is not None:
                self._begin(where)

    async def stop(self) -> None:
        """Returns when no thread is left at work."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._at_work, return_exceptions=True)

    def move(self, where: TopicPartition, path: str) -> None:
        """Have a replica moved to the log directory at `path`. Raises KafkaError.

        A replica that is not here will be made there. A move to another directory than the one
        under way ends that one, and a move to where the replica is means only that.
        """
        wanted = self._directory_at(path)
        partition, log = self._replicas.find(where), self._logs.get(where)
        if log is not None and log.failure is not None:
            raise log.storage_error()
        future = self._logs.futures.get(where)
        if future is not None and future.directory is not wanted:
            self._end(where)
            future = None
        if partition is None or log is None:
            raise self._not_here(where, wanted)
        if future is None and self._logs.directory_of(where) is not wanted:
            self._logs.create_future(where, wanted)
            _log.info("%s moves from %s to %s", where, log.directory, wanted.path)
            self._begin(where)

    def _directory_at(self, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            if directory.path == path:
                if not directory.is_online:
                    raise directory.storage_error()
                return directory
        raise KafkaError(Errors.LOG_DIR_NOT_FOUND, f"{path} is none of this broker's directories")

    def _not_here(self, where: TopicPartition, wanted: LogDirectory) -> KafkaError:
        try:
            self._replicas.hosted(where)
        except KafkaError as error:
            if error.error is not Errors.NOT_LEADER_OR_FOLLOWER:
                return error
        if self._logs.get(where) is None:
            self._logs.wishes[where] = wanted
        return KafkaError(Errors.REPLICA_NOT_AVAILABLE, f"{where} is not hosted here")

    def _end(self, where: TopicPartition) -> None:
        if (task := self._tasks.get(where)) is not None:
            task.cancel()
        self._logs.drop_future(where)

    # Moving ---------------------------------------------------------------------------------

    def _begin(self, where: TopicPartition) -> None:
        before = self._tasks.get(where)
        task = asyncio.get_running_loop().create_task(self._run(where, before))
        self._tasks[where] = task
        task.add_done_callback(partial(self._ended, where))

    def _ended(self, where: TopicPartition, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(where) is task:
            del self._tasks[where]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("The move of %s has failed", where, exc_info=error)

    async def _run(self, where: TopicPartition, before: "asyncio.Task[None] | None") -> None:
        """One move of a partition after the other: the last one may still be cleaning up."""
        if before is not None:
            await asyncio.wait([before])
        async with self._at_once:
            try:
                await self._move(where)
            except KafkaError as error:
                # A directory that failed said so; what cannot be read stays where it is.
                _log.error("%s does not move: %s", where, error)

    async def _move(self, where: TopicPartition) -> None:
        log, future = self._logs.get(where), self._logs.futures.get(where)
        if log is None or future is None:
            return
        copy = LogCopy(log, future.log)
        while self._is_wanted(where, copy):
            await self._catch_up(where, copy)
            await self._flusher.flush(copy.copy)
            await self._seal(copy, future.directory)
            if self._is_wanted(where, copy) and self._take_over(where, copy):
                await self._clean_up(where, future.directory)
                return

    def _is_wanted(self, where: TopicPartition, copy: LogCopy) -> bool:
        """Whether neither log nor copy was deleted or replaced meanwhile."""
        future = self._logs.futures.get(where)
        return self._logs.get(where) is copy.log and future is not None and future.log is copy.copy

    async def _catch_up(self, where: TopicPartition, copy: LogCopy) -> None:
        while self._is_wanted(where, copy):
            if self._rate.per_second() > self._limit():
                await asyncio.sleep(THROTTLE_SECONDS)
                continue
            records = copy.next_slice(SLICE_BYTES)
            if records is None:
                return
            try:
                data = await self._in_thread(records.read)
            except OSError as error:
                copy.log.fail(error)
                raise copy.log.storage_error() from error
            self._rate.note(len(data))
            if self._is_wanted(where, copy):
                copy.add(data)

    def _limit(self) -> float:
        limit = self._config().replica_alter_log_dirs_io_max_bytes_per_second
        return limit if limit < MAX_LONG else float("inf")

    async def _seal(self, copy: LogCopy, home: LogDirectory) -> None:
        def work() -> None:
            # An older seal would stand against the new one.
            break_seal(self._files, copy.log.directory)
            seal(self._files, copy.copy.directory)

        try:
            await self._in_thread(work)
        except FileNotFoundError:
            return  # deleted meanwhile
        except OSError as error:
            home.fail(error)
            raise home.storage_error() from error

    def _take_over(self, where: TopicPartition, copy: LogCopy) -> bool:
        """Within this turn of the loop, if little is missing; False when it has to be later."""
        log, left = copy.log, LAST_BYTES
        while (records := copy.next_slice(SLICE_BYTES)) is not None:
            data = records.read_cached()
            left -= len(records)
            if data is None or left < 0:
                return False
            copy.add(data)
        # What was on disk has to be on disk; and nobody may be waiting for the old log's disk.
        synced = log.log_end_offset if log.flushes_appends else log.recovery_point
        if copy.copy.recovery_point < synced or log.recovery_point < synced:
            return False
        moved = self._logs.take_over(where)
        partition = self._replicas.find(where)
        if partition is not None:
            partition.log = moved
        _log.info("%s has moved to %s", where, moved.directory)
        return True

    async def _clean_up(self, where: TopicPartition, home: LogDirectory) -> None:
        await self._on_disk(home, partial(self._files.sync_dir, home.path))
        if not home.is_online:
            return
        left = self._logs.discard_left_behind(where)
        for directory in {home, left} - {None}:
            assert directory is not None
            # An old row would vouch for offsets of a copy that may come here one day.
            state = directory.checkpoints()
            await self._on_disk(directory, partial(directory.write_checkpoints, state))
        moved = self._logs.get(where)
        if left is not None and left.is_online and moved is not None:
            await self._on_disk(left, partial(self._files.sync_dir, left.path))
            await self._on_disk(home, partial(break_seal, self._files, moved.directory))

    async def _on_disk(self, directory: LogDirectory, work: Callable[[], None]) -> None:
        try:
            await self._in_thread(work)
        except OSError as error:
            directory.fail(error)

    async def _in_thread(self, work: Callable[[], R]) -> R:
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._at_work.add(done)
        done.add_done_callback(self._at_work.discard)
        return await asyncio.shield(done)
