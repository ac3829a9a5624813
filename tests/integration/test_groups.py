"""Groups of real clients on our broker: sharing, churn, restarts of members and of the broker."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.group_party import Member, Party
from tests.support.odradek import OdradekBroker

CHURN_SECONDS = 60.0
CHURN_MEMBERS = 10
CHURNING = ("confluent", "java-4.2", "aiokafka", "franz-go", "kafkajs", "kafka-python", "sarama")

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    with OdradekBroker(tmp_path_factory.mktemp("odradek")) as started:
        yield started
        assert started.process is not None
        assert not [line for line in started.process.output if "Traceback" in line]


@pytest.fixture
def party(broker: OdradekBroker, fresh: Fresh) -> Iterator[Party]:
    with Party(broker.bootstrap, fresh("party")) as made:
        yield made


EAGER = ("range", "roundrobin", "sticky")
ASSIGNORS = {
    "confluent": ("range", "roundrobin", "cooperative-sticky"),
    "kafka-python": EAGER,
    "aiokafka": EAGER,
    "odradek": (*EAGER, "cooperative-sticky"),
    "java-3.9": (*EAGER, "cooperative-sticky"),
    "java-4.2": (*EAGER, "cooperative-sticky"),
    "franz-go": (*EAGER, "cooperative-sticky"),
    "sarama": (*EAGER, "cooperative-sticky"),
    "kafka-go": ("range", "roundrobin"),
    "kafkajs": ("RoundRobinAssigner",),
}


@pytest.mark.parametrize("library", ASSIGNORS)
def test_members_share_come_and_go(broker: OdradekBroker, fresh: Fresh, library: str) -> None:
    """A group for each assignor, side by side: most of a group's time is waiting."""
    assignors = ASSIGNORS[library]
    with ExitStack() as stack, ThreadPoolExecutor(len(assignors)) as pool:
        parties = [stack.enter_context(Party(broker.bootstrap, fresh(name))) for name in assignors]
        rounds = [
            pool.submit(party.come_and_go, library, assignor)
            for party, assignor in zip(parties, assignors, strict=True)
        ]
        for ended in rounds:
            ended.result()


def test_clients_of_all_libraries_share_one_group(broker: OdradekBroker, fresh: Fresh) -> None:
    # But kafka-go: it leaves a field out that its version of a subscription has, and reads none
    # that has it, so on no broker does it get along with others.
    libraries = [library for library in ASSIGNORS if library != "kafka-go"]
    with Party(broker.bootstrap, fresh("all"), partitions=len(libraries)) as party:
        members = [party.join(library) for library in libraries]
        party.wait_shared(members, each=1)
        party.send(600)
        party.wait_all_read()


def test_churn_loses_no_record_and_gives_no_partition_twice(
    broker: OdradekBroker, fresh: Fresh
) -> None:
    chance = random.Random(1)
    libraries = [*CHURNING, *(chance.choice(CHURNING) for _ in range(CHURN_MEMBERS))]
    with Party(broker.bootstrap, fresh("churn"), partitions=20) as party:
        members = [party.join(library) for library in libraries[:CHURN_MEMBERS]]
        end = time.monotonic() + CHURN_SECONDS
        stable_seen = 0
        while time.monotonic() < end:
            _replace_one(party, members, chance)
            for _ in range(20):
                party.send(50)
                stable_seen += _check_ownership(party)
                time.sleep(0.1)
        party.wait_all_read(timeout=90)
        assert stable_seen > 0, "the group must have been Stable now and then"
        party.wait(lambda: _is_settled(party), "the members that stayed hold everything")


def _replace_one(party: Party, members: list[Member], chance: random.Random) -> None:
    going = members.pop(chance.randrange(len(members)))
    if chance.random() < 0.5:
        going.process._popen.terminate()
    else:
        going.crash()
    members.append(party.join(chance.choice(CHURNING)))


def _check_ownership(party: Party) -> int:
    """In one generation no partition belongs to two members."""
    described = party.describe()
    if described.state.name != "STABLE":
        return 0
    held = _held(described)
    assert len(held) == len(set(held)), "a partition has two owners"
    return 1


def _is_settled(party: Party) -> bool:
    described = party.describe()
    is_whole = sorted(_held(described)) == list(range(party.partitions))
    return is_whole and described.state.name == "STABLE" and len(described.members) == CHURN_MEMBERS


def _held(described: Any) -> list[int]:
    return [
        partition.partition
        for member in described.members
        for partition in member.assignment.topic_partitions
    ]


@pytest.mark.parametrize(
    "library", ["confluent", "kafka-python", "java-3.9", "java-4.2", "franz-go", "sarama"]
)
def test_a_static_member_restarts_without_a_rebalance(party: Party, library: str) -> None:
    stays = party.join(library, instance="stays")
    goes = party.join(library, instance="goes")
    party.wait_shared([stays, goes], each=3)
    held, changes = goes.assigned, len(stays.changes)
    goes.crash()
    back = party.join(library, instance="goes")
    party.wait(lambda: bool(back.assigned), "the member is back")
    assert back.assigned == held
    party.send(60)
    party.wait_all_read()
    assert len(stays.changes) == changes


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_broker_that_restarts_resumes_from_committed_offsets(
    tmp_path: Path, fresh: Fresh, is_crash: bool
) -> None:
    with (
        OdradekBroker(tmp_path / "data") as broker,
        Party(broker.bootstrap, fresh("back")) as party,
    ):
        party.send(600)
        wanted = [TopicPartition(party.topic, number, 40) for number in range(6)]
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": party.group}
        consumer = Consumer(settings)
        consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()
        if is_crash:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        assert party.committed() == dict.fromkeys(range(6), 40)
        member = party.join("confluent")
        party.wait(lambda: len(member.records) >= 360, "the rest is read")
        assert min(offset for _, offset in member.records) == 40


def test_a_group_lives_through_a_restart_of_its_broker(tmp_path: Path, fresh: Fresh) -> None:
    with (
        OdradekBroker(tmp_path / "data") as broker,
        Party(broker.bootstrap, fresh("live")) as party,
    ):
        members = [party.join("confluent"), party.join("confluent")]
        party.wait_shared(members, each=3)
        party.send(60)
        party.wait_all_read()
        broker.stop()
        broker.start()
        party.send(60)
        party.wait_all_read()


def test_deleting_a_topic_deletes_its_committed_offsets(party: Party) -> None:
    party.send(6)
    consumer = Consumer({"bootstrap.servers": party.bootstrap, "group.id": party.group})
    consumer.commit(offsets=[TopicPartition(party.topic, 0, 1)], asynchronous=False)
    consumer.close()
    party.admin.delete_topics([party.topic])[party.topic].result()
    party.wait(
        lambda: (
            party.admin.list_consumer_group_offsets([_asks_all(party.group)])[party.group]
            .result()
            .topic_partitions
            == []
        ),
        "the offsets are gone",
    )


def _asks_all(group: str) -> object:
    from confluent_kafka import ConsumerGroupTopicPartitions

    return ConsumerGroupTopicPartitions(group)
