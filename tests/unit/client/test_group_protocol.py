"""What members tell each other survives the way through the coordinator."""

import pytest
from odradek.client.assignors import ASSIGNORS, Member, sticky_memory
from odradek.client.group_protocol import (
    Wish,
    chosen_assignors,
    encode_assignment,
    encode_wish,
    is_cooperative,
    read_assignment,
    read_member,
    share_out,
)
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.groups import JoinGroupResponseMember
from odradek.protocol.types import TopicPartition

OWNED = (TopicPartition("b", 2), TopicPartition("b", 0), TopicPartition("a", 1))


def through_the_coordinator(wish: Wish, assignor: str) -> Member:
    metadata = encode_wish(wish, ASSIGNORS[assignor], OWNED)
    return read_member(
        JoinGroupResponseMember(member_id="m", group_instance_id="i", metadata=metadata)
    )


def test_a_wish_is_read_as_it_was_meant() -> None:
    member = through_the_coordinator(Wish(frozenset("ab"), OWNED, 7, None), "cooperative-sticky")
    assert member.topics == ("a", "b")
    assert set(member.owned) == set(OWNED)
    assert (member.generation, member.instance_id) == (7, "i")


def test_eager_sticky_members_remember_what_they_gave_up() -> None:
    member = through_the_coordinator(Wish(frozenset("ab"), (), 7, None), "sticky")
    owned, generation = sticky_memory(member)
    assert set(owned) == set(OWNED)
    assert generation == 7


def test_assignments_are_read_as_they_were_meant() -> None:
    assert set(read_assignment(encode_assignment(OWNED))) == set(OWNED)
    assert read_assignment(b"") == []
    with pytest.raises(KafkaError):
        read_assignment(b"\0\0\0\0\0\5")


def test_only_topics_that_somebody_wants_are_shared_out() -> None:
    members = [Member("m", ("a",)), Member("n", ("a",))]
    shares = share_out("range", members, {"a": 3, "unwanted": 5})
    assert {name: len(partitions) for name, partitions in shares.items()} == {"m": 2, "n": 1}
    with pytest.raises(KafkaError, match="the group chose 'unheard'"):
        share_out("unheard", members, {})


def test_a_group_is_cooperative_only_if_all_its_assignors_are() -> None:
    assert is_cooperative(chosen_assignors(["cooperative-sticky"]))
    assert not is_cooperative(chosen_assignors(["cooperative-sticky", "range"]))
