"""Classic groups and committed offsets, as clients depend on them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import cast

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_admin import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupMemberIdentity,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import Asker, until
from tests.behaviours.group_asking import TRANSIENT, Member

NewMember = Callable[..., Member]


@pytest.fixture(scope="session")
def coordinator(port: int) -> int:
    """The port again, once the coordinators' topic is there."""
    with Member(port, "any") as somebody:

        def is_there() -> bool:
            is_found = somebody.find().error_code == 0
            return is_found and somebody.describe().error_code not in TRANSIENT

        until(is_there, "there is a coordinator")
    return port


@pytest.fixture
def new_member(coordinator: int, name: str) -> Iterator[NewMember]:
    """Makes members of a group that no other test uses."""
    with ExitStack() as stack:

        def make(*, instance: str | None = None, group: str = name) -> Member:
            return stack.enter_context(Member(coordinator, group, instance=instance))

        yield make


@pytest.fixture
def where(asker: Asker, name: str) -> TopicPartition:
    asker.create(f"{name}-t")
    return TopicPartition(f"{name}-t", 0)


def pair(new_member: NewMember) -> tuple[Member, Member]:
    """A leader and a follower in a Stable group."""
    leader, follower = new_member(), new_member()
    leader.settle()
    follower.ask_to_join()
    assert follower.joined().error_code == Errors.MEMBER_ID_REQUIRED
    follower.ask_to_join()
    while leader.beat() != Errors.REBALANCE_IN_PROGRESS:
        pass
    leader.ask_to_join()
    assert len(leader.joined().members) == 2
    assert follower.joined().members == []
    follower.ask_to_sync()
    leader.sync({leader.id: b"A", follower.id: b"B"})
    assert bytes(follower.synced().assignment) == b"B"
    return leader, follower


# Finding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator(new_member: NewMember, version: int) -> None:
    found = new_member().find(version)
    if version >= 4:
        (one,) = found.coordinators
        assert (one.error_code, one.key) == (0, new_member().group)
        assert one.port == new_member().find(0).port
    else:
        assert found.error_code == 0
        assert found.port > 0


def test_an_unknown_type_of_key_is_refused(new_member: NewMember) -> None:
    member = new_member()
    request = FindCoordinatorRequest(key="k", key_type=9)
    answer = cast(FindCoordinatorResponse, member.client.ask(request, 3))
    assert (answer.error_code, answer.node_id) == (Errors.INVALID_REQUEST, -1)


# Joining --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_lone_member_joins_in_every_version(new_member: NewMember, version: int) -> None:
    member = new_member()
    answer = member.join(version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id == answer.members[0].member_id
    assert answer.member_id.startswith("raw-")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert len(answer.members) == 1


@pytest.mark.parametrize("version", [4, 6, 9])
def test_a_first_join_is_told_an_id(new_member: NewMember, version: int) -> None:
    member = new_member()
    member.ask_to_join(version)
    answer = member.joined()
    assert answer.error_code == Errors.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("raw-")
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
    assert answer.protocol_name == (None if version >= 7 else "")


BAD_JOINS = {
    "session too short": ({"session_ms": 5999}, Errors.INVALID_SESSION_TIMEOUT),
    "session too long": ({"session_ms": 1_800_001}, Errors.INVALID_SESSION_TIMEOUT),
    "no protocols": ({"protocols": {}}, Errors.INCONSISTENT_GROUP_PROTOCOL),
    "no type": ({"kind": ""}, Errors.INCONSISTENT_GROUP_PROTOCOL),
}


@pytest.mark.parametrize("case", BAD_JOINS)
def test_bad_joins_get_their_error(new_member: NewMember, case: str) -> None:
    """Bad input, item 39."""
    options, error = BAD_JOINS[case]
    answer = new_member().join(3, **options)
    assert (answer.error_code, answer.member_id, answer.leader) == (error, "", "")
    assert (answer.generation_id, answer.protocol_name, answer.members) == (-1, "", [])


def test_a_group_without_a_name_is_invalid(new_member: NewMember) -> None:
    """Bad input, item 39."""
    member = new_member(group="")
    assert member.join().error_code == Errors.INVALID_GROUP_ID
    assert member.beat() == Errors.INVALID_GROUP_ID
    assert member.sync().error_code == Errors.INVALID_GROUP_ID
    assert member.leave().error_code == Errors.INVALID_GROUP_ID
    assert member.describe().error_code == Errors.NONE


def test_an_unknown_member_is_told_so(new_member: NewMember) -> None:
    """Bad input, item 39."""
    stranger = new_member()
    stranger.id, stranger.generation = "stranger", 1
    assert stranger.join().error_code == Errors.UNKNOWN_MEMBER_ID
    assert stranger.beat() == Errors.UNKNOWN_MEMBER_ID
    assert stranger.sync().error_code == Errors.UNKNOWN_MEMBER_ID
    assert stranger.leave().error_code == Errors.UNKNOWN_MEMBER_ID
    new_member().settle()
    assert stranger.join().error_code == Errors.UNKNOWN_MEMBER_ID
    assert stranger.beat() == Errors.UNKNOWN_MEMBER_ID
    assert stranger.sync().error_code == Errors.UNKNOWN_MEMBER_ID
    assert stranger.leave().error_code == Errors.UNKNOWN_MEMBER_ID


def test_protocols_must_agree_with_the_groups(new_member: NewMember) -> None:
    """Bad input, item 39."""
    new_member().settle()
    odd = new_member()
    for options in ({"protocols": {"other": b""}}, {"kind": "connect"}):
        answer = odd.join(3, **options)
        assert answer.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL


def test_a_generation_of_the_past_is_illegal(new_member: NewMember) -> None:
    """Bad input, item 39."""
    member = new_member()
    member.settle()
    assert member.beat(generation=0) == Errors.ILLEGAL_GENERATION
    assert member.beat(generation=2) == Errors.ILLEGAL_GENERATION
    assert member.sync(generation_id=0).error_code == Errors.ILLEGAL_GENERATION


def test_two_members_share_a_group(new_member: NewMember) -> None:
    leader, follower = pair(new_member)
    assert leader.beat() == follower.beat() == Errors.NONE
    assert leader.generation == follower.generation == 2


def test_a_followers_repeated_join_gets_its_generation_again(new_member: NewMember) -> None:
    leader, follower = pair(new_member)
    answer = follower.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, leader.id)
    assert answer.members == []
    assert bytes(follower.sync().assignment) == b"B"
    assert leader.beat() == Errors.NONE


