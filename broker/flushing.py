"""Making logs durable from the event loop: fsync runs in threads, one flush a log at a time.

A flush that fails takes the log's directory offline: nobody knows then what is on the disk.
"""

import asyncio
from concurrent.futures import Executor

from odradek.protocol.errors import KafkaError
from odradek.storage.log import Log


class Flusher:
    """One owner: the event loop."""

    def __init__(self, *, threads: Executor) -> None:
        self._threads = threads
        self._under_way: dict[Log, asyncio.Task[None]] = {}

    async def flush(self, log: Log) -> None:
        """Return when everything appended before the call is on disk. Raises KafkaError."""
        wanted = log.log_end_offset
        while log.recovery_point < wanted:
            await asyncio.shield(self._begin(log))
            if log.log_end_offset < wanted:
                return  # cut meanwhile; what was cut needs no disk

    def _begin(self, log: Log) -> asyncio.Task[None]:
        """Join the flush that runs, or start one."""
        task = self._under_way.get(log)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._run(log))
            self._under_way[log] = task
            task.add_done_callback(lambda _: self._under_way.pop(log))
        return task

    async def _run(self, log: Log) -> None:
        flush = log.begin_flush()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads, flush.run)
        except OSError as error:
            log.fail(error)
            raise log.storage_error() from error
        log.finish_flush(flush)

    async def flush_quietly(self, log: Log) -> None:
        """For the background: a failure has been reported where the directory went offline."""
        try:
            await self.flush(log)
        except KafkaError:
            return
