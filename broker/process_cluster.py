"""`odradek cluster --zookeeper`: each broker a process of its own, watched over by this one.

Brokers are started as `odradek serve` and stopped when this process is told to stop: all at once,
since nobody stays to be handed over to. One that ends by itself, or is killed by hand, is reported
and left alone; the others go on, as they would on hosts of their own.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odradek.broker.failures import CannotStart
from odradek.broker.process import log, on_signals, run_loop
from odradek.broker.zookeeper_process import ZooKeeperProcess, find_jars

LOCAL: Final = "local"
READY: Final = "Odradek ready on "
READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
_PROGRAM: Final = (sys.executable, "-c", "from odradek.broker.main import main; main()")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: for each broker the options of `odradek serve`, without zookeeper.connect."""

    brokers: Sequence[Sequence[str]]
    zookeeper: str
    directory: Path


# Called with the addresses, the brokers' process ids and that of ZooKeeper, if it is ours.
Announce = Callable[[Sequence[str], Sequence[int], int | None], None]


def run_processes(plan: Plan, announce: Announce) -> None:
    """Until a signal comes. Raises CannotStart, with everything stopped."""
    run_loop(_serve(plan, announce))


async def _serve(plan: Plan, announce: Announce) -> None:
    stop = on_signals(asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        connect, zookeeper_pid = plan.zookeeper, None
        if plan.zookeeper == LOCAL:
            zookeeper = ZooKeeperProcess(plan.directory / "zookeeper", find_jars(os.environ))
            stack.push_async_callback(zookeeper.stop)
            await zookeeper.start()
            connect, zookeeper_pid = zookeeper.connect, zookeeper.pid
        brokers: list[BrokerProcess] = []
        stack.push_async_callback(_stop_all, brokers)
        for options in plan.brokers:
            brokers.append(BrokerProcess([*options, "-o", f"zookeeper.connect={connect}"]))
            await brokers[-1].launch()
        addresses = await asyncio.gather(*(broker.until_ready() for broker in brokers))
        announce(addresses, [broker.pid for broker in brokers], zookeeper_pid)
        await stop.wait()
        log.info("stopping")


async def _stop_all(brokers: "list[BrokerProcess]") -> None:
    await asyncio.gather(*(broker.stop() for broker in brokers))


class BrokerProcess:
    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._is_stopping = False

    @property
    def pid(self) -> int:
        assert self._process is not None, "launched first"
        return self._process.pid

    async def launch(self) -> None:
        # In a session of its own: Ctrl-C is for this process, which passes it on once.
        self._process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            "serve",
            *self._options,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def until_ready(self) -> str:
        try:
            return await asyncio.wait_for(asyncio.shield(self._ready), READY_SECONDS)
        except TimeoutError:
            raise CannotStart(f"Broker {self.pid} was not ready in time.") from None

    async def stop(self) -> None:
        process = self._process
        if process is None or self._reader is None:
            return
        self._is_stopping = True
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
        await self._reader

    async def _read(self) -> None:
        """Wait for the line that says where it serves; afterwards, for its end."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            text = line.decode(errors="replace").rstrip()
            if text.startswith(READY) and not self._ready.done():
                self._ready.set_result(text.removeprefix(READY))
        status = await self._process.wait()
        if not self._ready.done():
            self._ready.set_exception(CannotStart(f"Broker {self.pid} ended with {status}."))
            self._ready.exception()
        elif not self._is_stopping:
            log.warning("The broker with process id %d ended with %d", self.pid, status)
