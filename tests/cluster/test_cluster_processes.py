"""Brokers as processes on a real ZooKeeper: nothing acknowledged is lost, whatever is killed."""

import time
from collections.abc import Iterator
from itertools import count
from threading import Event, Thread

import pytest

from tests.support.cluster_processes import ProcessCluster
from tests.support.records import Writer, Written, read_all

_numbers = count()
PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/processes-{next(_numbers)}"
    with ProcessCluster(tmp_path_factory.mktemp("cluster"), connect, 3) as made:
        yield made


class Load:
    """Writes numbers all the time, about a thousand a second, until it is told to stop."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        self._writer = Writer(cluster.bootstrap, topic)
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        numbers = count()
        while not self._stop.wait(0.01):
            self._writer.write(next(numbers) for _ in range(10))

    @property
    def acked(self) -> int:
        return len(self._writer.written.acked)

    def wait_for_progress(self, seconds: float = 30.0) -> float:
        """Until more records are acknowledged; how long that took."""
        begun, before = time.monotonic(), self.acked
        while self.acked <= before:
            assert time.monotonic() < begun + seconds, f"no record was taken for {seconds} s"
            time.sleep(0.01)
        return time.monotonic() - begun

    def finish(self) -> Written:
        self._stop.set()
        self._thread.join()
        return self._writer.finish()


def check_nothing_lost(cluster: ProcessCluster, topic: str, written: Written) -> None:
    assert not written.failed
    read = read_all(cluster.bootstrap, topic, PARTITIONS)
    assert len(read) == len(set(read)), "a record is there twice"
    assert set(read) == set(written.acked)


def begin(cluster: ProcessCluster, topic: str) -> Load:
    cluster.make(topic, partitions=PARTITIONS, replicas=3, **{"min.insync.replicas": "2"})
    load = Load(cluster, topic)
    load.wait_for_progress()
    return load


def test_a_killed_leader_is_replaced_and_nothing_is_lost(cluster):
    load = begin(cluster, "killed")
    leader = cluster.partitions("killed")[0].leader
    cluster.brokers[leader].kill()
    cluster.until("killed", lambda p: p.leader not in (-1, leader))
    load.wait_for_progress()
    cluster.brokers[leader].start()
    cluster.until("killed", lambda p: len(p.isrs) == 3)
    check_nothing_lost(cluster, "killed", load.finish())


def test_a_killed_controller_is_replaced(cluster):
    load = begin(cluster, "uncontrolled")
    controller = cluster.controller()
    cluster.brokers[controller].kill()
    cluster.until("uncontrolled", lambda p: p.leader not in (-1, controller))
    assert cluster.controller() != controller
    cluster.brokers[controller].start()
    cluster.until("uncontrolled", lambda p: len(p.isrs) == 3)
    check_nothing_lost(cluster, "uncontrolled", load.finish())


def test_a_rolling_restart_is_not_noticed_by_an_idempotent_producer(cluster):
    load = begin(cluster, "rolled")
    for broker in cluster.brokers.values():
        broker.stop()
        load.wait_for_progress()
        broker.start()
        cluster.until("rolled", lambda p: len(p.isrs) == 3)
    check_nothing_lost(cluster, "rolled", load.finish())


def test_a_leader_that_was_frozen_beyond_its_session_loses_nothing_when_it_wakes(cluster):
    load = begin(cluster, "frozen")
    leader = cluster.partitions("frozen")[0].leader
    process = cluster.brokers[leader].process
    assert process is not None
    process.pause()
    try:
        cluster.until("frozen", lambda p: p.leader not in (-1, leader))
        load.wait_for_progress()
    finally:
        process.resume()
    cluster.until("frozen", lambda p: len(p.isrs) == 3)
    load.wait_for_progress()
    check_nothing_lost(cluster, "frozen", load.finish())
