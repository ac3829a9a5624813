"""What do consumer groups cost, and how long does a rebalance take?

- steady: the share of one core that the broker uses for 1,000 members in 100 groups, each member
  on a connection of its own, with a heartbeat a second each and 2,000 commits a second together;
- rebalance: seconds for a group of 100 members from the moment that 99 join the first until
  everybody has an assignment, and from the leader's next join until all have another one.

`--kafka` measures Apache Kafka 3.9 beside it, after a warm-up of the same load.
"""

import argparse
import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks._brokers import KAFKA_NAME, Broker, cpu_seconds, kafka, odradek, rss_mb
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
    members: list[Member] = []
    for number in range(groups):
        group = [Member(broker.port, f"group-{number}") for _ in range(MEMBERS_PER_GROUP)]
        gather(group)
        members += group
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


def measure(broker: Broker, *, quick: bool, warm_up: float) -> dict[str, Any]:
    prepare(broker)
    rebalances = big_group(broker)
    groups, seconds = (10, 2.0) if quick else (GROUPS, 15.0)
    return {"rebalance": rebalances, "steady": steady(broker, groups, seconds, warm_up)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers")
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka too")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with odradek() as ours:
        results["odradek"] = measure(ours, quick=arguments.quick, warm_up=1)
    if arguments.kafka:
        with kafka() as theirs:
            results[KAFKA_NAME] = measure(theirs, quick=arguments.quick, warm_up=15)
    for name, result in results.items():
        print(f"{name}: {result['steady']}, {result['rebalance']}", file=sys.stderr)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
