"""Groups of the consumer protocol, as clients of Kafka 4 depend on them."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from odradek.protocol.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import Asker, until
from tests.behaviours.consumer_asking import Consumer
from tests.behaviours.group_asking import TRANSIENT, Member

pytestmark = pytest.mark.kafka_4

NewConsumer = Callable[..., Consumer]
NewTopic = Callable[[str, int], str]
ALL_SIX = [0, 1, 2, 3, 4, 5]


@pytest.fixture(scope="session")
def coordinator(port: int) -> int:
    """The port again, once the coordinators' topic is there and led."""
    with Member(port, "any") as somebody, Consumer(port, "any", "m") as consumer:

        def is_there() -> bool:
            is_found = somebody.find().error_code == 0
            return is_found and consumer.describe().error_code not in (*TRANSIENT, 15, 16)

        until(is_there, "there is a coordinator")
    return port


@pytest.fixture
def new_consumer(coordinator: int, name: str) -> Iterator[NewConsumer]:
    """Makes consumers of a group that no other test uses."""
    with ExitStack() as stack:

        def make(id_: str, *, instance: str | None = None, group: str = name) -> Consumer:
            return stack.enter_context(Consumer(coordinator, group, id_, instance=instance))

        yield make


@pytest.fixture
def new_topic(asker: Asker, name: str, coordinator: int) -> NewTopic:
    """Makes topics, and waits until the coordinator knows them: Kafka's learns of them late."""

    def make(suffix: str, partitions: int) -> str:
        topic = f"{name}-{suffix}"
        assert asker.create(topic, partitions).error_code == 0
        for number in itertools.count():
            with Consumer(coordinator, f"{topic}-probe-{number}", "probe") as probe:
                probe.join(topic)
                probe.leave()
                if list(probe.held.values()) == [list(range(partitions))]:
                    return topic
        raise AssertionError

    return make


@pytest.fixture
def t(new_topic: NewTopic) -> str:
    """A topic of six partitions."""
    return new_topic("t", 6)


def id_of(asker: Asker, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(16), name=topic)])
    (found,) = cast(Any, asker.ask(request, 12)).topics
    return bytes(found.topic_id)


def pair(new_consumer: NewConsumer, topic: str) -> tuple[Consumer, Consumer]:
    """Two members that share a topic."""
    a, b = new_consumer("a"), new_consumer("b")
    assert a.join(topic).error_code == 0
    assert b.join(topic).error_code == 0
    a.settle()
    b.settle()
    return a, b


# Joining --------------------------------------------------------------------------------------


def test_a_lone_member_is_given_everything(new_consumer: NewConsumer, t: str, asker: Asker) -> None:
    member = new_consumer("a")
    answer = member.join(t)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 1, 5000)
    assert member.held == {id_of(asker, t): ALL_SIX}


def test_version_0_is_given_an_id(new_consumer: NewConsumer, t: str) -> None:
    member = new_consumer("")
    assert member.join(t, version=0).error_code == 0
    assert member.id


def test_a_topic_that_is_not_there_yet_is_assigned_when_it_comes(
    new_consumer: NewConsumer, asker: Asker, name: str
) -> None:
    member = new_consumer("a")
    member.join(f"{name}-later")
    assert (member.epoch, member.held) == (1, {})
    asker.create(f"{name}-later", 2)
    while not member.held:
        assert member.beat().error_code == 0
    assert (member.epoch, list(member.held.values())) == (2, [[0, 1]])


