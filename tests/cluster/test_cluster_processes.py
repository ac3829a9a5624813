"""Brokers as processes on a real ZooKeeper: nothing acknowledged is lost, whatever is killed."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.cluster_processes import ProcessCluster
from tests.support.load import GroupReader, Load, check_nothing_lost

_numbers = count()
PARTITIONS = range(6)


@pytest.fixture(scope="module")
def shared(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/processes-{next(_numbers)}"
    with ProcessCluster(tmp_path_factory.mktemp("cluster"), connect, 3) as made:
        yield made


@pytest.fixture
def cluster(shared: ProcessCluster) -> Iterator[ProcessCluster]:
    yield shared
    assert shared.awake == [1, 2, 3]
    assert not shared.alarms()


def begin(cluster: ProcessCluster, topic: str) -> Load:
    cluster.make(topic, partitions=len(PARTITIONS), replicas=3, **{"min.insync.replicas": "2"})
    load = Load(cluster.bootstrap, topic)
    load.wait_for_progress(PARTITIONS)
    return load


def end(cluster: ProcessCluster, topic: str, load: Load) -> None:
    cluster.until(topic, lambda p: len(p.isr) == 3)
    load.wait_for_progress(PARTITIONS)
    check_nothing_lost(cluster.bootstrap, topic, len(PARTITIONS), load.finish())


def test_a_killed_leader_is_replaced_and_nothing_is_lost(cluster):
    load = begin(cluster, "killed")
    leader = cluster.partitions("killed")[0].leader
    cluster.kill(leader)
    cluster.until("killed", lambda p: p.leader not in (-1, leader))
    load.wait_for_progress(PARTITIONS)
    cluster.start(leader)
    end(cluster, "killed", load)


def test_a_killed_controller_is_replaced(cluster):
    load = begin(cluster, "uncontrolled")
    controller = cluster.controller()
    cluster.kill(controller)
    cluster.until("uncontrolled", lambda p: p.leader not in (-1, controller))
    assert cluster.controller() != controller
    load.wait_for_progress(PARTITIONS)
    cluster.start(controller)
    end(cluster, "uncontrolled", load)


def test_a_rolling_restart_is_not_noticed_by_an_idempotent_producer(cluster):
    load = begin(cluster, "rolled")
    for number in cluster.brokers:
        cluster.stop(number)
        load.wait_for_progress(PARTITIONS)
        cluster.start(number)
        cluster.until("rolled", lambda p: len(p.isr) == 3)
    end(cluster, "rolled", load)


def test_a_rolling_restart_neither_rebalances_a_group_nor_makes_it_miss_anything(cluster):
    load = begin(cluster, "followed")
    reader = GroupReader(cluster.bootstrap, "followed", "steady")
    reader.wait_for(list(load.written.acked))
    for number in cluster.brokers:
        cluster.stop(number)
        load.wait_for_progress(PARTITIONS)
        cluster.start(number)
        cluster.until("followed", lambda p: len(p.isr) == 3)
        cluster.until("__consumer_offsets", lambda p: len(p.isr) == 3)
    reader.wait_for(load.finish().acked)
    reader.finish()
    assert not reader.errors
    assert reader.assignments == 1


def test_a_leader_that_was_frozen_beyond_its_session_loses_nothing_when_it_wakes(cluster):
    load = begin(cluster, "frozen")
    leader = cluster.partitions("frozen")[0].leader
    with cluster.frozen(leader):
        cluster.until("frozen", lambda p: p.leader not in (-1, leader))
    end(cluster, "frozen", load)
