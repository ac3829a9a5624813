"""What a small produce costs the server when connections or partitions become many.

Every connection and every partition takes its turn, so none is idle; one request is under way at a
time, or five (at one connection all five on it, which the server may read and answer at once). A
bare server that sends back what it receives is asked the same on as many connections: what it takes
is the kernel's and the event loop's.

The load has a core of its own: whether a request wakes another core or not is half of what it
costs, and would be up to the scheduler.

A restless machine takes twice as long for the same for some tenths of a second, then is quick
again. So a server's numbers follow each other at once, in many short rounds: each meets as much of
either as the others do. Few long rounds have told 1.1 and 1.6 of one broker.
"""

import os
import resource
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from typing import NamedTuple

from odradek.protocol.messages.produce import ProduceResponse

from benchmarks._brokers import Broker, cpu_seconds_of, pid_of
from benchmarks._raw_load import (
    PRODUCE_VERSION,
    answer_bytes,
    create_topic,
    frame_of,
    produce_request,
)
from benchmarks.grid.contest import Effort
from benchmarks.grid.peers import KAFKA_3, PEERS, running
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present
from benchmarks.network import serving
from tests.support.raw_client import RawClient, close_all

NUMBERS, QUICK_NUMBERS = (1, 5, 100, 1000, 2000), (1, 100)
METRIC = "CPU µs/request"
ECHO = "echo"
_OTHERS = (KAFKA_3, ECHO)
_DEPTHS = (1, 5)
# Of each round: a thousand partitions have their turns within one.
_REQUESTS, _QUICK_REQUESTS = 1000, 400
# In place of each round that other scenarios have. The connections of a round are made for it:
# none is open that its number does not tell of; so there are fewer of those.
_CONNECTION_ROUNDS, _PARTITION_ROUNDS = 4, 12
# Ours are compared with ours; of the others one round in three is enough.
_OTHERS_EVERY = 3
_WARM_REQUESTS, _WARM_ROUND_REQUESTS = 40_000, 200
_RECORD_BYTES = 100
_OPEN_FILES = 32_768
_WAIT_SECONDS = 60.0
_RECEIVE_BYTES = 1 << 16


def measure(effort: Effort) -> Iterator[Reading]:
    names = present((OURS, KAFKA_3), effort)
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running(name)) for name in names}
        for name, broker in brokers.items():
            make_topics(broker, effort)
            if PEERS[name].warms_up and not effort.is_quick:
                with Connections(broker.port, 1) as load:
                    load.run(_WARM_REQUESTS, 5)
        echo = _echo(stack.enter_context(serving("bare", "uvloop")))
        yield from among_many(brokers, {ECHO: echo}, effort)


def among_many(
    brokers: Mapping[str, Broker], others: Mapping[str, "Server"], effort: Effort
) -> Iterator[Reading]:
    """All of them in turns, on topics that are there; `others` know nothing of partitions."""
    allow_open_files()
    servers = {name: Server(each.port, pid_of(each)) for name, each in brokers.items()}
    everyone = {**servers, **others}
    with _on_other_cores([each.pid for each in everyone.values()]):
        yield from _among_connections(everyone, effort)
        yield from _among_partitions(servers, effort)


class Server(NamedTuple):
    port: int
    pid: int


def _echo(process: subprocess.Popen[str]) -> Server:
    assert process.stdout is not None
    return Server(int(process.stdout.readline()), process.pid)