BAD_JOINS: dict[str, tuple[dict[str, Any], Errors, str]] = {
    "no group": ({"group_id": " "}, Errors.INVALID_REQUEST, "GroupId can't be empty."),
    "empty instance": (
        {"instance_id": ""},
        Errors.INVALID_REQUEST,
        "InstanceId can't be empty.",
    ),
    "empty rack": ({"rack_id": ""}, Errors.INVALID_REQUEST, "RackId can't be empty."),
    "no member": ({"member_id": ""}, Errors.INVALID_REQUEST, "MemberId can't be empty."),
    "no timeout": (
        {"rebalance_timeout_ms": -1},
        Errors.INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "owned not said": (
        {"owned": None},
        Errors.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "owns something": (
        {"owned": {b"1" * 16: [0]}},
        Errors.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "wants nothing": (
        {"subscribed_topic_names": None},
        Errors.INVALID_REQUEST,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "unknown assignor": (
        {"server_assignor": "nope"},
        Errors.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor nope is not supported. Supported assignors: uniform, range.",
    ),
    "bad pattern": (
        {"subscribed_topic_regex": "["},
        Errors.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ].",
    ),
    "pattern beyond RE2": (
        {"subscribed_topic_regex": "(?=a)"},
        Errors.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `(?=a)` is not a valid regular expression: "
        "invalid or unsupported Perl syntax.",
    ),
}


@pytest.mark.parametrize("case", BAD_JOINS)
def test_bad_joins_get_their_error(new_consumer: NewConsumer, t: str, case: str) -> None:
    fields, error, message = BAD_JOINS[case]
    pattern = fields.get("subscribed_topic_regex")
    rest = {name: value for name, value in fields.items() if name != "subscribed_topic_regex"}
    answer = new_consumer("a").join(t, pattern=pattern, **rest)
    assert (answer.error_code, answer.error_message) == (error, message)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)
    assert answer.assignment is None


def test_bad_heartbeats_get_their_error(new_consumer: NewConsumer, t: str) -> None:
    member, stranger = new_consumer("a"), new_consumer("x", group="no-such-group")
    member.join(t)

    def error(epoch: int, who: Consumer = member, **fields: Any) -> tuple[Errors, str | None]:
        answer = who.send(epoch, **fields)
        return Errors(answer.error_code), answer.error_message

    assert error(-3) == (Errors.INVALID_REQUEST, "MemberEpoch is invalid.")
    assert error(-2) == (Errors.INVALID_REQUEST, "InstanceId can't be null.")
    assert error(5, stranger) == (
        Errors.GROUP_ID_NOT_FOUND,
        "Consumer group no-such-group not found.",
    )
    assert error(-1, stranger) == (Errors.GROUP_ID_NOT_FOUND, "Group no-such-group not found.")
    unknown = f"Member z is not a member of group {member.group}."
    assert error(1, member_id="z") == (Errors.UNKNOWN_MEMBER_ID, unknown)
    assert error(-1, member_id="z") == (Errors.UNKNOWN_MEMBER_ID, unknown)
    assert error(7)[0] == Errors.FENCED_MEMBER_EPOCH
    assert error(1, instance_id="i") == (Errors.UNKNOWN_MEMBER_ID, "Instance id i is unknown.")


# Sharing --------------------------------------------------------------------------------------


def test_a_partition_is_given_up_before_another_gets_it(
    new_consumer: NewConsumer, t: str, asker: Asker
) -> None:
    topic = id_of(asker, t)
    a, b = new_consumer("a"), new_consumer("b")
    a.join(t)
    b.join(t)
    assert (b.epoch, b.held) == (2, {})
    a.beat()
    assert (a.epoch, a.held) == (1, {topic: [0, 1, 2]})
    assert b.beat().assignment is None
    a.beat(owned={topic: ALL_SIX})
    assert a.epoch == 1, "it has not given anything up"
    a.beat(owned={topic: [0, 1, 2]})
    assert a.epoch == 2
    b.beat()
    assert (b.epoch, b.held) == (2, {topic: [3, 4, 5]})


def test_only_news_and_full_requests_are_answered_with_the_assignment(
    new_consumer: NewConsumer, t: str
) -> None:
    member = new_consumer("a")
    member.join(t)
    assert member.beat().assignment is None
    assert member.beat(owned=member.held).assignment is None
    full = member.beat(owned=member.held, rebalance_timeout_ms=30_000, subscribed_topic_names=[t])
    assert full.assignment is not None


def test_a_member_may_not_have_heard_of_its_new_epoch(new_consumer: NewConsumer, t: str) -> None:
    a, b = pair(new_consumer, t)
    assert (a.epoch, b.epoch) == (2, 2)
    assert a.send(1, owned=a.held).error_code == 0
    assert a.send(1).error_code == Errors.FENCED_MEMBER_EPOCH
    too_much = dict.fromkeys(a.held, ALL_SIX)
    assert a.send(1, owned=too_much).error_code == Errors.FENCED_MEMBER_EPOCH
    assert a.join(t).error_code == 0, "it may always begin anew"
    assert (a.epoch, [len(numbers) for numbers in a.held.values()]) == (2, [3])


def test_who_leaves_leaves_its_partitions_to_others(new_consumer: NewConsumer, t: str) -> None:
    a, b = pair(new_consumer, t)
    assert b.leave() == Errors.NONE
    assert b.epoch == -1
    a.settle()
    assert (a.epoch, list(a.held.values())) == (3, [ALL_SIX])
    assert b.leave() == Errors.UNKNOWN_MEMBER_ID


def test_a_member_that_wants_something_else_begins_an_epoch(
    new_consumer: NewConsumer, t: str, asker: Asker, new_topic: NewTopic
) -> None:
    u = new_topic("u", 2)
    a, b = pair(new_consumer, t)
    answer = b.beat(subscribed_topic_names=[u])
    assert (answer.error_code, b.epoch, b.held) == (0, 2, {})
    b.settle()
    assert (b.epoch, b.held) == (3, {id_of(asker, u): [0, 1]})
    a.settle()
    assert (a.epoch, a.held) == (3, {id_of(asker, t): ALL_SIX})


def test_new_partitions_are_assigned(new_consumer: NewConsumer, t: str, asker: Asker) -> None:
    member = new_consumer("a")
    member.join(t)
    more = CreatePartitionsTopic(name=t, count=8, assignments=None)
    asker.ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000, validate_only=False), 1)
    while member.epoch == 1:
        assert member.beat().error_code == 0
    assert list(member.held.values()) == [list(range(8))]