def test_the_leaders_repeated_join_rebalances(new_member: NewMember) -> None:
    leader, follower = pair(new_member)
    leader.ask_to_join()
    while follower.beat() != Errors.REBALANCE_IN_PROGRESS:
        pass
    assert follower.sync().error_code == Errors.REBALANCE_IN_PROGRESS
    follower.ask_to_join()
    assert leader.joined().generation_id == follower.joined().generation_id == 3


@pytest.mark.parametrize("version", range(6))
def test_syncs_of_every_version(new_member: NewMember, version: int) -> None:
    member = new_member()
    member.join()
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = member.sync({member.id: b"mine"}, version, **named)
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"mine")
    told = (answer.protocol_type, answer.protocol_name)
    assert told == (("consumer", "range") if version >= 5 else (None, None))


def test_a_sync_must_know_the_groups_protocol(new_member: NewMember) -> None:
    member = new_member()
    member.settle()
    right = {"protocol_type": "consumer", "protocol_name": "range"}
    for wrong in (
        {"protocol_type": "connect"},
        {"protocol_name": "other"},
        {"protocol_name": None},
    ):
        fields = {**right, **wrong}
        answer = member.sync(version=5, **fields)
        assert answer.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
        assert (answer.protocol_type, answer.protocol_name) == (None, None)


def test_a_member_that_its_leader_forgot_has_an_empty_assignment(new_member: NewMember) -> None:
    member = new_member()
    member.join()
    assert bytes(member.sync({}).assignment) == b""


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_of_every_version(new_member: NewMember, version: int) -> None:
    member = new_member()
    member.join()
    assert member.beat(version) == Errors.NONE
    member.sync({})
    assert member.beat(version) == Errors.NONE


@pytest.mark.parametrize("version", range(6))
def test_leaving_in_every_version(new_member: NewMember, version: int) -> None:
    member = new_member()
    member.settle()
    first, second = member.leave(version), member.leave(version)
    assert first.error_code == 0
    if version < 3:
        assert second.error_code == Errors.UNKNOWN_MEMBER_ID
    else:
        assert first.members[0].error_code == 0
        assert (second.error_code, second.members[0].error_code) == (0, Errors.UNKNOWN_MEMBER_ID)
        assert second.members[0].member_id == member.id


def test_leaving_a_group_that_is_not_there(new_member: NewMember) -> None:
    nobody = new_member()
    nobody.id = "nobody"
    assert nobody.leave(2).error_code == Errors.UNKNOWN_MEMBER_ID
    answer = nobody.leave(3)
    assert (answer.error_code, answer.members[0].error_code) == (0, Errors.UNKNOWN_MEMBER_ID)


def test_a_member_not_heard_of_is_dropped_after_its_session(new_member: NewMember) -> None:
    silent = new_member()
    assert silent.join(session_ms=6000).error_code == 0
    assert silent.sync({}).error_code == 0
    newcomer = new_member()
    newcomer.ask_to_join()
    newcomer.joined()
    newcomer.ask_to_join()
    answer = newcomer.joined()
    assert (answer.error_code, len(answer.members)) == (0, 1)
    assert silent.beat() == Errors.UNKNOWN_MEMBER_ID


