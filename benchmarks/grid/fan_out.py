"""One producer and several consumers, each a process that reads all that is written.

The clock runs from the first record until every consumer has the last one; what counts is the sum
of what all of them got.
"""

import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from benchmarks.grid.load import ALONE, Done, Produce, Shape, reader

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class FanOut:
    consumers: int
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        context = get_context("spawn")
        pairs = [context.Pipe() for _ in range(self.consumers)]
        readers = [
            context.Process(target=_read, args=(there, bootstrap, topic), daemon=True)
            for _, there in pairs
        ]
        ends = [here for here, _ in pairs]
        for process in readers:
            process.start()
        try:
            _hear_all(ends)
            began = time.perf_counter()
            done = Produce().run(bootstrap, topic, seconds)
            for end in ends:
                end.send(done.records + 1)  # the producer's first paid for its connection
            _hear_all(ends)
            elapsed = time.perf_counter() - began
        finally:
            for process in readers:
                process.kill()
                process.join()
        return Done(done.records * self.consumers, done.bytes * self.consumers, elapsed)


def _hear_all(ends: list[Connection]) -> None:
    silent, deadline = set(ends), time.monotonic() + _WAIT_SECONDS
    while silent:
        for end in wait(list(silent), max(0.0, deadline - time.monotonic())):
            assert isinstance(end, Connection)
            end.recv()
            silent.discard(end)
        if time.monotonic() > deadline:
            raise TimeoutError("a consumer did not read everything")


def _read(parent: Connection, bootstrap: str, topic: str) -> None:
    consumer = reader(bootstrap, topic, range(1))
    consumer.poll(0)
    parent.send("ready")
    count, wanted = 0, None
    while wanted is None or count < wanted:
        count += len(consumer.consume(10_000, _POLL_SECONDS))
        if wanted is None and parent.poll():
            wanted = parent.recv()
    parent.send("all")
    consumer.close()
