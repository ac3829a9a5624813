"""A steady load of 5 MB/s for five minutes on every broker, all of them side by side.

Each has a producer of its own, a process, which notes the latency of every record. The machine is
far from busy, so what is late was held up by its own broker: a collection, a flush, a new segment.
The longest stall is the longest time in which a producer that sent all the time heard nothing.
"""

import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks._brokers import cpu_seconds, rss_mb
from benchmarks._rows import percentile
from benchmarks.grid.contest import Effort
from benchmarks.grid.load import Produce, Shape, make_topic, values
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, KFAKE, PEERS, Startable, running
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present

CELL = "5 MB/s, acks=all, 12 partitions"
_SECONDS, _QUICK_SECONDS = 300.0, 3.0
_WARM_SECONDS = 12.0
_RECORDS_PER_SECOND = 5000
_RECORD_BYTES = 1000
_TICK_SECONDS = 0.004
_SHAPE = Shape(partitions=12)


def measure(effort: Effort) -> Iterator[Reading]:
    seconds = _QUICK_SECONDS if effort.is_quick else _SECONDS
    names = present((OURS, KAFKA_3, KAFKA_4, KFAKE), effort)
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running(name)) for name in names}
        for name, broker in brokers.items():
            make_topic(broker.bootstrap, "warm", _SHAPE)
            make_topic(broker.bootstrap, "steady", _SHAPE)
            if PEERS[name].warms_up and not effort.is_quick:
                Produce(acks=-1, shape=_SHAPE).run(broker.bootstrap, "warm", _WARM_SECONDS)
        before = {name: cpu_seconds(broker) for name, broker in brokers.items()}
        found = _side_by_side(brokers, seconds)
        records = seconds * _RECORDS_PER_SECOND
        for name, broker in brokers.items():
            spent = (cpu_seconds(broker) - before[name]) / records * 1e6
            yield Reading(CELL, name, "CPU µs/record", (spent,))
            yield Reading(CELL, name, "RSS MB", (rss_mb(broker),))
    for name, figures in found.items():
        for metric, figure in figures.items():
            yield Reading(CELL, name, metric, (figure,))


def _side_by_side(brokers: dict[str, Startable], seconds: float) -> dict[str, dict[str, float]]:
    context = get_context("spawn")
    ends: dict[str, Connection] = {}
    processes = []
    for name, broker in brokers.items():
        ends[name], there = context.Pipe()
        arguments = (there, broker.bootstrap, "steady", seconds)
        process = context.Process(target=_send_steadily, args=arguments, daemon=True)
        process.start()
        there.close()  # so that the end of the process is heard here
        processes.append(process)
    try:
        return {name: end.recv() for name, end in ends.items()}
    finally:
        for process in processes:
            process.kill()
            process.join()


class _Heard:
    """The latency of every record, and the longest silence between two of them."""

    def __init__(self) -> None:
        self.latencies_ms = array("f")
        self.longest_silence = 0.0
        self._last: float | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        now = time.perf_counter()
        if self._last is not None:
            self.longest_silence = max(self.longest_silence, now - self._last)
        self._last = now
        self.latencies_ms.append((message.latency() or 0.0) * 1e3)


def _send_steadily(parent: Connection, bootstrap: str, topic: str, seconds: float) -> None:
    heard = _Heard()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": -1,
            "linger.ms": 1,
            "on_delivery": heard,
            "log_level": 3,
        }
    )
    pool = values(_RECORD_BYTES)
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        due = int(passed * _RECORDS_PER_SECOND)
        for number in range(sent, due):
            producer.produce(topic, pool[number % len(pool)])
        sent = due
        producer.poll(_TICK_SECONDS)
    if left := producer.flush(60):
        raise TimeoutError(f"{left} records were not delivered")
    shares = {"p50 ms": 0.5, "p99 ms": 0.99, "p99.9 ms": 0.999, "longest ms": 1.0}
    figures = {name: percentile(heard.latencies_ms, share) for name, share in shares.items()}
    parent.send({**figures, "longest stall ms": heard.longest_silence * 1e3})