@contextmanager
def _on_other_cores(servers: Sequence[int]) -> Iterator[None]:
    """This process has one core meanwhile, and the servers have the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        for server in servers:
            for thread in os.listdir(f"/proc/{server}/task"):
                os.sched_setaffinity(int(thread), cores[1:])
        os.sched_setaffinity(0, cores[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def numbers_of(effort: Effort) -> tuple[int, ...]:
    return QUICK_NUMBERS if effort.is_quick else NUMBERS


def topic_of(partitions: int) -> str:
    return f"among-{partitions}"


def make_topics(broker: Broker, effort: Effort) -> None:
    for number in numbers_of(effort):
        _make_led_topic(broker, topic_of(number), number)


def _make_led_topic(broker: Broker, topic: str, partitions: int) -> None:
    """Kafka tells of a new topic before all its partitions take records."""
    create_topic(broker, topic, partitions)
    request = produce_request(topic, _RECORD_BYTES, acks=1, partitions=range(partitions))
    deadline = time.monotonic() + _WAIT_SECONDS
    with RawClient(broker.port) as client:
        while True:
            answer = client.ask(request, PRODUCE_VERSION)
            assert isinstance(answer, ProduceResponse)
            results = [p for t in answer.responses for p in t.partition_responses]
            if not any(result.error_code for result in results):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} does not take records")


class Load:
    """Frames and the connections they go over, taking turns."""

    def __init__(self, lanes: Sequence[tuple[RawClient, bytes]]) -> None:
        self._turns = cycle(lanes)
        self._clients = {id(client): client for client, _ in lanes}.values()
        self._answer_bytes = answer_bytes(*lanes[0])

    def run(self, requests: int, depth: int) -> None:
        buffer = bytearray(_RECEIVE_BYTES)
        for _ in range(requests // depth):
            burst = list(islice(self._turns, depth))
            for client, frame in burst:
                client.socket.sendall(frame)
            left: dict[RawClient, int] = {}
            for client, _ in burst:
                left[client] = left.get(client, 0) + self._answer_bytes
            for client, size in left.items():
                while size > 0:
                    size -= client.socket.recv_into(buffer)

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        close_all(self._clients)


class Connections(Load):
    def __init__(self, port: int, number: int, topic: str = topic_of(1)) -> None:
        request = produce_request(topic, _RECORD_BYTES, acks=1)
        frame = frame_of(request, PRODUCE_VERSION)
        super().__init__([(_greeted(port, frame), frame) for _ in range(number)])


def _greeted(port: int, frame: bytes) -> RawClient:
    """A connection that was answered: more than the broker has accepted would overflow its queue of
    new ones, and each that does not fit is tried again after a second only."""
    client = RawClient(port)
    answer_bytes(client, frame)
    return client


class Partitions(Load):
    def __init__(self, port: int, number: int) -> None:
        topic = topic_of(number)
        client = RawClient(port)
        frames = [
            frame_of(
                produce_request(topic, _RECORD_BYTES, acks=1, partitions=(index,)), PRODUCE_VERSION
            )
            for index in range(number)
        ]
        super().__init__([(client, frame) for frame in frames])
        for frame in frames:
            answer_bytes(client, frame)


def _turns(servers: Mapping[str, Server], rounds: int) -> Iterator[tuple[str, Server]]:
    for number in range(rounds):
        for name, server in servers.items():
            if name not in _OTHERS or number % _OTHERS_EVERY == 0:
                yield name, server


class _Taken:
    """What a request cost, by number, how many were under way, and server."""

    def __init__(self, kind: str, effort: Effort) -> None:
        self._kind = kind
        self._requests = _QUICK_REQUESTS if effort.is_quick else _REQUESTS
        self._rounds: dict[tuple[int, int, str], list[float]] = {}

    def take(self, name: str, server: Server, number: int, load: Load) -> None:
        for depth in _DEPTHS:
            before = cpu_seconds_of(server.pid)
            load.run(self._requests, depth)
            spent = (cpu_seconds_of(server.pid) - before) / self._requests * 1e6
            self._rounds.setdefault((depth, number, name), []).append(spent)

    def readings(self) -> Iterator[Reading]:
        for (depth, number, name), rounds in sorted(
            self._rounds.items(), key=lambda each: each[0][:2]
        ):
            yield Reading(f"{number} {self._kind}, {depth} at once", name, METRIC, tuple(rounds))


def _among_connections(servers: Mapping[str, Server], effort: Effort) -> Iterator[Reading]:
    taken = _Taken("connections", effort)
    for name, server in _turns(servers, effort.rounds * _CONNECTION_ROUNDS):
        for number in numbers_of(effort):
            with Connections(server.port, number) as load:
                load.run(max(_WARM_ROUND_REQUESTS, number), 1)
                taken.take(name, server, number, load)
    yield from taken.readings()


def _among_partitions(servers: Mapping[str, Server], effort: Effort) -> Iterator[Reading]:
    taken = _Taken("partitions", effort)
    with ExitStack() as stack:
        loads = {
            (name, number): stack.enter_context(Partitions(server.port, number))
            for name, server in servers.items()
            for number in numbers_of(effort)
        }
        for name, server in _turns(servers, effort.rounds * _PARTITION_ROUNDS):
            for number in numbers_of(effort):
                load = loads[name, number]
                load.run(_WARM_ROUND_REQUESTS, 1)
                taken.take(name, server, number, load)
    yield from taken.readings()


def allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES, hard), hard))
