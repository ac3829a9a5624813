"""Which form of request queue and handler pool is the cheapest?

All forms keep requests of a connection in order; they differ in what stands between a frame and
its handler. Measured is all of our Python between `recv` and `send` (framing, header, decoding,
queue, handler, encoding, gathering), with a transport that costs nothing, on uvloop.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence

from odradek.broker.dispatch import Dispatcher
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.cold_reads import ColdReads
from odradek.broker.network.connection import Connection, Surroundings
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.framing import SCRATCH_BYTES, FrameReader
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.readiness import LoopReaders
from odradek.protocol.clock import SystemClock
from odradek.protocol.frames import encode_request
from odradek.protocol.messages.sasl import SaslAuthenticateRequest
from odradek.storage.files import Buffer, FileSlice

from benchmarks._echo_server import ECHO_ROUTE

FRAME = encode_request(SaslAuthenticateRequest(auth_bytes=bytes(100)), 2, 1, "bench")


class FreeTransport:
    """Always has the same requests to receive and takes every answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fileno(self) -> int:
        return -1

    def receive_into(self, buffer: memoryview, /) -> int:
        buffer[: len(self._data)] = self._data
        return len(self._data)

    def send(self, data: Buffer, /) -> int:
        return len(data)

    def send_all(self, parts: Sequence[Buffer], *, more: bool) -> int:
        return sum(map(len, parts))

    def send_slice(self, piece: FileSlice, most: int) -> int:
        return most

    def hold_little(self) -> None:
        pass

    def hold_as_before(self) -> None:
        pass

    def is_broken(self) -> bool:
        return False

    def close(self) -> None:
        pass


class AlwaysDirect(Dispatcher):
    """No queue at all: a connection's requests are begun as they come."""

    def serve(self, conversation: Conversation) -> None:
        while (frame := conversation.take()) is not None:
            self._begin(conversation, frame)


class AlwaysQueued(Dispatcher):
    """A deque, served by a callback of the loop's next turn."""

    def serve(self, conversation: Conversation) -> None:
        while (frame := conversation.take()) is not None:
            self._queue.append((conversation, frame))
            if not self._is_scheduled:
                self._schedule()


class Tasks(Dispatcher):
    """An asyncio.Queue and one task for each handler."""

    waiting: asyncio.Queue[tuple[Conversation, bytearray]]

    def start(self) -> list[asyncio.Task[None]]:
        self.waiting = asyncio.Queue(self._max_queued)
        return [asyncio.create_task(self.work()) for _ in range(self._handlers)]

    async def work(self) -> None:
        while True:
            conversation, frame = await self.waiting.get()
            self._begin(conversation, frame)
            conversation.driver.advance()

    def serve(self, conversation: Conversation) -> None:
        while (frame := conversation.take()) is not None:
            self.waiting.put_nowait((conversation, frame))


FORMS = {
    "direct when nobody waits, else queued": Dispatcher,
    "always direct": AlwaysDirect,
    "deque and call_soon": AlwaysQueued,
    "asyncio.Queue and 8 tasks": Tasks,
}


async def measure(form: type[Dispatcher], depth: int, requests: int) -> float:
    """Microseconds for a request: the best of many short rounds."""
    loop = asyncio.get_running_loop()
    budget = MemoryBudget(-1)
    routes = VersionsHandler([ECHO_ROUTE]).routes
    dispatcher = form(routes, loop=loop, budget=budget, handlers=8, max_queued=500)
    tasks = dispatcher.start() if isinstance(dispatcher, Tasks) else []
    reader = FrameReader(memoryview(bytearray(SCRATCH_BYTES)), SCRATCH_BYTES)
    peer = Peer("PLAINTEXT", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
    conversation = Conversation(peer, reader, budget)
    surroundings = Surroundings(loop, SystemClock(), dispatcher, ColdReads(loop), LoopReaders(loop))
    connection = Connection(
        FreeTransport(FRAME * depth), conversation, surroundings, lambda *_: None
    )
    connection._is_receiving = True  # there is no descriptor to watch
    best = float("inf")
    for _ in range(requests // 200):
        began = time.perf_counter()
        for _ in range(200 // depth):
            connection.on_readable()
            while conversation.open_requests:  # noqa: ASYNC110 - turns of the loop are measured
                await asyncio.sleep(0)
        best = min(best, (time.perf_counter() - began) / 200)
    for task in tasks:
        task.cancel()
    return round(best * 1e6, 1)


def main() -> None:
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    requests = 2_000 if parser.parse_args().quick else 100_000
    results = []
    for depth in (1, 5):
        for name, form in FORMS.items():
            took = uvloop.run(measure(form, depth, requests))
            results.append({"form": name, "depth": depth, "us": took})
            print(f"depth {depth}: {took:6.1f} us  {name}", file=sys.stderr)
    print(json.dumps({"dispatch": results}))


if __name__ == "__main__":
    main()
