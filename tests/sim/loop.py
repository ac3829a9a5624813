"""An event loop on virtual time that runs many processes, each of which can die or be frozen.

Time stands still while anything is ready and jumps to the next timer when nothing is. There are no
threads: what is given to an executor runs as a step of its own, a little later. So a run is decided
by its seed alone.

Whose process a step belongs to is told by its context: `LIFE` is set where a process begins, and
asyncio hands contexts on to every task, timer and callback that comes of it. A step of a dead
process never runs, as after SIGKILL; one of a frozen process waits, as under SIGSTOP.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop
from random import Random
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

# Cancelled timers are swept out when there are so many of them.
SWEEP: Final = 500
CLOSINGS: Final = 5
DISK_SECONDS: Final = (0.0001, 0.004)


class Life:
    """One process from its start to its end. `host` is the address of its machine."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.is_dead = False
        self.is_frozen = False
        self.held: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return self.name

    def context(self) -> Context:
        """A context for what the process begins with."""
        context = copy_context()
        context.run(LIFE.set, self)
        return context


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class Stuck(Exception):
    """Nothing is ready and no timer is set: everyone waits for someone else."""


class Connector(Protocol):
    async def connect(
        self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> asyncio.Transport: ...


class SimLoop(asyncio.BaseEventLoop):
    """`on_step` is called after each step of a process; `on_failure` when one failed unseen."""

    network: Connector

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 0.0
        self._readers: dict[int, asyncio.Handle] = {}
        self._readable: Callable[[int], bool] = lambda _: False
        self.on_step: Callable[[Life], None] = lambda _: None
        self.on_failure: Callable[[str], None] = lambda _: None
        self.steps = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_finished = False
        self.set_exception_handler(self._report)

    # Time -----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        """What the loop's base calls for ever; replaces its waiting by a jump."""
        ready, timers = self._ready, self._scheduled
        if not ready:
            while timers and timers[0]._cancelled:
                heappop(timers)._scheduled = False
            if not timers:
                raise Stuck
            self._now = max(self._now, timers[0]._when)
        while timers and timers[0]._when <= self._now:
            timer = heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                self._step(handle)
        if self._timer_cancelled_count > SWEEP:
            self._timer_cancelled_count = 0
            timers[:] = [timer for timer in timers if not timer._cancelled]
            heapify(timers)

    def _step(self, handle: asyncio.Handle) -> None:
        life = handle._context.get(LIFE)
        if life is None:
            handle._run()
        elif life.is_frozen and not life.is_dead:
            life.held.append(handle)
        elif not life.is_dead:
            self.steps += 1
            handle._run()
            self.on_step(life)

    def thaw(self, life: Life) -> None:
        """Let a frozen process go on with what waited, before what has come since."""
        life.is_frozen = False
        held, life.held = life.held, []
        self._ready.extendleft(reversed(held))

    def _process_events(self, events: object) -> None:
        """There are none but ours."""

    def _write_to_self(self) -> None:
        """Nobody waits in a system call that would have to be woken."""

    def _report(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._is_finished:
            self.on_failure(f"{context.get('message')}: {context.get('exception')!r}")

    # Processes ------------------------------------------------------------------------------

    def spawn(self, life: Life, main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.create_task(main, name=life.name, context=life.context())

    def create_task(self, *args: Any, **options: Any) -> "asyncio.Task[Any]":
        """Tasks are kept: those of a dead process must not be closed, and so run on, by garbage
        collection in the middle of the story."""
        task: asyncio.Task[Any] = super().create_task(*args, **options)
        self._tasks.append(task)
        if len(self._tasks) > SWEEP:
            self._tasks = [task for task in self._tasks if not task.done()]
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, work: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        done: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(work(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_later(self._random.uniform(*DISK_SECONDS), run)
        return done

    def finish(self) -> None:
        """Let go of all that waits, so that nothing of this run is left for the next."""
        self._is_finished = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Whatever a coroutine says to being closed in the middle is of no interest any more;
            # one that waits for something before it ends is asked again.
            for _ in range(CLOSINGS):
                with contextlib.suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()
        self._readers.clear()
        self.close()

    # Sockets --------------------------------------------------------------------------------

    def watch_sockets(self, is_readable: Callable[[int], bool]) -> None:
        self._readable = is_readable

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        self._readers[fd] = asyncio.Handle(callback, args, self, copy_context())
        self.poke(fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def poke(self, fd: int) -> None:
        """Something may have come for a socket."""
        reader = self._readers.get(fd)
        if reader is not None and self._readable(fd):
            self.call_soon(self._read, fd, reader, context=reader._context)

    def _read(self, fd: int, reader: asyncio.Handle) -> None:
        # As with a selector, told again for as long as there is something to read.
        if self._readers.get(fd) is reader and self._readable(fd):
            reader._callback(*reader._args)  # type: ignore[misc]
            self.poke(fd)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        *,
        ssl: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, None]:
        assert ssl is None, "the simulated network is plain"
        return await self.network.connect(protocol_factory, host, port), None
