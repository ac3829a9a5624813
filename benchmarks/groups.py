"""What do consumer groups cost, and how long does a rebalance take?

- steady: the share of one core that the broker uses for 1,000 members in 100 groups, each member
  on a connection of its own, with a heartbeat a second each and 2,000 commits a second together;
- rebalance: seconds for a group of 100 members from the moment that 99 join the first until
  everybody has an assignment, and from the leader's next join until all have another one.

`floor` is the steady load on a server that only receives and sends (see `_floor`). `--kafka`
measures Apache Kafka 3.9 beside it, after a warm-up of the same load.
"""

import argparse
import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._brokers import KAFKA_NAME, Broker, cpu_seconds, kafka, odradek, rss_mb
from benchmarks._floor import bare_server
from benchmarks._group_load import TOPIC, Load, Member, Rates, gather, rebalance

GROUPS, MEMBERS_PER_GROUP = 100, 10
RATES = Rates(heartbeats_per_second=1000, commits_per_second=2000)
BIG_GROUP = 100


def prepare(broker: Broker) -> None:
    """A topic to commit to, and a coordinator that is awake."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 10, 1)])[TOPIC].result()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "first"})
    consumer.committed([Place(TOPIC, 0)], timeout=30)
    consumer.close()


def steady(broker: Broker, groups: int, seconds: float, warm_up: float) -> dict[str, Any]:
    """What a broker uses for members that have joined their groups."""
    members: list[Member] = []
    for number in range(groups):
        group = new_group(broker, number)
        gather(group)
        members += group
    return paced(broker, members, seconds, warm_up)


def floor(groups: int, seconds: float) -> dict[str, Any]:
    """What the same frames at the same pace take of a server that only sends them back."""
    with bare_server() as bare:
        members = [member for number in range(groups) for member in new_group(bare, number)]
        return paced(bare, members, seconds, warm_up=1)


def new_group(broker: Broker, number: int) -> list[Member]:
    return [Member(broker.port, f"group-{number}") for _ in range(MEMBERS_PER_GROUP)]


def paced(broker: Broker, members: list[Member], seconds: float, warm_up: float) -> dict[str, Any]:
    load = Load(members, RATES)
    load.run(warm_up)
    before, began = cpu_seconds(broker), time.monotonic()
    sent = load.sent
    load.run(seconds)
    passed = time.monotonic() - began
    used = cpu_seconds(broker) - before
    assert load.answered == load.sent, "every request was answered"
    return {
        "members": len(members),
        "requests_per_second": round((load.sent - sent) / passed),
        "core_share_percent": round(100 * used / passed, 1),
        "us_per_request": round(used / (load.sent - sent) * 1e6, 1),
        "rss_mb": round(rss_mb(broker), 1),
    }


def big_group(broker: Broker) -> dict[str, Any]:
    members = [Member(broker.port, "big") for _ in range(BIG_GROUP)]
    first = gather(members)
    again = [rebalance(members) for _ in range(3)]
    return {
        "members": BIG_GROUP,
        "first_seconds": round(first, 3),
        "again_seconds": [round(seconds, 3) for seconds in again],
    }


def measure(broker: Broker, groups: int, seconds: float, warm_up: float) -> dict[str, Any]:
    prepare(broker)
    rebalances = big_group(broker)
    return {"rebalance": rebalances, "steady": steady(broker, groups, seconds, warm_up)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka too")
    arguments = parser.parse_args()
    groups, seconds = (10, 2.0) if arguments.quick else (GROUPS, 15.0)
    results: dict[str, Any] = {"floor": {"steady": floor(groups, seconds)}}
    with odradek() as ours:
        results["odradek"] = measure(ours, groups, seconds, warm_up=1)
    if arguments.kafka:
        with kafka() as theirs:
            results[KAFKA_NAME] = measure(theirs, groups, seconds, warm_up=15)
    for name, result in results.items():
        print(name, *(f"{part}: {found}" for part, found in result.items()), file=sys.stderr)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