def test_the_range_assignor_cuts_every_topic(
    new_consumer: NewConsumer, t: str, asker: Asker, new_topic: NewTopic
) -> None:
    topics = (t, new_topic("u", 3))
    a, b = new_consumer("a"), new_consumer("b")
    a.join(*topics, server_assignor="range")
    b.join(*topics, server_assignor="range")
    a.settle()
    b.settle()
    u = id_of(asker, topics[1])
    assert a.held == {id_of(asker, t): [0, 1, 2], u: [0, 1]}
    assert b.held == {id_of(asker, t): [3, 4, 5], u: [2]}


@pytest.mark.parametrize("pattern", [r"{0}-(t|u)", r"^{0}-[[:alpha:]]$", r"(?i){0}-\w"])
def test_topics_are_wanted_by_a_pattern(
    new_consumer: NewConsumer, t: str, new_topic: NewTopic, asker: Asker, name: str, pattern: str
) -> None:
    u, _ = new_topic("u", 2), new_topic("uv", 2)
    member = new_consumer("a")
    member.join(pattern=pattern.replace("{0}", name.replace(".", r"\.")))
    while not member.held:
        assert member.beat().error_code == 0
    member.settle()
    assert member.held == {id_of(asker, t): ALL_SIX, id_of(asker, u): [0, 1]}
    assert member.beat(subscribed_topic_regex="").error_code == 0
    member.settle()
    assert member.held == {}


