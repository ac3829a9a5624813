"""Groups of the consumer protocol with real clients: sharing, churn, restarts, both protocols."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from odradek.protocol.errors import Errors

from tests.behaviours.consumer_asking import Consumer as RawConsumer
from tests.integration.group_party import Member, Party
from tests.support.odradek import OdradekBroker

# So that tests need not wait for heartbeats of 5 s, nor, where members crash, for sessions of 45 s.
PATIENT: Mapping[str, object] = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
}
QUICK: Mapping[str, object] = {
    **PATIENT,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
}
CONFLUENT, JAVA = "confluent-consumer", "java-consumer"
CHURN_SECONDS = 40.0
CHURN_MEMBERS = 6

Fresh = Callable[[str], str]

libraries = pytest.mark.parametrize(
    "library", [CONFLUENT, pytest.param(JAVA, marks=pytest.mark.needs("java-clients"))]
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    with OdradekBroker(tmp_path_factory.mktemp("odradek"), overrides=QUICK) as started:
        yield started
        assert started.process is not None
        assert not [line for line in started.process.output if "Traceback" in line]


@pytest.fixture
def party(broker: OdradekBroker, fresh: Fresh) -> Iterator[Party]:
    with Party(broker.bootstrap, fresh("consumers")) as made:
        yield made


@pytest.fixture
def patient_party(tmp_path: Path, fresh: Fresh) -> Iterator[Party]:
    """On a broker that gives members the time to come back."""
    with (
        OdradekBroker(tmp_path / "data", overrides=PATIENT) as broker,
        Party(broker.bootstrap, fresh("patient")) as made,
    ):
        yield made


@libraries
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_come_and_go(party: Party, library: str, assignor: str) -> None:
    party.come_and_go(library, assignor)


def test_clients_of_both_libraries_share_one_group(party: Party) -> None:
    members = [party.join(library, "uniform") for library in (CONFLUENT, JAVA)]
    party.wait_shared(members, each=3)
    party.send(600)
    party.wait_all_read()


@libraries
def test_a_static_member_restarts_without_a_rebalance(patient_party: Party, library: str) -> None:
    party = patient_party
    stays = party.join(library, "uniform", instance="stays")
    goes = party.join(library, "uniform", instance="goes")
    party.wait_shared([stays, goes], each=3)
    held, changes = goes.assigned, len(stays.changes)
    goes.leave()
    back = party.join(library, "uniform", instance="goes")
    party.wait(lambda: bool(back.assigned), "the member is back")
    assert back.assigned == held
    party.send(60)
    party.wait_all_read()
    assert len(stays.changes) == changes


@libraries
def test_a_group_lives_through_a_crash_of_its_broker(
    tmp_path: Path, fresh: Fresh, library: str
) -> None:
    with (
        OdradekBroker(tmp_path / "data", overrides=PATIENT) as broker,
        Party(broker.bootstrap, fresh("live")) as party,
    ):
        members = [party.join(library, "uniform"), party.join(library, "uniform")]
        party.wait_shared(members, each=3)
        party.send(60)
        party.wait_all_read()
        changes = [len(member.changes) for member in members]
        broker.kill()
        broker.start()
        party.send(60)
        party.wait_all_read()
        assert [len(member.changes) for member in members] == changes
        members.append(party.join(library, "uniform"))
        party.wait_shared(members, each=2)


@pytest.mark.parametrize("classic", ["confluent", "aiokafka"])
def test_a_group_is_moved_to_the_consumer_protocol_and_back(party: Party, classic: str) -> None:
    """A rolling upgrade, and one that is taken back, while records flow."""
    old = [party.join(classic, "range"), party.join(classic, "range")]
    party.wait_shared(old, each=3)
    party.send(300)
    new = [party.join(CONFLUENT, "uniform")]
    party.wait_shared([*old, *new], each=2)
    party.send(300)
    old.pop().leave()
    party.wait_shared([*old, *new], each=3)
    new.append(party.join(CONFLUENT, "uniform"))
    old.pop().leave()
    party.wait_shared(new, each=3)
    party.send(300)
    old.append(party.join(classic, "range"))
    party.wait_shared([*old, *new], each=2)
    for member in new:
        member.leave()
    party.wait_shared(old, each=6)
    party.send(300)
    party.wait_all_read()


def test_churn_loses_no_record_and_gives_no_partition_twice(
    broker: OdradekBroker, fresh: Fresh
) -> None:
    chance = random.Random(1)
    libraries = [CONFLUENT, CONFLUENT, "confluent", "aiokafka"]
    with Party(broker.bootstrap, fresh("churn"), partitions=20) as party:
        members = [party.join(chance.choice(libraries), "range") for _ in range(CHURN_MEMBERS)]
        end = time.monotonic() + CHURN_SECONDS
        seen = 0
        while time.monotonic() < end:
            _replace_one(party, members, chance, libraries)
            for _ in range(20):
                party.send(50)
                seen += _check_ownership(party)
                time.sleep(0.1)
        party.wait_all_read(timeout=90)
        assert seen > 0, "somebody must have held something now and then"


def _replace_one(
    party: Party, members: list[Member], chance: random.Random, libraries: list[str]
) -> None:
    going = members.pop(chance.randrange(len(members)))
    if chance.random() < 0.5:
        going.process._popen.terminate()
    else:
        going.crash()
    members.append(party.join(chance.choice(libraries), "range"))


def _check_ownership(party: Party) -> int:
    """At no time does the coordinator take two members for holders of one partition."""
    held = [
        partition.partition
        for member in party.describe().members
        for partition in member.assignment.topic_partitions
    ]
    assert len(held) == len(set(held)), "a partition has two owners"
    return len(held)


@libraries
def test_members_want_topics_by_a_pattern(party: Party, library: str) -> None:
    pattern = f"^{party.topic[:-1]}[[:lower:]]$"
    members = [party.join(library, "uniform", wants=pattern) for _ in range(2)]
    party.wait_shared(members, each=3)
    party.send(60)
    party.wait_all_read()


def test_a_pattern_follows_the_topics(party: Party, fresh: Fresh) -> None:
    prefix = fresh("pattern")
    consumer = Consumer(
        {
            "bootstrap.servers": party.bootstrap,
            "group.id": party.group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([f"^{prefix}-[a-z]+$"])
    held: set[str] = set()

    def now_holds(*suffixes: str) -> bool:
        consumer.poll(0.2)
        held.clear()
        held.update(partition.topic for partition in consumer.assignment())
        return held == {f"{prefix}-{suffix}" for suffix in suffixes}

    party.admin.create_topics([NewTopic(f"{prefix}-a", 1, 1)])
    party.wait(lambda: now_holds("a"), "the topic is held")
    party.admin.create_topics([NewTopic(f"{prefix}-b", 1, 1)])
    party.wait(lambda: now_holds("a", "b"), "the new topic is held too")
    party.admin.delete_topics([f"{prefix}-a"])
    party.wait(lambda: now_holds("b"), "the deleted topic is given up")
    consumer.close()


def test_offsets_outlive_the_members(party: Party) -> None:
    party.send(60)
    member = party.join(CONFLUENT, "uniform")
    party.wait_all_read()
    member.leave()
    assert party.committed() == dict.fromkeys(range(6), 10)
    consumer = Consumer({"bootstrap.servers": party.bootstrap, "group.id": party.group})
    consumer.commit(offsets=[TopicPartition(party.topic, 0, 3)], asynchronous=False)
    consumer.close()
    assert party.committed()[0] == 3


def test_a_broker_may_serve_the_classic_protocol_alone(tmp_path: Path) -> None:
    protocols = {"group.coordinator.rebalance.protocols": "classic"}
    with (
        OdradekBroker(tmp_path / "data", overrides=protocols) as broker,
        RawConsumer(broker.port, "g", "a") as member,
    ):
        assert member.join("t").error_code == Errors.UNSUPPORTED_VERSION
        assert member.describe().error_code == Errors.UNSUPPORTED_VERSION