# Static members -------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_is_not_noticed(new_member: NewMember) -> None:
    old = new_member(instance="i")
    old.settle()
    assert old.id.startswith("i-")
    back = new_member(instance="i")
    answer = back.join(8)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, old.id)
    assert answer.member_id != old.id
    assert answer.members == []
    assert bytes(back.sync().assignment) == b"mine"
    assert old.beat() == Errors.FENCED_INSTANCE_ID
    assert old.sync().error_code == Errors.FENCED_INSTANCE_ID
    assert old.join().error_code == Errors.FENCED_INSTANCE_ID
    assert old.leave(3).members[0].error_code == Errors.FENCED_INSTANCE_ID


def test_a_static_leader_that_comes_back_skips_assignment(new_member: NewMember) -> None:
    new_member(instance="i").settle()
    back = new_member(instance="i")
    answer = back.join(9)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, back.id)
    assert answer.skip_assignment
    assert len(answer.members) == 1
    assert bytes(back.sync().assignment) == b"mine"


def test_static_members_leave_by_instance(new_member: NewMember) -> None:
    member = new_member(instance="i")
    member.settle()
    leaving = [
        LeaveGroupMemberIdentity(member_id="", group_instance_id=instance)
        for instance in ("i", "unknown")
    ]
    request = LeaveGroupRequest(group_id=member.group, members=leaving)
    answer = cast(LeaveGroupResponse, member.client.ask(request, 3))
    assert [m.error_code for m in answer.members] == [0, Errors.UNKNOWN_MEMBER_ID]
    assert [m.group_instance_id for m in answer.members] == ["i", "unknown"]
    assert member.beat() == Errors.UNKNOWN_MEMBER_ID


# Offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 10))
def test_commits_of_every_version(
    new_member: NewMember, where: TopicPartition, version: int
) -> None:
    member = new_member()
    member.settle()
    assert member.commit(where, 7, version, metadata="meta") == Errors.NONE
    assert member.fetch(where) == (7, -1, "meta", 0)


@pytest.mark.parametrize("version", range(1, 10))
def test_fetches_of_every_version(
    new_member: NewMember, where: TopicPartition, version: int
) -> None:
    member = new_member()
    assert member.fetch(where, version) == (-1, -1, "", 0)
    assert member.commit(where, 7, metadata=None) == Errors.NONE
    assert member.fetch(where, version) == (7, -1, "", 0)
    if version >= 2:
        assert member.fetch_all(version) == {where: 7}


def test_an_unknown_group_has_no_offsets(new_member: NewMember) -> None:
    assert new_member().fetch_all(5) == new_member().fetch_all(8) == {}


def test_a_group_without_a_name_can_hold_offsets(
    new_member: NewMember, where: TopicPartition
) -> None:
    nameless = new_member(group="")
    assert nameless.commit(where, 3) == Errors.NONE
    assert nameless.fetch(where)[0] == 3


def test_only_members_commit_to_a_group_that_has_some(
    new_member: NewMember, where: TopicPartition
) -> None:
    member, outsider = new_member(), new_member()
    member.settle()
    assert outsider.commit(where, 1) == Errors.UNKNOWN_MEMBER_ID
    assert member.commit(where, 1, generation=9) == Errors.ILLEGAL_GENERATION
    assert member.commit(where, 1, generation=-1) == Errors.ILLEGAL_GENERATION
    outsider.id = "outsider"
    assert outsider.commit(where, 1, generation=1) == Errors.UNKNOWN_MEMBER_ID


def test_a_generation_without_a_group_is_illegal(
    new_member: NewMember, where: TopicPartition
) -> None:
    outsider = new_member()
    outsider.id = "x"
    assert outsider.commit(where, 1, generation=1) == Errors.ILLEGAL_GENERATION


def test_commits_before_the_assignment_come_too_early(
    new_member: NewMember, where: TopicPartition
) -> None:
    member = new_member()
    member.join()
    assert member.commit(where, 1) == Errors.REBALANCE_IN_PROGRESS


def test_metadata_has_a_limit(new_member: NewMember, where: TopicPartition) -> None:
    """Bad input, item 40."""
    member = new_member()
    assert member.commit(where, 1, metadata="m" * 4096) == Errors.NONE
    assert member.commit(where, 2, metadata="m" * 4097) == Errors.OFFSET_METADATA_TOO_LARGE
    assert member.fetch(where)[0] == 1


def test_negative_offsets_are_kept(new_member: NewMember, where: TopicPartition) -> None:
    """Bad input, item 40."""
    member = new_member()
    assert member.commit(where, -5) == Errors.NONE
    assert member.fetch(where)[0] == -5