# Static members -------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_what_it_had(new_consumer: NewConsumer, t: str) -> None:
    first, second = new_consumer("s1", instance="i"), new_consumer("s2", instance="i")
    first.join(t)
    refused = second.join(t)
    assert refused.error_code == Errors.UNRELEASED_INSTANCE_ID
    assert "because the instance id is owned by s1 member" in (refused.error_message or "")
    assert second.send(1).error_code == Errors.FENCED_INSTANCE_ID
    held = first.held
    away = first.send(-2)
    assert (away.error_code, away.member_epoch) == (0, -2)
    assert first.describe().group_state == "Reconciling"
    assert first.send(1).error_code == Errors.FENCED_MEMBER_EPOCH
    assert second.join(t).error_code == 0
    assert (second.epoch, second.held) == (1, held)
    assert first.send(1).error_code == Errors.FENCED_INSTANCE_ID
    assert [m.member_id for m in first.describe().members] == ["s2"]
    assert second.leave() == Errors.NONE
    assert second.describe().members == []


# Offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 10])
def test_members_commit_and_fetch_with_their_epoch(
    new_consumer: NewConsumer, t: str, asker: Asker, version: int
) -> None:
    topic = {"topic_id": id_of(asker, t)} if version >= 10 else {}
    member, stranger = new_consumer("a"), new_consumer("z")
    member.join(t)
    assert member.commit(t, 5, version, **topic) == Errors.NONE
    assert member.commit(t, 5, version, epoch=0, **topic) == Errors.STALE_MEMBER_EPOCH
    assert member.commit(t, 5, version, epoch=2, **topic) == Errors.STALE_MEMBER_EPOCH
    assert stranger.commit(t, 5, version, epoch=1, **topic) == Errors.UNKNOWN_MEMBER_ID
    assert stranger.commit(t, 5, version, epoch=-1, **topic) == Errors.UNKNOWN_MEMBER_ID
    found = member.fetch(t, version, member="a", epoch=1, indexes=[0, 1, 77], **topic)
    assert [p.committed_offset for p in found.topics[0].partitions] == [5, -1, -1]
    assert found.topics[0].topic_id == topic.get("topic_id", bytes(16))
    assert member.fetch(t, version, **topic).topics[0].partitions[0].committed_offset == 5
    stale = member.fetch(t, version, member="a", epoch=0, **topic)
    assert (stale.error_code, stale.topics) == (Errors.STALE_MEMBER_EPOCH, [])
    unknown = member.fetch(t, version, member="z", epoch=1, **topic)
    assert (unknown.error_code, unknown.topics) == (Errors.UNKNOWN_MEMBER_ID, [])


def test_members_of_the_consumer_protocol_commit_in_version_9_or_later(
    new_consumer: NewConsumer, t: str
) -> None:
    member = new_consumer("a")
    member.join(t)
    assert member.commit(t, 5, 8) == Errors.UNSUPPORTED_VERSION
    assert member.leave() == Errors.NONE
    member.id = ""
    assert member.commit(t, 5, 8, epoch=-1) == Errors.NONE, "the group is empty"


