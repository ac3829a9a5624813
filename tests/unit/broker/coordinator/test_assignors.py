"""The assignors of consumer groups: whole, fair, sticky, whatever the wishes are."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.coordinator.assignments import NOTHING, Assignment, slots_of
from odradek.broker.coordinator.assignor_range import assign_ranges
from odradek.broker.coordinator.assignor_uniform import assign_uniformly, level_shares
from odradek.broker.coordinator.assignors import assignors_of
from odradek.broker.coordinator.wishes import PartitionCounts, Wish, Wishes

from tests.unit.broker.coordinator.consumer_story import id_of, read, shown

TOPICS = [id_of(name) for name in "tuvw"]


def wish(topics: str, held: str = "nothing", instance: str | None = None) -> Wish:
    has = {topic: frozenset(numbers) for topic, numbers in read(held).items()}
    return Wish(frozenset(id_of(topic) for topic in topics), has, instance)


def counted(**partitions: int) -> PartitionCounts:
    return {id_of(name): count for name, count in partitions.items()}


def told(assigned: dict[str, Assignment]) -> str:
    return " ".join(f"{member}:{shown(share)}" for member, share in sorted(assigned.items()))


def again(wishes: Wishes, assigned: dict[str, Assignment]) -> Wishes:
    """The same wishes of members that hold what was assigned."""
    return {m: each._replace(held=assigned.get(m, NOTHING)) for m, each in wishes.items()}


def loads(assigned: dict[str, Assignment]) -> dict[str, int]:
    return {member: sum(map(len, share.values())) for member, share in assigned.items()}


member_ids = st.sampled_from([f"m{number}" for number in range(8)])
partition_counts = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
any_topics = st.frozensets(st.sampled_from(TOPICS))
any_held = st.dictionaries(
    st.sampled_from(TOPICS), st.frozensets(st.integers(0, 9), min_size=1), max_size=4
)
any_wishes = st.dictionaries(member_ids, st.builds(Wish, any_topics, any_held), max_size=8)


def check_whole(wishes: Wishes, counts: PartitionCounts, assigned: dict[str, Assignment]) -> None:
    """Every partition that somebody wants goes to exactly one member, who wants it."""
    assert assigned.keys() == wishes.keys()
    given_out = Counter(slot for share in assigned.values() for slot in slots_of(share))
    wanted = {topic for each in wishes.values() for topic in each.topics}
    assert given_out == Counter(
        (topic, number) for topic in wanted for number in range(counts[topic])
    )
    for member, share in assigned.items():
        assert share.keys() <= wishes[member].topics
        assert all(share.values()), "a topic without partitions is not named"


@given(any_wishes, partition_counts)
def test_range_gives_every_partition_to_one_who_wants_it(
    wishes: Wishes, counts: PartitionCounts
) -> None:
    check_whole(wishes, counts, assign_ranges(wishes, counts))


@given(any_wishes, partition_counts)
def test_uniform_gives_every_partition_to_one_who_wants_it(
    wishes: Wishes, counts: PartitionCounts
) -> None:
    check_whole(wishes, counts, assign_uniformly(wishes, counts))


@given(any_wishes, partition_counts)
def test_uniform_cannot_be_made_more_even_by_moving_one_partition(
    wishes: Wishes, counts: PartitionCounts
) -> None:
    assigned = assign_uniformly(wishes, counts)
    load = loads(assigned)
    for member, share in assigned.items():
        for topic in share:
            rivals = [other for other, each in wishes.items() if topic in each.topics]
            assert load[member] <= min(load[rival] for rival in rivals) + 1


@given(any_wishes, partition_counts)
def test_uniform_leaves_an_even_assignment_as_it_is(
    wishes: Wishes, counts: PartitionCounts
) -> None:
    assigned = assign_uniformly(wishes, counts)
    assert assign_uniformly(again(wishes, assigned), counts) == assigned


@given(st.lists(member_ids, min_size=1, unique=True), partition_counts, member_ids, st.booleans())
def test_uniform_moves_no_more_than_a_change_of_members_takes(
    members: list[str], counts: PartitionCounts, changing: str, leaves: bool
) -> None:
    """Where all want the same: nobody gives up more than it must to be even with the others."""
    everything = frozenset(TOPICS)
    wishes = {member: Wish(everything, NOTHING) for member in members}
    before = assign_uniformly(wishes, counts)
    changed = again(wishes, before)
    if leaves and len(members) > 1:
        changed = {m: each for m, each in changed.items() if m != changing}
    else:
        changed = {**changed, changing: changed.get(changing, Wish(everything, NOTHING))}
    after = assign_uniformly(changed, counts)
    fair = -(-sum(counts.values()) // len(changed))
    for member in changed.keys() & before.keys():
        kept = set(slots_of(before[member])) & set(slots_of(after[member]))
        assert len(kept) >= min(loads(before)[member], fair - 1)


def test_uniform_deals_topics_out_like_cards() -> None:
    wishes = {"a": wish("tu"), "b": wish("tu")}
    assert told(assign_uniformly(wishes, counted(t=2, u=2))) == "a:t0,u0 b:t1,u1"


def test_uniform_keeps_what_it_can() -> None:
    wishes = {"a": wish("t", "t012345"), "b": wish("t")}
    assert told(assign_uniformly(wishes, counted(t=6))) == "a:t012 b:t345"


def test_uniform_gives_less_to_those_who_alone_want_something() -> None:
    wishes = {"a": wish("tu"), "b": wish("t")}
    assert told(assign_uniformly(wishes, counted(t=4, u=2))) == "a:t0,u01 b:t123"


def test_what_two_claim_one_keeps() -> None:
    wishes = {"a": wish("t", "t01"), "b": wish("t", "t01")}
    assert told(assign_uniformly(wishes, counted(t=4))) == "a:t01 b:t23"


def test_range_lines_members_up_the_same_way_for_every_topic() -> None:
    wishes = {"b": wish("tu"), "a": wish("tu"), "c": wish("u")}
    assert told(assign_ranges(wishes, counted(t=5, u=5))) == "a:t012,u01 b:t34,u23 c:u4"


def test_range_lines_static_members_up_by_instance() -> None:
    wishes = {"a": wish("t"), "z": wish("t", instance="i1"), "b": wish("t", instance="i2")}
    assert told(assign_ranges(wishes, counted(t=3))) == "a:t2 b:t1 z:t0"


def test_shares_fill_up_to_a_level() -> None:
    others = {"a": 5, "b": 1, "c": 0}
    assert level_shares(others, {"a": 0, "b": 0, "c": 0}, 6) == {"a": 0, "b": 3, "c": 3}
    assert level_shares(others, {"a": 0, "b": 0, "c": 4}, 6) == {"a": 0, "b": 2, "c": 4}


def test_assignors_go_by_kafkas_classes_or_by_name() -> None:
    package = "org.apache.kafka.coordinator.group.assignor"
    assert list(assignors_of((f"{package}.RangeAssignor", "uniform"))) == ["range", "uniform"]
