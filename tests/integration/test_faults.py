"""Faults on demand, asked for in plain requests: what goes wrong is told as Kafka would tell it."""

import time
from collections.abc import Iterator
from typing import Any

import odradek.testing
import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.versions import ApiVersionsRequest
from odradek.protocol.registry import api
from odradek.protocol.schema import Array, Field, Fixed, Message, Nested, Records, Request, Text

from tests.behaviours.asking import Asker, batch

# Between brokers only.
NOT_FOR_CLIENTS = {4, 5, 6, 7, 56, 67}
# Answers that have no place for an error but in rows, of which there are none.
SILENT = {("DescribeLogDirs", version) for version in (0, 1, 2)}
ASKED_FOR = Errors.KAFKA_STORAGE_ERROR


@pytest.fixture(scope="module")
def whole_broker() -> Iterator[odradek.testing.Broker]:
    with odradek.testing.Broker(topics={"left": 2, "right": 2}) as broker:
        yield broker


@pytest.fixture
def broker(whole_broker: odradek.testing.Broker) -> Iterator[odradek.testing.Broker]:
    yield whole_broker
    whole_broker.faults.clear()


@pytest.fixture
def asker(broker: odradek.testing.Broker) -> Iterator[Asker]:
    asker = Asker(broker.port)
    yield asker
    asker.close()


# Every API ----------------------------------------------------------------------------------


def one_of_everything(message: type[Message], version: int) -> Message:
    """A message with one element in each of its arrays."""
    return message(**{field.name: some(field, version) for field in message.fields})


def some(field: Field, version: int) -> object:
    if version not in field.versions:
        return field.absent
    match field.kind:
        case Array(of=Nested(struct=struct)):
            return [one_of_everything(struct, version)]
        case Array(of=Text()):
            return ["left"]
        case Array(of=Fixed(zero=zero)):
            return [zero]
        case Nested(struct=struct):
            return one_of_everything(struct, version) if field.is_required else field.absent
        case Text():
            return "left"
        case Records():
            return b""
        case Fixed(zero=zero):
            return zero
        case _:
            return field.absent


def told_errors(message: Message) -> Iterator[int]:
    for field in message.fields:
        value: Any = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Message):
                yield from told_errors(part)


def test_every_api_tells_an_error_in_every_version(broker: odradek.testing.Broker) -> None:
    asker = Asker(broker.port)
    hello = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    served = asker.ask(hello, 3).api_keys
    asker.close()
    broker.faults.add(error=ASKED_FOR)
    silent = set()
    for entry in served:
        if entry.api_key in NOT_FOR_CLIENTS:
            continue
        for version in range(entry.min_version, entry.max_version + 1):
            request = one_of_everything(api(entry.api_key).request, version)
            assert isinstance(request, Request)
            if isinstance(request, ProduceRequest):
                request.acks = 1
            if isinstance(request, FetchRequest):
                request.replica_id = -1
            asker = Asker(broker.port)
            answer = asker.ask(request, version)
            asker.close()
            if ASKED_FOR not in told_errors(answer):
                silent.add((api(entry.api_key).name, version))
    assert silent == SILENT


# Errors of topics and partitions ------------------------------------------------------------


def produce_to(*partitions: tuple[str, int], acks: int = -1) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, TopicProduceData(name=name, partition_data=[]))
        topic.partition_data.append(PartitionProduceData(index=index, records=batch(b"v")))
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=list(topics.values()))


def produced(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, row.index): row.error_code
        for topic in answer.responses
        for row in topic.partition_responses
    }


def end_of(asker: Asker, topic: str, partition: int) -> int:
    row = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )
    offset: int = asker.ask(request, 5).topics[0].partitions[0].offset
    return offset


ALL_FOUR = [("left", 0), ("left", 1), ("right", 0), ("right", 1)]


@pytest.mark.parametrize(
    ("where", "hit"),
    [
        ({}, ALL_FOUR),
        ({"topic": "left"}, [("left", 0), ("left", 1)]),
        ({"topic": "left", "partition": 1}, [("left", 1)]),
        ({"partition": 0}, [("left", 0), ("right", 0)]),
        ({"client_id": "raw"}, ALL_FOUR),
        ({"client_id": "another"}, []),
        ({"topic": "nowhere"}, []),
        ({"group": "nobody"}, []),
    ],
)
def test_only_what_a_rule_names_is_refused_and_all_else_is_written(
    broker: odradek.testing.Broker, asker: Asker, where: dict[str, Any], hit: list[tuple[str, int]]
) -> None:
    rule = broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS", **where)
    before = {partition: end_of(asker, *partition) for partition in ALL_FOUR}
    told = produced(asker.ask(produce_to(*ALL_FOUR), 9))
    expected = {
        partition: Errors.NOT_ENOUGH_REPLICAS * (partition in hit) for partition in ALL_FOUR
    }
    assert told == expected
    grown = {p for p in ALL_FOUR if end_of(asker, *p) > before[p]}
    assert grown == set(ALL_FOUR) - set(hit)
    assert rule.hits == bool(hit)


