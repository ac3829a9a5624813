"""What runs in the background for the logs of a broker, put together: one start, one stop."""

from concurrent.futures import Executor

from odradek.broker.cleaner import Cleaner
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.flushing import Flusher
from odradek.broker.maintenance import Maintenance
from odradek.broker.replica_moves import ReplicaMoves
from odradek.protocol.clock import Clock
from odradek.replication.replicas import Replicas
from odradek.storage.files import Files
from odradek.storage.logs import Logs


class Chores:
    def __init__(
        self,
        configs: DynamicConfigs,
        *,
        logs: Logs,
        replicas: Replicas,
        files: Files,
        clock: Clock,
        threads: Executor,
    ) -> None:
        self.flusher = Flusher(threads=threads)
        self.moves = ReplicaMoves(
            lambda: configs.broker,
            logs=logs,
            replicas=replicas,
            flusher=self.flusher,
            files=files,
            clock=clock,
            threads=threads,
        )
        self._maintenance = Maintenance(
            logs=logs, configs=configs, flusher=self.flusher, clock=clock, threads=threads
        )
        self._cleaner = Cleaner(
            logs=logs, configs=configs, files=files, clock=clock, threads=threads
        )

    def start(self) -> None:
        self._maintenance.start()
        self._cleaner.start()
        self.moves.start()

    async def stop(self) -> None:
        await self.moves.stop()
        await self._cleaner.stop()
        await self._maintenance.stop()
