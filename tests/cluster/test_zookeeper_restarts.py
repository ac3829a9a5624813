"""ZooKeeper goes away and comes back, under load: leaders go on leading, nobody loses anything."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_processes import ProcessCluster
from tests.support.load import Load, check_nothing_lost
from tests.support.zookeeper import ZooKeeper

PARTITIONS = range(6)


@pytest.fixture(scope="module")
def own_zookeeper(tmp_path_factory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(own_zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("cluster"), own_zookeeper.connect, 3) as made:
        yield made
        assert not made.alarms()


def begin(cluster: ProcessCluster, topic: str) -> Load:
    cluster.make(topic, partitions=len(PARTITIONS), replicas=3, **{"min.insync.replicas": "2"})
    load = Load(cluster.bootstrap, topic)
    load.wait_for_progress(PARTITIONS)
    return load


def end(cluster: ProcessCluster, topic: str, load: Load) -> None:
    cluster.until(topic, lambda p: len(p.isr) == 3)
    cluster.make(f"after-{topic}", partitions=3, replicas=3)
    load.wait_for_progress(PARTITIONS)
    check_nothing_lost(cluster.bootstrap, topic, len(PARTITIONS), load.finish())


def test_a_restart_of_zookeeper_is_not_noticed_by_writers(cluster, own_zookeeper):
    load = begin(cluster, "restart")
    own_zookeeper.kill()
    load.wait_for_progress(PARTITIONS)
    own_zookeeper.start()
    end(cluster, "restart", load)


def test_writers_go_on_without_zookeeper_for_longer_than_a_session(cluster, own_zookeeper):
    load = begin(cluster, "absence")
    own_zookeeper.kill()
    for broker in cluster.brokers.values():
        assert broker.process is not None
        broker.process.wait_for_line("session with the metadata store is lost", timeout=60)
    load.wait_for_progress(PARTITIONS)
    own_zookeeper.start()
    end(cluster, "absence", load)


def test_a_broker_that_dies_while_zookeeper_is_away_is_replaced_afterwards(cluster, own_zookeeper):
    load = begin(cluster, "both")
    victim = cluster.partitions("both")[0].leader
    own_zookeeper.kill()
    cluster.kill(victim)
    own_zookeeper.start()
    cluster.until("both", lambda p: p.leader not in (-1, victim))
    load.wait_for_progress(PARTITIONS)
    cluster.start(victim)
    end(cluster, "both", load)
