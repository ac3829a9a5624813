"""Catching up from a cold page cache beside a busy client: who feels it, and how fast it goes.

The reader and the client are those of `_cold_reader` and `_busy_client`. The peers take turns, each
with old data of its own, which is dropped from the page cache before every round.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks._busy_client import BusyClient
from benchmarks._cold_reader import TOPIC, catch_up, drop_from_cache, write_old_data
from benchmarks._rows import percentile
from benchmarks.grid.contest import Effort
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, Startable, running
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

_MEGABYTES, _QUICK_MEGABYTES = 300, 50
_SLICE_SECONDS = 0.02


def measure(effort: Effort) -> Iterator[Reading]:
    megabytes = _QUICK_MEGABYTES if effort.is_quick else _MEGABYTES
    names = present((OURS, KAFKA_3, KAFKA_4), effort)
    taken: dict[tuple[str, str, str], list[float]] = {}
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running(name)) for name in names}
        ids = {name: write_old_data(broker, megabytes) for name, broker in brokers.items()}
        clients = {name: stack.enter_context(BusyClient(brokers[name])) for name in names}
        for client in clients.values():
            client.round(effort.seconds * 4)
        for _ in range(effort.rounds):
            for name, broker in brokers.items():
                alone = clients[name].round(effort.seconds)
                drop_from_cache(directory_of(broker))
                beside, speed = _beside_a_reader(clients[name], broker, ids[name])
                for cell, samples in (("client alone", alone), ("beside the reader", beside)):
                    for metric, share in (("p50 µs", 0.5), ("p99 µs", 0.99)):
                        reading = percentile(samples, share)
                        taken.setdefault((cell, metric, name), []).append(reading)
                taken.setdefault(("the reader itself", "MB/s", name), []).append(speed)
    for (cell, metric, name), rounds in sorted(taken.items()):
        yield Reading(cell, name, metric, tuple(rounds))


def _beside_a_reader(
    client: BusyClient, broker: Startable, topic_id: bytes
) -> tuple[list[float], float]:
    samples: list[float] = []
    with catch_up(broker, topic_id) as reader:
        while not reader.poll():
            samples += client.round(_SLICE_SECONDS)
        read_mb, seconds = reader.recv()
    return samples, read_mb / seconds


def directory_of(broker: Startable) -> Path:
    if isinstance(broker, OdradekBroker):
        return broker.data_dir / f"{TOPIC}-0"
    assert isinstance(broker, KafkaBroker)
    return broker.partition_dir(TOPIC)
