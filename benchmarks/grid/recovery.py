"""From kill -9 to service: the process starts again, and the last record written can be read."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from confluent_kafka import KafkaException

from benchmarks.grid.contest import Effort
from benchmarks.grid.load import Produce, Shape, end_offsets, make_topic
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, PEERS, Startable, new_broker
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present

PARTITIONS = 100
_BYTES, _QUICK_BYTES = 500_000_000, 20_000_000
_RECORD_BYTES = 1000
_WAIT_SECONDS = 120.0


def measure(effort: Effort) -> Iterator[Reading]:
    size = _QUICK_BYTES if effort.is_quick else _BYTES
    with ExitStack() as stack:
        names = present((OURS, KAFKA_3, KAFKA_4), effort)
        brokers = {name: stack.enter_context(new_broker(name)) for name in names}
        written = {name: _fill(broker, size) for name, broker in brokers.items()}
        taken: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(effort.rounds):
            for broker in brokers.values():
                broker.kill()
            killed_at = time.monotonic()
            for name in sorted(names, key=_forgotten_seconds):
                time.sleep(max(0.0, killed_at + _forgotten_seconds(name) - time.monotonic()))
                taken[name].append(_seconds_to_recover(brokers[name], written[name]))
    cell = f"{size // 1_000_000} MB in {PARTITIONS} partitions"
    for name in names:
        yield Reading(cell, name, "s", tuple(taken[name]))


def _forgotten_seconds(name: str) -> float:
    return PEERS[name].forgotten_seconds


def _fill(broker: Startable, size: int) -> int:
    broker.start()
    shape = Shape(PARTITIONS)
    make_topic(broker.bootstrap, "kept", shape)
    writer = Produce(_RECORD_BYTES, batch_bytes=1_000_000, shape=shape)
    wanted = size // _RECORD_BYTES
    writer.send(broker.bootstrap, "kept", lambda sent, _: sent >= wanted)
    return end_offsets(broker.bootstrap, "kept", PARTITIONS)


def _seconds_to_recover(broker: Startable, written: int) -> float:
    began = time.perf_counter()
    broker.start()
    while (there := _records(broker)) < written:
        if time.perf_counter() > began + _WAIT_SECONDS:
            raise AssertionError(f"{there} of {written} acknowledged records are there")
    return time.perf_counter() - began


def _records(broker: Startable) -> int:
    try:
        return end_offsets(broker.bootstrap, "kept", PARTITIONS)
    except KafkaException:
        return 0  # no leader yet
