"""Four brokers, every partition on all of them, two in sync for an acknowledgement: how much may be
lost before writers must wait, and that nothing acknowledged is lost when more is."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import Self

import pytest
from confluent_kafka import KafkaError, Message, Producer
from odradek.protocol.errors import Errors
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

from tests.support.cluster_processes import ProcessCluster
from tests.support.load import Load, check_nothing_lost
from tests.support.raw_client import RawClient

_numbers = count()
ALL = [1, 2, 3, 4]
PARTITIONS = range(12)


@pytest.fixture(scope="module")
def shared(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/four-{next(_numbers)}"
    settings = {"leader.imbalance.check.interval.seconds": 1}
    directory = tmp_path_factory.mktemp("cluster")
    with ProcessCluster(directory, connect, len(ALL), overrides=settings) as made:
        yield made


@pytest.fixture
def cluster(shared: ProcessCluster) -> Iterator[ProcessCluster]:
    yield shared
    assert shared.awake == ALL
    assert not shared.alarms()


def begin(cluster: ProcessCluster, topic: str) -> Load:
    cluster.make(
        topic, partitions=len(PARTITIONS), replicas=len(ALL), **{"min.insync.replicas": "2"}
    )
    load = Load(cluster.bootstrap, topic)
    load.wait_for_progress(PARTITIONS)
    return load


def end(cluster: ProcessCluster, topic: str, load: Load) -> None:
    cluster.until(topic, lambda p: len(p.isr) == len(ALL))
    load.wait_for_progress(PARTITIONS)
    check_nothing_lost(cluster.bootstrap, topic, len(PARTITIONS), load.finish())


class Counts:
    """Asks one broker all the time how many partitions a topic has."""

    def __init__(self, cluster: ProcessCluster, topic: str, number: int) -> None:
        self._cluster, self._topic, self._number = cluster, topic, number
        self.seen: set[int] = set()
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            with suppress(OSError):  # it does not listen yet
                self.seen.add(len(self._cluster.partitions(self._topic, self._number)))


def outcome_of_one_write(bootstrap: str, topic: str) -> str:
    """What a producer that does not try again is told."""
    outcomes: list[str] = []

    def note(error: KafkaError | None, _: Message) -> None:
        outcomes.append("taken" if error is None else error.name())

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "retries": 0, "log_level": 2}
    producer = Producer(settings)
    producer.produce(topic, b"not a number that counts", partition=0, on_delivery=note)
    producer.flush(30)
    return outcomes[0]


def test_two_of_four_may_die_and_of_three_the_last_one_takes_nothing(cluster):
    load = begin(cluster, "dying")
    last = cluster.controller()
    first, second, third = (number for number in ALL if number != last)
    cluster.kill(first)
    cluster.kill(second)
    cluster.until("dying", lambda p: set(p.isr) == {third, last})
    load.wait_for_progress(PARTITIONS)
    cluster.kill(third)
    cluster.until("dying", lambda p: (p.leader, p.isr) == (last, (last,)))
    refused = outcome_of_one_write(cluster.brokers[last].bootstrap, "dying")
    assert refused == "NOT_ENOUGH_REPLICAS"
    cluster.start(third)
    load.wait_for_progress(PARTITIONS)
    cluster.start(first)
    cluster.start(second)
    end(cluster, "dying", load)


def test_preferred_leaders_lead_again_after_a_rolling_restart(cluster):
    load = begin(cluster, "restored")
    for number in ALL:
        cluster.stop(number)
        load.wait_for_progress(PARTITIONS)
        cluster.start(number)
        cluster.until("restored", lambda p: len(p.isr) == len(ALL))
    cluster.until("restored", lambda p: p.leader == p.replicas[0])
    end(cluster, "restored", load)


def test_a_broker_that_is_back_before_its_session_ended_loses_nothing(cluster):
    load = begin(cluster, "bounced")
    for number in (cluster.partitions("bounced")[0].leader, cluster.controller()):
        cluster.kill(number)
        with Counts(cluster, "bounced", number) as counts:
            cluster.start(number)
            load.wait_for_progress(PARTITIONS)
        # A client that was told of fewer would take the others for gone.
        assert counts.seen == {len(PARTITIONS)}
    end(cluster, "bounced", load)


def test_a_frozen_controller_does_no_harm_when_it_wakes(cluster):
    load = begin(cluster, "asleep")
    controller = cluster.controller()
    with cluster.frozen(controller):
        cluster.until("asleep", lambda p: p.leader not in (-1, controller))
        assert cluster.controller() != controller
        cluster.make("meanwhile", partitions=3, replicas=3)
    end(cluster, "asleep", load)
    cluster.until("meanwhile", lambda p: len(p.isr) == 3)


def test_a_broker_that_slept_through_a_move_and_a_deletion_forgets_both(cluster):
    sleeper, *others = sorted(ALL, key=lambda number: number == cluster.controller())
    cluster.make("moving", partitions=1, replicas=3, placed=[[sleeper, *others[:2]]])
    cluster.make("going", partitions=1, replicas=3, placed=[others])
    with cluster.frozen(sleeper):
        cluster.until("moving", lambda p: p.leader not in (-1, sleeper))
        cluster.move("moving", 0, others)
        cluster.until("moving", lambda p: sorted(p.isr) == sorted(others))
        cluster.delete("going")
        cluster.until_seen("going", lambda views: not any(views))
    cluster.until("moving", lambda p: sorted(p.replicas) == sorted(others))
    cluster.until_seen("going", lambda views: not any(views))
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="moving", partitions=[asked])]
    )
    with RawClient(cluster.brokers[sleeper].port) as client:
        response = client.ask(request, 4)
    assert isinstance(response, ListOffsetsResponse)
    assert response.topics[0].partitions[0].error_code == Errors.NOT_LEADER_OR_FOLLOWER


def test_all_brokers_at_once_may_be_killed(cluster):
    load = begin(cluster, "dark")
    cluster.each(cluster.kill)
    cluster.each(cluster.start)
    end(cluster, "dark", load)