@pytest.mark.parametrize(
    ("version", "error"), [(8, Errors.ILLEGAL_GENERATION), (9, Errors.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_cannot_commit(
    new_consumer: NewConsumer, t: str, version: int, error: Errors
) -> None:
    assert new_consumer("a").commit(t, 5, version, epoch=3) == error


def test_version_10_knows_topics_by_their_ids_alone(new_consumer: NewConsumer) -> None:
    nobody, unknown = new_consumer(""), b"1" * 16
    assert nobody.commit("", 5, 10, epoch=-1, topic_id=unknown) == Errors.UNKNOWN_TOPIC_ID
    assert nobody.commit("", 5, 10, epoch=-1) == Errors.UNKNOWN_TOPIC_ID
    (topic,) = nobody.fetch("", 10, topic_id=unknown).topics
    assert topic.topic_id == unknown
    assert [(p.committed_offset, p.error_code) for p in topic.partitions] == [
        (-1, Errors.UNKNOWN_TOPIC_ID)
    ]


def test_offsets_of_wanted_topics_cannot_be_deleted(
    new_consumer: NewConsumer, t: str, asker: Asker
) -> None:
    member = new_consumer("a")
    member.join(t)
    assert member.commit(t, 5) == Errors.NONE
    partition = OffsetDeleteRequestPartition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=member.group, topics=[OffsetDeleteRequestTopic(name=t, partitions=[partition])]
    )
    answer = cast(OffsetDeleteResponse, asker.ask(request, 0))
    assert answer.topics[0].partitions[0].error_code == Errors.GROUP_SUBSCRIBED_TO_TOPIC
    member.leave()
    answer = cast(OffsetDeleteResponse, asker.ask(request, 0))
    assert answer.topics[0].partitions[0].error_code == 0
    assert member.fetch(t).topics[0].partitions[0].committed_offset == -1


# Administration -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_group_is_described(new_consumer: NewConsumer, t: str, version: int) -> None:
    member = new_consumer("a")
    member.join(t, rack_id="r", server_assignor="range")
    group = member.describe(version)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    assert group.authorized_operations == 0b110101001000
    (shown,) = group.members
    assert (shown.member_id, shown.rack_id, shown.member_epoch) == ("a", "r", 1)
    assert (shown.client_id, shown.client_host) == ("raw", "/127.0.0.1")
    assert (shown.subscribed_topic_names, shown.subscribed_topic_regex) == ([t], "")
    for assignment in (shown.assignment, shown.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == (t, ALL_SIX)
    assert shown.member_type == (1 if version else -1)


def test_each_kind_of_group_is_described_by_its_own_request(
    new_consumer: NewConsumer, t: str, coordinator: int, name: str
) -> None:
    member = new_consumer("a")
    unknown = member.describe()
    assert (unknown.error_code, unknown.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        f"Group {name} not found.",
    )
    member.join(t)
    for version, error in ((5, Errors.NONE), (6, Errors.GROUP_ID_NOT_FOUND)):
        request = DescribeGroupsRequest(groups=[name])
        (shown,) = cast(DescribeGroupsResponse, member.client.ask(request, version)).groups
        assert (shown.error_code, shown.group_state) == (error, "Dead")
    with Member(coordinator, f"{name}-classic") as classic:
        classic.settle()
    refused = new_consumer("a", group=f"{name}-classic").describe()
    assert (refused.error_code, refused.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        f"Group {name}-classic is not a consumer group.",
    )


def test_groups_are_listed_by_their_type(new_consumer: NewConsumer, t: str, name: str) -> None:
    member = new_consumer("a")
    member.join(t)

    def listed(types: list[str], states: list[str]) -> list[tuple[str, str, str]]:
        request = ListGroupsRequest(types_filter=types, states_filter=states)
        answer = cast(ListGroupsResponse, member.client.ask(request, 5))
        return [
            (group.protocol_type, group.group_state, group.group_type)
            for group in answer.groups
            if group.group_id == name
        ]

    shown = [("consumer", "Stable", "consumer")]
    assert listed([], []) == listed(["Consumer"], []) == listed(["consumer"], ["stable"]) == shown
    assert listed(["classic"], []) == listed([], ["Empty"]) == []


def test_only_an_empty_group_is_deleted(new_consumer: NewConsumer, t: str) -> None:
    member = new_consumer("a")
    member.join(t)

    def delete() -> Errors:
        request = DeleteGroupsRequest(groups_names=[member.group])
        answer = cast(DeleteGroupsResponse, member.client.ask(request, 2))
        return Errors(answer.results[0].error_code)

    assert delete() == Errors.NON_EMPTY_GROUP
    assert member.commit(t, 5) == Errors.NONE
    member.leave()
    assert delete() == Errors.NONE
    assert delete() == Errors.GROUP_ID_NOT_FOUND
    assert member.fetch(t).topics[0].partitions[0].committed_offset == -1


# Both protocols -------------------------------------------------------------------------------


def subscription(*topics: str) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def assignment(topic: str, *partitions: int) -> bytes:
    name = len(topic).to_bytes(2, "big") + topic.encode()
    numbers = b"".join(partition.to_bytes(4, "big") for partition in partitions)
    count = len(partitions).to_bytes(4, "big")
    return b"\x00\x00\x00\x00\x00\x01" + name + count + numbers + b"\xff\xff\xff\xff"


def test_a_classic_member_joins_a_consumer_group(
    new_consumer: NewConsumer, t: str, coordinator: int, name: str, asker: Asker
) -> None:
    wants = {"range": subscription(t)}
    member = new_consumer("a")
    member.join(t)
    with Member(coordinator, name) as classic:
        joined = classic.join(9, protocols=wants)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 2, "")
        assert (joined.protocol_name, joined.members) == ("range", [])
        assert bytes(classic.sync().assignment) == b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
        assert classic.beat() == Errors.NONE
        member.settle()
        assert classic.beat() == Errors.REBALANCE_IN_PROGRESS
        assert classic.join(9, protocols=wants).error_code == 0
        assert bytes(classic.sync().assignment) == assignment(t, 3, 4, 5)
        assert classic.beat() == Errors.NONE
        assert sorted(m.member_type for m in member.describe().members) == [0, 1]
        assert classic.commit(TopicPartition(t, 0), 7) == Errors.NONE
        refused = classic.join(9, protocols=wants, kind="connect")
        assert refused.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
        assert member.leave() == Errors.NONE
        assert classic.describe().group_state == "PreparingRebalance"
        assert classic.beat() == Errors.REBALANCE_IN_PROGRESS
        joined = classic.join(9, protocols=wants)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 3, classic.id)


def test_a_classic_group_becomes_a_consumer_group_with_its_members(
    new_consumer: NewConsumer, t: str, coordinator: int, name: str
) -> None:
    wants = {"range": subscription(t)}
    with Member(coordinator, name) as classic:
        assert classic.join(9, protocols=wants).error_code == 0
        classic.sync({classic.id: assignment(t, *ALL_SIX)})
        member = new_consumer("a")
        assert member.join(t).error_code == 0
        assert (member.epoch, member.held) == (2, {})
        assert member.describe().group_state == "Reconciling"
        assert classic.beat() == Errors.REBALANCE_IN_PROGRESS
        assert classic.sync().error_code == Errors.REBALANCE_IN_PROGRESS
        joined = classic.join(9, protocols=wants)
        assert (joined.error_code, joined.generation_id) == (0, 2)
        assert bytes(classic.sync().assignment) == assignment(t, 0, 1, 2)
        member.settle()
        assert list(member.held.values()) == [[3, 4, 5]]
        assert classic.leave().error_code == 0
        member.settle()
        assert (member.epoch, list(member.held.values())) == (3, [ALL_SIX])


def test_an_empty_group_becomes_what_joins_it_and_keeps_its_offsets(
    new_consumer: NewConsumer, t: str, coordinator: int, name: str
) -> None:
    member = new_consumer("a")
    member.join(t)
    assert member.commit(t, 5) == Errors.NONE
    member.leave()
    with Member(coordinator, name) as classic:
        assert classic.join(9, protocols={"range": subscription(t)}).generation_id == 1
        assert classic.describe().group_state == "CompletingRebalance"
        assert classic.leave().error_code == 0
    assert member.join(t).error_code == 0
    assert (member.epoch, member.describe().group_state) == (1, "Stable")
    assert member.fetch(t).topics[0].partitions[0].committed_offset == 5


def test_a_group_of_another_kind_does_not_become_a_consumer_group(
    new_consumer: NewConsumer, t: str, coordinator: int, name: str
) -> None:
    with Member(coordinator, name) as worker:
        assert worker.join(5, kind="connect").error_code == 0
        refused = new_consumer("a").join(t)
        assert (refused.error_code, refused.error_message) == (
            Errors.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {name} to consumer group because the group does not "
            "use the consumer embedded protocol.",
        )
        assert worker.sync().error_code == 0
