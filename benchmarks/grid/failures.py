"""Brokers die under load: four replicas, two of them enough, acks=all, retries without end.

Two are killed, then a third: nothing more may be acknowledged until one is back. Every second is
counted, and in the end the log must hold at least what was acknowledged. What is not delivered a
minute after the last phase is told, too.
"""

import time
from collections.abc import Iterator
from itertools import pairwise
from threading import Event, Thread

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks._clusters import SESSION_MS, Cluster, clusters
from benchmarks.grid.contest import Effort
from benchmarks.grid.load import Shape, end_offsets, make_topic, values
from benchmarks.grid.peers import KAFKA_3
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present

CLUSTER_SIZE = 4
TOPIC = "survives"
RATE = "records/s"
TIMELINE = "acknowledged in each second"
_SHAPE = Shape(partitions=12, replicas=4, min_insync=2)
_RECORD_BYTES = 1000
# Kafka does not start while ZooKeeper remembers its life before.
_FORGOTTEN_SECONDS = SESSION_MS / 1000 + 3
_QUEUE_RECORDS = 2000


def measure(effort: Effort) -> Iterator[Reading]:
    phase_seconds = 3.0 if effort.is_quick else 10.0
    # Kafka's part takes half a minute at the least: ZooKeeper must forget the brokers it killed.
    with_kafka = not effort.is_quick and bool(present([KAFKA_3], effort))
    with clusters(CLUSTER_SIZE, with_kafka=with_kafka) as both:
        for name, cluster in zip((OURS, KAFKA_3), both, strict=True):
            if cluster is not None:
                yield from _survive(name, cluster, phase_seconds)


def _survive(name: str, cluster: Cluster, phase_seconds: float) -> Iterator[Reading]:
    make_topic(cluster.bootstrap, TOPIC, _SHAPE)
    cluster.wait_until_in_sync(TOPIC, _SHAPE.replicas)
    load = _Load(cluster)
    marks: dict[str, float] = {}
    began = time.monotonic()

    def phase(title: str, at_least_seconds: float = 0.0) -> None:
        marks[title] = time.monotonic() - began
        time.sleep(max(phase_seconds, at_least_seconds))

    phase("four brokers")
    cluster.brokers[3].kill()
    phase("one killed")
    cluster.brokers[2].kill()
    phase("two killed")
    cluster.brokers[1].kill()
    phase("three killed", at_least_seconds=_FORGOTTEN_SECONDS)
    for broker in cluster.brokers[1:]:
        broker.start()
    phase("all back")
    acked, undelivered = load.finish()
    ended = time.monotonic() - began
    held = end_offsets(cluster.bootstrap, TOPIC, _SHAPE.partitions)
    yield from phase_readings(name, [t - began for t in acked], marks, ended)
    yield Reading("all back", name, "missing records", (max(0, len(acked) - held),))
    yield Reading("all back", name, "undelivered records", (undelivered,))
    yield Reading("all back", name, "repeated records", (max(0, held - len(acked)),))


def phase_readings(
    name: str, acked: list[float], marks: dict[str, float], ended: float
) -> Iterator[Reading]:
    """Of the moments at which records were acknowledged: rate and longest silence by phase."""
    edges = [*marks.values(), ended]
    for title, (start, end) in zip(marks, pairwise(edges), strict=True):
        within = [moment for moment in acked if start <= moment < end]
        silences = [two - one for one, two in pairwise([start, *within, end])]
        yield Reading(title, name, RATE, (len(within) / (end - start),))
        yield Reading(title, name, "longest silence s", (max(silences),))
    seconds = [0] * (int(ended) + 1)
    for moment in acked:
        seconds[min(int(moment), len(seconds) - 1)] += 1
    yield Reading(TIMELINE, name, RATE, tuple(map(float, seconds)))


class _Load:
    """Sends as fast as records are acknowledged, and notes when each was."""

    def __init__(self, cluster: Cluster) -> None:
        self._acked: list[float] = []
        self._failed: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "acks": -1,
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": _QUEUE_RECORDS,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "on_delivery": self._note,
            }
        )
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acked.append(time.monotonic())
        else:
            self._failed = error

    def _run(self) -> None:
        pool = values(_RECORD_BYTES)
        while not self._stop.is_set():
            try:
                for value in pool[:50]:
                    self._producer.produce(TOPIC, value)
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.005)

    def finish(self) -> tuple[list[float], int]:
        """When each record was acknowledged, and how many were not within a minute."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(60)
        if self._failed is not None:
            raise KafkaException(self._failed)
        return self._acked, left
