"""Compaction in the background: the dirtiest log first, the work in another process.

The event loop surveys logs, prepares a job and swaps the result in; reading, deduplicating and
writing happens in a worker process, so that a large log costs nobody its turn. How far each log
is clean is kept in `cleaner-offset-checkpoint`.
"""

import asyncio
import logging
import os
from concurrent.futures import BrokenExecutor, Executor
from threading import Thread

from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.protocol.clock import Clock
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoints import CLEANER_OFFSETS, read_offsets, write_offsets
from odradek.storage.cleaning import prepare, survey, swap_in
from odradek.storage.compaction import clean_segments
from odradek.storage.compaction_plan import Cleanable, dirtiest
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.log import Log
from odradek.storage.logs import Logs

_log = logging.getLogger(__name__)


class Cleaner:
    """One owner: the event loop. One log is cleaned at a time."""

    def __init__(
        self, *, logs: Logs, configs: DynamicConfigs, files: Files, clock: Clock, threads: Executor
    ) -> None:
        self._logs = logs
        self._configs = configs
        self._files = files
        self._clock = clock
        self._threads = threads
        self._worker: Executor | None = None
        self._cleaned_to: dict[TopicPartition, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        for directory in self._logs.online:
            path = f"{directory.path}/{CLEANER_OFFSETS}"
            self._cleaned_to.update(read_offsets(self._files, path).offsets)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._end_worker()

    async def _run(self) -> None:
        while True:
            config = self._configs.broker
            is_cleaned = False
            if config.log_cleaner_enable:
                try:
                    is_cleaned = await self.clean_dirtiest()
                except Exception:
                    _log.exception("Compaction failed; it is tried again in time")
            if not is_cleaned:
                self._end_worker()
                await asyncio.sleep(config.log_cleaner_backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean one log; False when none needs it."""
        now_ms = self._clock.now_ms()
        surveyed: dict[TopicPartition, Log] = {}
        candidates = []
        for log in self._logs:
            where = log.topic_partition
            # One that moves is left alone: what its copy has already would not be cleaned.
            is_idle = log.failure is None and where not in self._logs.futures
            if is_idle and log.config.is_compacted:
                surveyed[where] = log
                candidates.append((survey(log, self._cleaned_to.get(where), now_ms), log.config))
        dirty = dirtiest(candidates)
        if dirty is None:
            return False
        await self._clean(surveyed[dirty.topic_partition], dirty, now_ms)
        return True

    async def _clean(self, log: Log, dirty: Cleanable, now_ms: int) -> None:
        where = log.topic_partition
        config = self._configs.broker
        job = prepare(log, dirty, now_ms=now_ms, map_bytes=config.log_cleaner_dedupe_buffer_size)
        loop = asyncio.get_running_loop()
        try:
            cleaned = await loop.run_in_executor(self._pool(), clean_segments, job)
        except BrokenExecutor:
            _log.error("The worker that compacted %s ended early; it is tried again", where)
            self._end_worker()
            return
        except OSError as error:
            log.fail(error)
            return
        if self._logs.get(where) is not log or where in self._logs.futures:
            return  # deleted meanwhile, or on its way to another directory
        try:
            self._cleaned_to[where] = swap_in(log, job, cleaned, files=self._files)
        except KafkaError:
            return  # the directory went offline and said so
        _log.info("Compacted %s up to offset %d", where, self._cleaned_to[where])
        home = self._logs.directory_of(where)
        if home is not None:
            await self._checkpoint(home, log.directory)

    async def _checkpoint(self, home: LogDirectory, cleaned: str) -> None:
        offsets = {tp: end for tp, end in self._cleaned_to.items() if tp in home.logs}
        path = f"{home.path}/{CLEANER_OFFSETS}"

        def write() -> None:
            # The swap first: a checkpoint that survives a power cut alone would skip records.
            self._files.sync_dir(cleaned)
            write_offsets(self._files, path, offsets)

        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, write)
        except OSError as error:
            home.fail(error)

    def _pool(self) -> Executor:
        if self._worker is None:
            # Not for the start: many brokers compact nothing.
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            # Forking a process with threads and an event loop is asking for trouble.
            self._worker = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_end_with_the_broker
            )
        return self._worker

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None


def _end_with_the_broker() -> None:
    """For the worker: when its broker is killed, nobody may go on writing to the broker's logs,
    which the next broker has for itself."""
    from multiprocessing import parent_process

    broker = parent_process()
    assert broker is not None, "this is a worker"

    def exit_after_it() -> None:
        broker.join()
        os._exit(1)

    Thread(target=exit_after_it, daemon=True).start()
