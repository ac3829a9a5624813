"""Which connections have sent something: asked of the kernel, and told to them.

`Readers` is what a connection needs of this. `LoopReaders` leaves it to the event loop, which tells
one connection after the other. `Readiness` has an epoll of its own, of which the loop only learns
that something is in it. That is cheaper the more connections speak at once:

- what the loop does for an event, and for a turn, is done once for several connections;
- what came together is begun before the first answer is sent: a client that waits for the first of
  several answers is woken once, and finds the others there.

Who speaks alone is answered at once. How many are taken together is bounded, as the answer of the
first waits for the last; so is how many are taken in a turn of the loop, for timers and threads.

Hot code. Measured by `benchmarks.builds growth`, five requests at once, each on a connection of its
own of 1,000: 30.2 µs became 26.8; on one connection 19.7 became 20.3.
"""

import asyncio
import select
from typing import Final, Protocol

from odradek.broker.network.busy_poll import BusyPoll

_TOGETHER: Final = 8
_GROUPS_A_TURN: Final = 8


class Receiver(Protocol):
    """A connection, as it is told that bytes came."""

    def on_readable(self) -> None:
        """Receive, begin what can begin, answer."""
        ...

    def begin(self) -> bool:
        """The same without answering; whether `answer` is to follow."""
        ...

    def answer(self) -> None: ...


class Readers(Protocol):
    def add(self, fd: int, receiver: Receiver) -> None:
        """Tell it when bytes came, until it is removed."""
        ...

    def remove(self, fd: int) -> None:
        """To be called before the socket is closed."""
        ...


class LoopReaders:
    """For any loop, also a simulated one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def add(self, fd: int, receiver: Receiver) -> None:
        self._loop.add_reader(fd, receiver.on_readable)

    def remove(self, fd: int) -> None:
        self._loop.remove_reader(fd)


class Readiness:
    """For a process that is a broker. `busy_poll` is told of every time that something came."""

    def __init__(self, loop: asyncio.AbstractEventLoop, busy_poll: BusyPoll | None = None) -> None:
        self._loop = loop
        self._busy_poll = busy_poll
        self._receivers: dict[int, Receiver] = {}
        self._epoll = select.epoll()
        self._poll = self._epoll.poll
        loop.add_reader(self._epoll.fileno(), self._on_ready)

    def add(self, fd: int, receiver: Receiver) -> None:
        self._receivers[fd] = receiver
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        del self._receivers[fd]
        self._epoll.unregister(fd)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _on_ready(self) -> None:
        for _ in range(_GROUPS_A_TURN):
            ready = self._poll(0, _TOGETHER)
            if len(ready) == 1:
                self._receivers[ready[0][0]].on_readable()
                break
            if not ready:
                break
            self._serve_together(ready)
        if self._busy_poll is not None:
            self._busy_poll.heard()

    def _serve_together(self, ready: list[tuple[int, int]]) -> None:
        receivers = self._receivers
        begun: list[Receiver] = []
        for fd, _ in ready:
            receiver = receivers.get(fd)
            if receiver is None:
                continue  # one before it has ended it
            try:
                if receiver.begin():
                    begun.append(receiver)
            except Exception as error:
                self._report(error)
        for receiver in begun:
            try:
                receiver.answer()
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        """As the loop does it for a callback that fails: the others of its group are served."""
        self._loop.call_exception_handler({"message": "serving a connection", "exception": error})
