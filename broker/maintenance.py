"""What a broker does for its logs besides serving: retention, flushes, checkpoints, removals.

Each chore runs at its own interval in one task. Decisions and renames happen on the event loop,
a few logs a turn; whatever waits for the disk runs in threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final

from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.flushing import Flusher
from odradek.protocol.clock import Clock
from odradek.protocol.errors import KafkaError
from odradek.protocol.settings import MAX_LONG
from odradek.storage.directory import LogDirectory
from odradek.storage.log import Log
from odradek.storage.logs import Logs

_log = logging.getLogger(__name__)

LOGS_A_TURN: Final = 50
FLUSH_CHECK_SECONDS: Final = 1.0
REMOVAL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Chore:
    """`seconds` is asked before each round, so that a changed setting counts from then on.
    The first round may come sooner."""

    name: str
    seconds: Callable[[], float]
    run: Callable[[], Awaitable[None]]
    first_seconds: float = float("inf")


class Maintenance:
    def __init__(
        self,
        *,
        logs: Logs,
        configs: DynamicConfigs,
        flusher: Flusher,
        clock: Clock,
        threads: Executor,
    ) -> None:
        self._logs = logs
        self._configs = configs
        self._flusher = flusher
        self._clock = clock
        self._threads = threads
        self._tasks: list[asyncio.Task[None]] = []
        self._at_work: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._repeat(chore)) for chore in self._chores()]

    async def stop(self) -> None:
        """Returns when no thread is left at work: what it wrote late would be out of date."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*self._at_work, return_exceptions=True)

    def _chores(self) -> Iterator[Chore]:
        def every(setting: str) -> Callable[[], float]:
            return lambda: getattr(self._configs.broker, setting) / 1000

        yield Chore(
            "retention",
            every("log_retention_check_interval_ms"),
            self.apply_retention,
            first_seconds=self._configs.broker.log_initial_task_delay_ms / 1000,
        )
        yield Chore("flush", lambda: FLUSH_CHECK_SECONDS, self.flush_due)
        yield Chore("removal", lambda: REMOVAL_SECONDS, self.remove_due)
        yield Chore(
            "high watermark checkpoint",
            every("replica_high_watermark_checkpoint_interval_ms"),
            self.checkpoint_high_watermarks,
        )
        yield Chore("checkpoint", every("log_flush_offset_checkpoint_interval_ms"), self.checkpoint)
        yield Chore(
            "producer expiry",
            every("producer_id_expiration_check_interval_ms"),
            self.expire_producers,
        )

    async def _repeat(self, chore: Chore) -> None:
        wait = min(chore.seconds(), chore.first_seconds)
        while True:
            await asyncio.sleep(min(wait, MAX_LONG / 1e9))
            try:
                await chore.run()
            except Exception:
                _log.exception("The chore %r failed; it is tried again in time", chore.name)
            wait = chore.seconds()

    def _each_log(self) -> list[Log]:
        """All logs that work."""
        return [log for log in self._logs if log.failure is None]

    # Chores ---------------------------------------------------------------------------------

    async def apply_retention(self) -> None:
        for number, log in enumerate(self._each_log()):
            if number % LOGS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                deletions = log.apply_retention()
            except KafkaError:
                continue  # the directory went offline and said so
            for deletion in deletions:
                _log.info(
                    "Deleted segment %d of %s: %s",
                    deletion.base_offset,
                    log.topic_partition,
                    deletion.reason,
                )

    async def flush_due(self) -> None:
        now_ms = self._clock.now_ms()
        for log in self._each_log():
            if log.is_flush_due(now_ms):
                await self._flusher.flush_quietly(log)

    async def remove_due(self) -> None:
        """Remove the files of segments and partitions that were deleted a while ago."""
        now = self._clock.monotonic()
        for log in self._each_log():
            segments = log.segments.take_removals(now)
            if segments:
                home = self._logs.directory_of(log.topic_partition)
                await self._in_thread(home, partial(log.segments.remove_files, segments))
        for deleted in self._logs.take_deleted(now):
            await self._in_thread(deleted.directory, partial(self._logs.remove_deleted, [deleted]))

    async def checkpoint_high_watermarks(self) -> None:
        for directory in self._logs.online:
            state = directory.checkpoints()
            await self._in_thread(directory, partial(directory.write_high_watermarks, state))

    async def checkpoint(self) -> None:
        for directory in self._logs.online:
            state = directory.checkpoints()
            await self._in_thread(directory, partial(directory.write_checkpoints, state))

    async def expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for number, log in enumerate(self._each_log()):
            log.producers.expire(now_ms)
            if number % LOGS_A_TURN == 0:
                await asyncio.sleep(0)

    async def _in_thread(self, directory: LogDirectory | None, work: Callable[[], None]) -> None:
        """Do disk work; an error takes its directory offline."""
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._at_work.add(done)
        done.add_done_callback(self._at_work.discard)
        try:
            await asyncio.shield(done)
        except OSError as error:
            if directory is not None:
                directory.fail(error)
