"""How fast are our producer and consumer, beside aiokafka, kafka-python and confluent-kafka?

One broker of ours serves all of them in turn, each client in a process of its own; in each round
every client takes its turn, so that a noisy neighbour hits all alike. The CPU time of a client says
more than wall time on a machine whose cores are shared. confluent-kafka is C; it is here to be
looked at, the other two to be beaten.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from uuid import uuid4

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import _brokers
from benchmarks._rows import Row, beside

CLIENTS = ("odradek", "aiokafka", "kafka-python", "confluent")
TO_BEAT = ("aiokafka", "kafka-python")
SIZES = {"100 B": 100, "1 KB": 1000}

Reading = dict[str, float]


def load(client: str, work: str, bootstrap: str, topic: str, count: int, size: int) -> Reading:
    words = [sys.executable, "-m", "benchmarks._client_load", client, work, bootstrap, topic]
    done = subprocess.run(
        [*words, str(count), str(size)], stdout=subprocess.PIPE, text=True, check=True, timeout=600
    )
    reading: Reading = json.loads(done.stdout)
    return reading


def new_topic(admin: AdminClient) -> str:
    name = f"bench-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


class Readings:
    """What every client took, by the name of the row."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, list[float]]] = {}

    def add(self, row: str, client: str, value: float) -> None:
        self._found.setdefault(row, {}).setdefault(client, []).append(value)

    def rows(self) -> Iterator[Row]:
        """Ours beside the better of those to beat, with all medians."""
        for name, clients in self._found.items():
            is_rate = name.startswith("records")
            pick = max if is_rate else min
            rival = pick(TO_BEAT, key=lambda client: median(clients[client]))
            medians = {client: round(median(found), 2) for client, found in clients.items()}
            yield beside(
                name,
                clients["odradek"],
                "1/s" if is_rate else "us",
                peer=rival,
                peer_readings=clients[rival],
                at_least=1.0 if is_rate else None,
                at_most=None if is_rate else 1.0,
                clients=medians,
            )


def measure(bootstrap: str, *, rounds: int, count: int) -> Readings:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    readings = Readings()
    for size_name, size in SIZES.items():
        filled = new_topic(admin)
        load("confluent", "fill", bootstrap, filled, count, size)
        for _ in range(rounds):
            for client in CLIENTS:
                target = new_topic(admin)
                for work, topic in (("produce", target), ("poll", filled), ("iterate", filled)):
                    found = load(client, work, bootstrap, topic, count, size)
                    name = f"{work}, {size_name}"
                    readings.add(f"records a second, {name}", client, count / found["seconds"])
                    readings.add(f"CPU a record, {name}", client, found["cpu"] / count * 1e6)
    mixed = new_topic(admin)
    load("confluent", "mixed", bootstrap, mixed, count, 100)
    for _ in range(rounds):
        for client in CLIENTS:
            for work in ("poll", "iterate"):
                found = load(client, work, bootstrap, mixed, count, 100)
                name = f"{work}, 50 to 150 B"
                readings.add(f"records a second, {name}", client, count / found["seconds"])
                readings.add(f"CPU a record, {name}", client, found["cpu"] / count * 1e6)
    return readings


def measure_latency(bootstrap: str, readings: Readings, *, rounds: int, sends: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for _ in range(rounds):
        for client in CLIENTS:
            found = load(client, "latency", bootstrap, new_topic(admin), sends, 100)
            for name, seconds in found.items():
                readings.add(f"send and wait, {name}", client, seconds * 1e6)


def apart(pid: int) -> None:
    """Keep a broker away from the core its clients keep to while they wait for single sends."""
    cores = os.sched_getaffinity(pid)
    if len(cores) > 1:
        os.sched_setaffinity(pid, cores - {max(cores)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--bootstrap", help="measure against this broker instead of one of ours")
    arguments = parser.parse_args()
    if arguments.quick:
        rounds, count, sends = 1, 20_000, 1000
    else:
        rounds, count, sends = 3, 100_000, 3000
    if arguments.bootstrap:
        readings = measure(arguments.bootstrap, rounds=rounds, count=count)
        measure_latency(arguments.bootstrap, readings, rounds=2 * rounds + 1, sends=sends)
    else:
        with _brokers.odradek() as broker:
            readings = measure(broker.bootstrap, rounds=rounds, count=count)
            apart(_brokers.pid_of(broker))
            measure_latency(broker.bootstrap, readings, rounds=2 * rounds + 1, sends=sends)
    rows = list(readings.rows())
    for row in rows:
        print(f"{row['name']:42} {row['clients']}  met={row['met']}", file=sys.stderr)
    print(json.dumps({"python": platform.python_version(), "rows": rows}))


if __name__ == "__main__":
    main()
