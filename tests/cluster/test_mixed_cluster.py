"""Brokers of ours and of Apache Kafka 3.9 in one cluster: each follows the other, and obeys it.

Nothing shows better that both speak the same language among themselves: registrations and states in
ZooKeeper, the controller's requests, fetches of followers, changes of in-sync replicas.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.support.cluster_processes import SESSION_MS, ProcessCluster
from tests.support.kafka import KafkaBroker
from tests.support.load import Load, check_nothing_lost
from tests.support.odradek import OdradekBroker

_numbers = count()
KAFKA = 3
PARTITIONS = range(6)
SETTINGS = {"zookeeper.session.timeout.ms": SESSION_MS, "replica.lag.time.max.ms": 3000}


@contextmanager
def mixed(folder: Path, connect: str, *, kafka_first: bool) -> Iterator[tuple]:
    """Two brokers of ours and one of Kafka. Who comes first is controller."""
    cluster = ProcessCluster(folder / "ours", connect, 2)
    kafka = KafkaBroker(folder, zookeeper=connect, broker_id=KAFKA, overrides=SETTINGS)
    try:
        if kafka_first:
            kafka.start()
        with cluster:
            if not kafka_first:
                kafka.start()
            yield cluster, kafka
    finally:
        kafka.kill()


@pytest.mark.parametrize("kafka_first", [False, True], ids=["our controller", "Kafka's controller"])
def test_records_are_copied_both_ways_and_leaders_fail_over_both_ways(
    zookeeper, tmp_path, kafka_first
):
    connect = f"{zookeeper.connect}/mixed-{next(_numbers)}"
    with mixed(tmp_path, connect, kafka_first=kafka_first) as (cluster, kafka):
        assert (cluster.controller() == KAFKA) is kafka_first
        bootstrap = f"{cluster.bootstrap},{kafka.bootstrap}"
        cluster.make("t", partitions=len(PARTITIONS), replicas=3, **{"min.insync.replicas": "2"})
        leaders = {partition.leader for partition in cluster.partitions("t").values()}
        assert leaders == {1, 2, KAFKA}
        load = Load(bootstrap, "t")
        load.wait_for_progress(PARTITIONS)
        cluster.stop(1)
        cluster.until("t", lambda p: p.leader not in (-1, 1))
        load.wait_for_progress(PARTITIONS)
        cluster.start(1)
        cluster.until("t", lambda p: len(p.isr) == 3)
        kafka.stop()
        cluster.until("t", lambda p: p.leader not in (-1, KAFKA))
        assert cluster.controller() != KAFKA
        load.wait_for_progress(PARTITIONS)
        kafka.start()
        cluster.until("t", lambda p: len(p.isr) == 3)
        load.wait_for_progress(PARTITIONS)
        check_nothing_lost(bootstrap, "t", len(PARTITIONS), load.finish())
        assert not cluster.alarms()


def test_a_broker_of_kafka_is_replaced_by_one_of_ours_on_its_files_and_back(zookeeper, tmp_path):
    connect = f"{zookeeper.connect}/mixed-{next(_numbers)}"
    with mixed(tmp_path, connect, kafka_first=True) as (cluster, kafka):
        bootstrap = f"{cluster.bootstrap},{kafka.bootstrap}"
        cluster.make("t", partitions=len(PARTITIONS), replicas=3, **{"min.insync.replicas": "2"})
        load = Load(bootstrap, "t")
        load.wait_for_progress(PARTITIONS)
        kafka.stop()
        settings = {**SETTINGS, "zookeeper.connect": connect, "broker.id": KAFKA}
        with OdradekBroker(kafka.log_dir, overrides=settings) as successor:
            cluster.until("t", lambda p: len(p.isr) == 3)
            load.wait_for_progress(PARTITIONS)
            successor.stop()
        kafka.start()
        cluster.until("t", lambda p: len(p.isr) == 3)
        load.wait_for_progress(PARTITIONS)
        check_nothing_lost(bootstrap, "t", len(PARTITIONS), load.finish())
        assert not cluster.alarms()
