"""What does a small request cost among many connections, and what of it grows?

The connections take their turns, as in the scenario `growth` of the grid, each with one request
that is received, decoded, answered and sent over a socket of this process. All that a connection
consists of is touched once in a turn; when all turns together touch more than a core's caches hold,
every touch waits for memory.

Microseconds of CPU, the client's two calls of the system included; the median of many rounds in
which the numbers of connections take turns. With `--lines` it tells how many lines of memory one
request among a thousand connections touches outside of a simulated cache of 1 MB.
"""

import asyncio
import json
import os
import socket
import sys
import time
from itertools import cycle
from statistics import median

from odradek.broker.dispatch import Dispatcher
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.cold_reads import ColdReads
from odradek.broker.network.connection import Connection, Surroundings
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.framing import SCRATCH_BYTES, FrameReader
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.readiness import Readiness
from odradek.broker.network.transport import SocketTransport
from odradek.protocol.clock import SystemClock

from benchmarks._echo_server import ECHO_ROUTE
from benchmarks._lines import wants_quick
from benchmarks.dispatch import FRAME

NUMBERS = (1, 100, 1000, 2000)
_ANSWER_BYTES = 4096


class Crowd:
    """So many connections, of each of which the client's end is a number only."""

    def __init__(self, number: int) -> None:
        loop = asyncio.new_event_loop()
        budget = MemoryBudget(-1)
        routes = VersionsHandler([ECHO_ROUTE]).routes
        dispatcher = Dispatcher(routes, loop=loop, budget=budget, handlers=8, max_queued=500)
        self._surroundings = Surroundings(
            loop, SystemClock(), dispatcher, ColdReads(loop), Readiness(loop)
        )
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._budget = budget
        self._turns = cycle([self._connect() for _ in range(number)])

    def _connect(self) -> tuple[int, Connection]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        peer = Peer("bench", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
        conversation = Conversation(peer, FrameReader(self._scratch, SCRATCH_BYTES), self._budget)
        connection = Connection(
            SocketTransport(ours), conversation, self._surroundings, lambda *_: None
        )
        connection.start()
        return theirs.detach(), connection

    def ask(self, times: int) -> None:
        write, read = os.write, os.read
        for client, connection in (next(self._turns) for _ in range(times)):
            write(client, FRAME)
            connection.on_readable()
            read(client, _ANSWER_BYTES)


def measure(rounds: int, times: int) -> dict[int, float]:
    taken: dict[int, list[float]] = {number: [] for number in NUMBERS}
    crowds = {number: Crowd(number) for number in NUMBERS}
    for _ in range(rounds):
        for number, crowd in crowds.items():
            crowd.ask(max(number, times // 4))
            began = time.process_time()
            crowd.ask(times)
            taken[number].append((time.process_time() - began) / times * 1e6)
    return {number: round(median(each), 2) for number, each in taken.items()}


def _run(number: int, times: int) -> None:
    crowd = Crowd(number)
    crowd.ask(number)
    crowd.ask(times)


def main() -> None:
    is_quick = wants_quick("benchmarks.among_connections", __doc__, _run)
    result = measure(3 if is_quick else 40, 4000)
    print(f"a request: {result}", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