def test_offsets_of_unknown_partitions_are_refused(
    new_member: NewMember, where: TopicPartition
) -> None:
    member = new_member()
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert member.commit(TopicPartition(where.topic, 9), 1) == unknown
    assert member.commit(TopicPartition("no-such-topic", 0), 1) == unknown


def test_a_commit_of_nothing_is_answered(new_member: NewMember) -> None:
    member = new_member()
    request = OffsetCommitRequest(group_id=member.group, topics=[])
    answer = member.client.ask(request, 7)
    assert answer.topics == []  # type: ignore[attr-defined]


def delete_offset(member: Member, where: TopicPartition) -> tuple[int, list[int]]:
    partition = OffsetDeleteRequestPartition(partition_index=where.partition)
    topic = OffsetDeleteRequestTopic(name=where.topic, partitions=[partition])
    request = OffsetDeleteRequest(group_id=member.group, topics=[topic])
    answer = cast(OffsetDeleteResponse, member.client.ask(request, 0))
    return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]


def test_deleting_offsets(new_member: NewMember, asker: Asker, where: TopicPartition) -> None:
    member = new_member()
    assert delete_offset(member, where) == (Errors.GROUP_ID_NOT_FOUND, [])
    member.commit(where, 1)
    unknown = [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    assert delete_offset(member, TopicPartition("no-such-topic", 0)) == (0, unknown)
    assert delete_offset(member, where) == (0, [0])
    assert member.fetch(where)[0] == -1
    subscribed = TopicPartition("t", 0)
    asker.create("t")
    member.settle()
    assert delete_offset(member, subscribed) == (0, [Errors.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete_offset(member, where) == (0, [0])


def test_offsets_of_a_group_that_is_no_consumer_are_its_own(
    new_member: NewMember, where: TopicPartition
) -> None:
    member = new_member()
    member.join(kind="connect")
    assert delete_offset(member, where) == (Errors.NON_EMPTY_GROUP, [])


# Administration -------------------------------------------------------------------------------


def test_an_unknown_group_is_described_as_dead(new_member: NewMember) -> None:
    for version in range(6):
        shown = new_member().describe(version)
        assert (shown.error_code, shown.group_state, shown.protocol_type) == (0, "Dead", "")


def test_a_group_is_described_in_each_state(new_member: NewMember, where: TopicPartition) -> None:
    member, watcher = new_member(), new_member()
    member.join()
    rebalancing = watcher.describe()
    assert (rebalancing.group_state, rebalancing.protocol_data) == ("CompletingRebalance", "")
    (shown,) = rebalancing.members
    assert (bytes(shown.member_metadata), bytes(shown.member_assignment)) == (b"", b"")
    member.sync({member.id: b"mine"})
    stable = watcher.describe()
    assert (stable.group_state, stable.protocol_type) == ("Stable", "consumer")
    assert stable.protocol_data == "range"
    (shown,) = stable.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member.id, "raw", "/127.0.0.1")
    assert bytes(shown.member_assignment) == b"mine"
    member.leave()
    empty = watcher.describe()
    assert (empty.group_state, empty.protocol_type, empty.members) == ("Empty", "consumer", [])


def listed(member: Member, version: int = 4, **filters: list[str]) -> dict[str, tuple[str, ...]]:
    request = ListGroupsRequest(**filters)  # type: ignore[arg-type]
    answer = cast(ListGroupsResponse, member.client.ask(request, version))
    assert answer.error_code == 0
    return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}


def test_groups_are_listed_by_state_and_type(
    new_member: NewMember, where: TopicPartition, name: str
) -> None:
    member, simple = new_member(), new_member(group=f"{name}-simple")
    member.settle()
    simple.commit(where, 1)
    group = member.group
    everything = listed(member)
    assert everything[group] == ("consumer", "Stable", "")
    assert everything[simple.group] == ("", "Empty", "")
    assert listed(member, 0)[group] == ("consumer", "", "")
    assert simple.group not in listed(member, states_filter=["Stable"])
    assert group in listed(member, states_filter=["Stable", "Dead"])
    assert group not in listed(member, states_filter=["nonsense"])
    assert listed(member, 5)[group] == ("consumer", "Stable", "classic")
    assert group in listed(member, 5, types_filter=["classic"])
    assert group not in listed(member, 5, types_filter=["consumer"])


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_when_nobody_is_in_them(
    new_member: NewMember, where: TopicPartition, version: int
) -> None:
    member = new_member()
    delete = partial(member.delete, version)
    assert delete() == Errors.GROUP_ID_NOT_FOUND
    member.settle()
    member.commit(where, 5)
    assert delete() == Errors.NON_EMPTY_GROUP
    member.leave()
    assert delete() == Errors.NONE
    assert member.fetch(where)[0] == -1
    assert delete() == Errors.GROUP_ID_NOT_FOUND
