"""What replication costs: four brokers, every record on all of them, beside four of Apache Kafka.

Twelve partitions, four replicas, two of them enough, acks=all; clients, brokers and ZooKeeper share
this machine, so a round loads every core and CPU time says more than throughput. The two clusters
take turns, each round on a topic of its own, after Kafka's were warmed up. Then: how long writers
wait when a leader is killed, and what a follower costs that has a thousand partitions and nothing
to do. `--only failover,idle` runs some parts.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from odradek.client.settings import Given
from odradek.client.sync import SyncProducer

from benchmarks import _librdkafka as load
from benchmarks._brokers import KAFKA_NAME, cpu_seconds, rss_mb, why_no_kafka
from benchmarks._clusters import SESSION_MS, Cluster, clusters
from benchmarks._librdkafka import Outcome, Workload, make_topic
from benchmarks._rows import Row, below, beside, tell

BROKERS = 4
PARTITIONS = 12
REPLICATED = {"min.insync.replicas": "2"}
WARM_ROUNDS = 2
IDLE_PARTITIONS = 1000
LONGEST_IDLE_PERCENT = 5.0
# Asks again every tenth of a second, so that it measures the cluster and not its own patience.
IMPATIENT: dict[str, Given] = {
    "acks": "all",
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 100,
}


class Turn(NamedTuple):
    outcome: Outcome
    cpu_us: float
    """Of all brokers together, for each record."""


class Effort(NamedTuple):
    seconds: float
    rounds: int
    idle_seconds: float
    kills: int


def turn(cluster: Cluster, workload: Workload, topic: str, partitions: int, seconds: float) -> Turn:
    make_topic(cluster.bootstrap, topic, partitions=partitions, replicas=BROKERS, **REPLICATED)
    cluster.wait_until_in_sync(topic, BROKERS)
    before = cluster.cpu_seconds()
    outcome = workload(cluster.bootstrap, topic, seconds)
    return Turn(outcome, (cluster.cpu_seconds() - before) / outcome.records * 1e6)


def contest(
    ours: Cluster, theirs: Cluster, workload: Workload, partitions: int, effort: Effort
) -> tuple[list[Turn], list[Turn]]:
    name = workload.__name__.replace("_", "-")
    for round_ in range(WARM_ROUNDS):
        turn(theirs, workload, f"{name}-warm-{round_}", partitions, effort.seconds)
    turns: tuple[list[Turn], list[Turn]] = [], []
    for round_ in range(effort.rounds):
        for cluster, taken in zip((ours, theirs), turns, strict=True):
            topic = f"{name}-{round_}"
            taken.append(turn(cluster, workload, topic, partitions, effort.seconds))
    return turns


def replication_rows(ours: Cluster, theirs: Cluster, effort: Effort) -> Iterator[Row]:
    mine, peers = contest(ours, theirs, load.produce_committed, PARTITIONS, effort)
    yield beside(
        "produce to 12 partitions on 4 replicas, acks=all",
        [t.outcome.mb_per_second for t in mine],
        "MB/s",
        peer=KAFKA_NAME,
        peer_readings=[t.outcome.mb_per_second for t in peers],
        at_least=1.5,
    )
    yield beside(
        "CPU of a record on 4 replicas, all brokers",
        [t.cpu_us for t in mine],
        "µs",
        peer=KAFKA_NAME,
        peer_readings=[t.cpu_us for t in peers],
    )
    mine, peers = contest(ours, theirs, load.produce_committed_synchronously, 1, effort)
    for share in ("p50", "p99"):
        yield beside(
            f"synchronous produce on 4 replicas, acks=all, {share}",
            [getattr(t.outcome, f"{share}_us") for t in mine],
            "µs",
            peer=KAFKA_NAME,
            peer_readings=[getattr(t.outcome, f"{share}_us") for t in peers],
            at_most=0.8 if share == "p50" else None,
        )


class Failover(NamedTuple):
    """Seconds from the kill of a leader to the next ack where it led, of a client that asks often,
    and of librdkafka, which looks for a new leader about once a second."""

    first: float
    librdkafka: float


def failovers(cluster: Cluster, rounds: int) -> list[Failover]:
    topic = f"failover-{cluster.name.lower()}"
    make_topic(cluster.bootstrap, topic, partitions=1, replicas=BROKERS, **REPLICATED)
    return [_failover(cluster, topic) for _ in range(rounds)]


def _failover(cluster: Cluster, topic: str) -> Failover:
    cluster.wait_until_in_sync(topic, BROKERS)
    theirs = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    theirs.produce(topic, b"before")
    with SyncProducer({**IMPATIENT, "bootstrap_servers": cluster.bootstrap}) as ours:
        ours.send(topic, b"before").result(30)
        theirs.flush(30)
        leader = cluster.leader(topic)
        leader.kill()
        began = time.perf_counter()
        taken: list[float] = []
        answer = ours.send(topic, b"after")
        answer.add_done_callback(lambda _: taken.append(time.perf_counter() - began))
        theirs.produce(topic, b"after")
        if theirs.flush(120):
            raise TimeoutError("no other leader took a record")
        last = time.perf_counter() - began
        answer.result(120)
    leader.start()
    return Failover(taken[0], last)


def failover_rows(ours: Cluster, theirs: Cluster | None, rounds: int) -> Iterator[Row]:
    """One for each client; both must stay below the same limit."""
    waited = failovers(ours, rounds)
    peers = [] if theirs is None else failovers(theirs, rounds)
    for client in Failover._fields:
        yield below(
            f"from a leader's kill to the next ack, {client}",
            [getattr(each, client) for each in waited],
            "s",
            SESSION_MS / 1000 + 1,
            of_kafka=[round(getattr(each, client), 2) for each in peers],
        )


def idle_row(seconds: float) -> Row:
    """Two brokers: one leads a thousand partitions, the other follows, and nobody writes."""
    with clusters(2, with_kafka=False) as (cluster, _):
        leader, follower = cluster.brokers
        placed = [[1, 2]] * IDLE_PARTITIONS
        topic = NewTopic("idle", IDLE_PARTITIONS, replica_assignment=placed)
        admin = cluster.admin()
        admin.create_topics([topic])["idle"].result(120)
        cluster.wait_until_in_sync("idle", 2)
        time.sleep(2)
        before = cpu_seconds(leader), cpu_seconds(follower)
        time.sleep(seconds)
        led, followed = (
            100 * (cpu_seconds(broker) - used) / seconds
            for broker, used in zip((leader, follower), before, strict=True)
        )
    return below(
        "CPU of an idle follower of 1,000 partitions",
        [followed],
        "% of a core",
        LONGEST_IDLE_PERCENT,
        of_its_leader=round(led, 2),
    )


PARTS = ("replication", "failover", "idle")


def rows(chosen: Collection[str], *, quick: bool) -> Iterator[Row]:
    effort = Effort(2.0, 2, 5.0, 1) if quick else Effort(8.0, 4, 20.0, 5)
    reason = why_no_kafka()
    if reason:
        print(f"  nothing to compare with: {reason}", file=sys.stderr)
    if "replication" in chosen or "failover" in chosen:
        with clusters(BROKERS, with_kafka=not reason) as (ours, theirs):
            if "replication" in chosen and theirs is not None:
                yield from replication_rows(ours, theirs, effort)
                yield memory_row(ours, theirs)
            if "failover" in chosen:
                yield from failover_rows(ours, theirs, effort.kills)
    if "idle" in chosen:
        yield idle_row(effort.idle_seconds)


def memory_row(ours: Cluster, theirs: Cluster) -> Row:
    return beside(
        "memory of a broker after load",
        [rss_mb(broker) for broker in ours.brokers],
        "MB",
        peer=KAFKA_NAME,
        peer_readings=[rss_mb(broker) for broker in theirs.brokers],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    load_average, began = os.getloadavg()[0], time.perf_counter()
    measured = [tell(row) for row in rows(chosen, quick=arguments.quick)]
    result = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average_before": round(load_average, 2),
        "seconds": round(time.perf_counter() - began),
        "rows": measured,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