def fetch_of(*partitions: tuple[str, int], ids: dict[str, bytes] | None = None) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for name, index in partitions:
        topic = topics.get(name)
        if topic is None:
            known = {"topic_id": ids[name]} if ids else {"topic": name}
            topic = topics[name] = FetchTopic(partitions=[], **known)
        row = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        topic.partitions.append(row)
    return FetchRequest(max_wait_ms=60_000, min_bytes=1 << 20, topics=list(topics.values()))


def fetched(answer: Any) -> dict[tuple[object, int], tuple[int, bool]]:
    """The error, and whether there are records, of each partition."""
    return {
        (topic.topic or topic.topic_id, row.partition_index): (row.error_code, bool(row.records))
        for topic in answer.responses
        for row in topic.partitions
    }


def ids_of(asker: Asker, *names: str) -> dict[str, bytes]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    return {topic.name: topic.topic_id for topic in asker.ask(request, 12).topics}


@pytest.mark.parametrize("version", [4, 11, 13])
def test_a_fetch_tells_the_error_of_one_topic_and_the_records_of_the_other(
    broker: odradek.testing.Broker, asker: Asker, version: int
) -> None:
    ids = ids_of(asker, "left", "right")
    asker.ask(produce_to(("left", 0), ("right", 0)), 9)
    names: dict[str, Any] = dict(ids) if version >= 13 else {name: name for name in ids}
    broker.faults.add(api="Fetch", topic="left", error="NOT_LEADER_OR_FOLLOWER")
    request = fetch_of(("left", 0), ("right", 0), ids=ids if version >= 13 else None)
    assert fetched(asker.ask(request, version)) == {
        (names["left"], 0): (Errors.NOT_LEADER_OR_FOLLOWER, False),
        (names["right"], 0): (Errors.NONE, True),
    }


def test_a_fetch_session_ends_when_some_of_its_partitions_shall_fail(
    broker: odradek.testing.Broker, asker: Asker
) -> None:
    asker.ask(produce_to(("left", 0)), 9)
    full = fetch_of(("left", 0))
    full.session_epoch, full.min_bytes = 0, 1
    session = asker.ask(full, 11).session_id
    assert session
    rule = broker.faults.add(api="Fetch", topic="left", error="NOT_LEADER_OR_FOLLOWER", times=1)
    next_one = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=1, topics=[]
    )
    assert asker.ask(next_one, 11).error_code == Errors.FETCH_SESSION_ID_NOT_FOUND
    assert rule.hits == 0
    refused = asker.ask(full, 11)
    assert refused.session_id == 0
    assert fetched(refused) == {("left", 0): (Errors.NOT_LEADER_OR_FOLLOWER, False)}
    assert rule.is_spent
    assert asker.ask(full, 11).session_id


@pytest.mark.parametrize("asked", [["left", "right"], None], ids=["named", "all"])
def test_metadata_keeps_its_brokers_and_spoils_one_topic(
    broker: odradek.testing.Broker, asker: Asker, asked: list[str] | None
) -> None:
    broker.faults.add(api="Metadata", topic="left", error="LEADER_NOT_AVAILABLE")
    topics = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
    answer = asker.ask(MetadataRequest(topics=topics), 9)
    told = {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}
    assert told["left"] == (Errors.LEADER_NOT_AVAILABLE, 0)
    assert told["right"] == (Errors.NONE, 2)
    assert len(answer.brokers) == 1


# Delays and broken connections --------------------------------------------------------------


def test_a_delay_holds_the_answer_back_and_not_the_work(
    broker: odradek.testing.Broker, asker: Asker
) -> None:
    broker.faults.add(api="Produce", topic="left", delay_ms=3_600_000, times=1)
    before = end_of(asker, "left", 0)
    slow = Asker(broker.port)
    slow.client.request(produce_to(("left", 0)), 9)
    while end_of(asker, "left", 0) == before:
        continue  # seen by another connection as soon as it is done
    assert slow.client.has_nothing_to_read()
    slow.close()


def test_an_answer_comes_after_its_delay(broker: odradek.testing.Broker, asker: Asker) -> None:
    broker.faults.add(api="Produce", topic="left", delay_ms=50)
    began = time.monotonic()
    assert outcomes(asker, 2) == ".."
    assert time.monotonic() - began >= 0.1


def test_a_connection_breaks_before_the_work(broker: odradek.testing.Broker, asker: Asker) -> None:
    broker.faults.add(api="Produce", topic="left", drop="connection")
    before = end_of(asker, "left", 0)
    lost = Asker(broker.port)
    lost.client.request(produce_to(("left", 0)), 9)
    assert lost.client.is_closed()
    lost.close()
    assert end_of(asker, "left", 0) == before


def test_an_answer_is_lost_after_the_work(broker: odradek.testing.Broker, asker: Asker) -> None:
    broker.faults.add(api="Produce", topic="left", drop="answer")
    before = end_of(asker, "left", 0)
    lost = Asker(broker.port)
    lost.client.request(produce_to(("left", 0)), 9)
    assert lost.client.is_closed()
    lost.close()
    assert end_of(asker, "left", 0) == before + 1


