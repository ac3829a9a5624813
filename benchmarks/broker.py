"""What does a whole broker cost, alone and with Apache Kafka beside it?

Alone: start to ready, memory, CPU of small requests, what a thousand idle connections and
partitions cost, whether a reader of cold data disturbs others. Beside Kafka, in the same run and in
turns: throughput, requests and latency of librdkafka clients (see `_versus`).

One row for each figure: name, value, unit, target, whether it is met, the peer's value. Server CPU
is all that the process used, kernel included; it says more than wall time on a machine that has
other work to do. Beside that of a request, `floor` is what a server takes that only receives and
sends (see `_floor`). `--quick` takes about three minutes; `--only start,cpu` runs some parts.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median

from benchmarks._brokers import Broker, cpu_seconds, new_odradek, odradek, rss_mb, scratch
from benchmarks._cold_reader import cold_rows
from benchmarks._crowd import crowd_rows
from benchmarks._floor import bare_server
from benchmarks._raw_load import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    create_topic,
    fetch_request,
    fetched_bytes,
    frame_of,
    produce,
    produce_request,
    repeat,
)
from benchmarks._rows import Row, below, reading, tell
from benchmarks._versus import versus_rows
from tests.support.raw_client import RawClient

START_LIMIT_S = 0.5
IDLE_LIMIT_MB = 60
REQUEST_LIMIT_US = 60
SMALL_RECORD_BYTES = 100
STARTS = 5
ACKS = {1: "acks=1", -1: "acks=all"}
DEPTHS = (1, 5)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to do for the CPU of one kind of request."""

    requests: int
    rounds: int


def start_rows(*, quick: bool) -> Iterator[Row]:
    """A new process with a new directory each time; its modules have been compiled before."""
    with odradek():
        pass
    seconds, cpu, idle = [], [], []
    for _ in range(STARTS):
        with scratch() as directory:
            broker = new_odradek(directory)
            began = time.perf_counter()
            with broker:
                seconds.append(time.perf_counter() - began)
                cpu.append(cpu_seconds(broker))
                idle.append(rss_mb(broker))
    yield below("start to ready", seconds, "s", START_LIMIT_S, cpu_s=min(cpu))
    yield below("memory, idle", idle, "MB", IDLE_LIMIT_MB)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and a connection to it."""

    process: Broker
    client: RawClient

    def cpu_us(self, frame: bytes, count: int, depth: int) -> float:
        """What it uses for each of so many requests, `depth` of them at once."""
        before = cpu_seconds(self.process)
        repeat(self.client, frame, count, depth)
        return (cpu_seconds(self.process) - before) / count * 1e6


def cpu_rows(*, quick: bool) -> Iterator[Row]:
    effort = Effort(5_000, 3) if quick else Effort(50_000, 5)
    with (
        odradek() as broker,
        bare_server() as bare,
        RawClient(broker.port) as client,
        RawClient(bare.port) as echo,
    ):
        topic_id = create_topic(broker, "small")
        ours, floor = Server(broker, client), Server(bare, echo)
        for (acks, name), depth in product(ACKS.items(), DEPTHS):
            request = produce_request("small", SMALL_RECORD_BYTES, acks=acks)
            produce(client, request)
            frame = frame_of(request, PRODUCE_VERSION)
            name = f"CPU of a produce of 100 B, {name}, depth {depth}"
            yield _request_row(name, ours, floor, (frame, depth), effort)
        for depth in DEPTHS:
            frame = _fetch_of_the_last(client, topic_id)
            name = f"CPU of a fetch of 100 B, depth {depth}"
            yield _request_row(name, ours, floor, (frame, depth), effort)
        yield reading("memory after small requests", rss_mb(broker), "MB")


def _fetch_of_the_last(client: RawClient, topic_id: bytes) -> bytes:
    """A request for the last record, as a consumer at the end of the log sends it."""
    last = produce(client, produce_request("small", SMALL_RECORD_BYTES, acks=1))
    request = fetch_request(topic_id, last)
    assert 0 < fetched_bytes(client, request) < 2 * SMALL_RECORD_BYTES
    return frame_of(request, FETCH_VERSION)


def _request_row(
    name: str, ours: Server, floor: Server, asked: tuple[bytes, int], effort: Effort
) -> Row:
    """Beside it, in turns, what a server takes that only receives and sends."""
    frame, depth = asked
    taken: dict[Server, list[float]] = {ours: [], floor: []}
    for server in taken:
        server.cpu_us(frame, effort.requests // 5, depth)
    for _ in range(effort.rounds):
        for server, readings in taken.items():
            readings.append(server.cpu_us(frame, effort.requests, depth))
    return below(name, taken[ours], "µs", REQUEST_LIMIT_US, floor=round(median(taken[floor]), 1))


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "start": start_rows,
    "cpu": cpu_rows,
    "crowd": crowd_rows,
    "cold": cold_rows,
    "versus": versus_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    load_average, began = os.getloadavg()[0], time.perf_counter()
    rows = [tell(row) for part in chosen for row in PARTS[part](quick=arguments.quick)]
    seconds = time.perf_counter() - began
    print(f"{seconds:.0f} s", file=sys.stderr)
    result = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average_before": round(load_average, 2),
        "seconds": round(seconds),
        "rows": rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