def test_a_producer_without_answers_learns_of_an_error_by_its_connection(
    broker: odradek.testing.Broker,
) -> None:
    broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    asker = Asker(broker.port)
    asker.client.request(produce_to(("left", 0), acks=0), 9)
    assert asker.client.is_closed()
    asker.close()


# How often ----------------------------------------------------------------------------------


def outcomes(asker: Asker, count: int) -> str:
    """One letter for each of so many requests: x failed, . went well."""
    answers = [produced(asker.ask(produce_to(("left", 0)), 9)) for _ in range(count)]
    return "".join("x" if answer["left", 0] else "." for answer in answers)


@pytest.mark.parametrize(
    ("how_often", "expected"),
    [
        ({}, "xxxxxx"),
        ({"times": 2}, "xx...."),
        ({"nth": 3}, "..x..."),
        ({"nth": 2, "times": 3}, ".xxx.."),
    ],
)
def test_a_rule_strikes_as_often_as_it_says(
    broker: odradek.testing.Broker, asker: Asker, how_often: dict[str, int], expected: str
) -> None:
    rule = broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", **how_often)
    assert outcomes(asker, len(expected)) == expected
    assert rule.hits == broker.faults.hits == expected.count("x")


def test_chance_is_the_same_for_the_same_seed(broker: odradek.testing.Broker, asker: Asker) -> None:
    seen = []
    for seed in (1, 1, 2):
        rule = broker.faults.add(api="Produce", error=7, probability=0.5, seed=seed)
        seen.append(outcomes(asker, 32))
        assert 0 < rule.hits < rule.seen == 32
        broker.faults.remove(rule)
    assert seen[0] == seen[1] != seen[2]


def test_the_first_rule_that_strikes_decides(broker: odradek.testing.Broker, asker: Asker) -> None:
    first = broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT", times=1)
    second = broker.faults.add(api="Produce", error="NOT_ENOUGH_REPLICAS")
    assert list(broker.faults) == [first, second]
    told = [produced(asker.ask(produce_to(("left", 0)), 9))["left", 0] for _ in range(2)]
    assert told == [Errors.REQUEST_TIMED_OUT, Errors.NOT_ENOUGH_REPLICAS]
    broker.faults.clear()
    assert len(broker.faults) == 0
    assert outcomes(asker, 1) == "."


def test_rules_outlive_a_restart() -> None:
    with odradek.testing.Broker(topics={"left": 1}) as broker:
        broker.faults.add(api="Produce", error="REQUEST_TIMED_OUT")
        broker.restart()
        asker = Asker(broker.port)
        assert outcomes(asker, 1) == "x"
        asker.close()


def test_replication_goes_on_while_consumers_fail() -> None:
    with odradek.testing.Cluster(2, {"min.insync.replicas": 2}, topics={"left": 1}) as cluster:
        cluster.faults.add(api="Fetch", error="NOT_LEADER_OR_FOLLOWER")
        addresses = cluster.bootstrap_servers.split(",")
        told = set()
        for address in addresses:
            asker = Asker(int(address.rpartition(":")[2]))
            told.add(produced(asker.ask(produce_to(("left", 0)), 9))["left", 0])
            asker.close()
        # One of the two leads, and both replicas have the record, or the leader would not say so.
        assert told == {Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs an error"),
        ({"error": "REQUEST_TIMED_OUT", "drop": "answer"}, "not both"),
        ({"api": "Fetsh", "delay_ms": 1}, "did you mean 'Fetch'"),
        ({"error": "NOT_A_LEADER"}, "there is no error"),
        ({"error": 4711}, "there is no error"),
        ({"error": 0}, "is no error"),
        ({"delay_ms": 1, "probability": 0}, "probability"),
        ({"delay_ms": 1, "times": 0}, "count from 1"),
        ({"drop": "everything"}, "everything"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        odradek.testing.Faults().add(**options)


def test_without_rules_requests_meet_the_handlers_own_routes(
    broker: odradek.testing.Broker,
) -> None:
    running = broker._running
    assert running is not None
    server = running._server
    untouched = [route for route, _ in server.dispatcher._routes.values()]
    assert all(any(route is own for own in server.routes) for route in untouched)
    rule = broker.faults.add(api="Produce", delay_ms=1)
    swapped = [r for r, _ in server.dispatcher._routes.values() if r not in server.routes]
    assert [route.request for route in swapped] == [ProduceRequest]
    broker.faults.remove(rule)
    assert [route for route, _ in server.dispatcher._routes.values()] == untouched


def test_a_session_of_another_client_goes_on(broker: odradek.testing.Broker, asker: Asker) -> None:
    asker.ask(produce_to(("left", 0)), 9)
    full = fetch_of(("left", 0))
    full.session_epoch, full.min_bytes = 0, 1
    session = asker.ask(full, 11).session_id
    broker.faults.add(api="Fetch", client_id="another", error="NOT_LEADER_OR_FOLLOWER")
    next_one = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=1, topics=[]
    )
    assert asker.ask(next_one, 11).session_id == session
