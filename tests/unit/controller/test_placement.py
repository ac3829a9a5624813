"""Replicas are spread over brokers, and over racks when every broker has one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.controller.placement import Start, alternate, place
from odradek.protocol.errors import Errors, KafkaError


def spread(racks, partitions, factor, start=(0, 0)):
    return place(
        racks, partitions=range(partitions), replication_factor=factor, start=Start(*start)
    )


def test_the_example_of_kafkas_documentation():
    """Five brokers, ten partitions, three replicas: the table Kafka's own source explains."""
    placed = spread(dict.fromkeys(range(5)), 10, 3)
    assert list(placed.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_racks_alternate():
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate(racks) == [0, 3, 1, 5, 4, 2]


def test_each_partition_reaches_every_rack():
    racks = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
    placed = spread(racks, 12, 3)
    assert all(len({racks[b] for b in replicas}) == 3 for replicas in placed.values())
    assert set(Counter(replicas[0] for replicas in placed.values()).values()) == {2}
    assert set(Counter(b for replicas in placed.values() for b in replicas).values()) == {6}


def test_a_broker_without_rack_makes_all_racks_count_for_nothing():
    assert spread({0: "a", 1: None, 2: "a"}, 3, 2) == spread({0: None, 1: None, 2: None}, 3, 2)


@given(
    brokers=st.dictionaries(st.integers(0, 50), st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    data=st.data(),
)
def test_replicas_are_distinct_and_racks_are_used_before_repeated(brokers, partitions, data):
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    with_racks = data.draw(st.booleans())
    racks = brokers if with_racks else dict.fromkeys(brokers)
    placed = spread(racks, partitions, factor, start)
    assert sorted(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
        if with_racks:
            used = len({brokers[b] for b in replicas})
            assert used == min(factor, len(set(brokers.values())))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) <= -(-partitions // len(brokers))


@pytest.mark.parametrize("factor", [0, -1, 3])
def test_an_impossible_replication_factor_is_refused(factor):
    with pytest.raises(KafkaError) as refused:
        spread({1: None, 2: None}, 1, factor)
    assert refused.value.error is Errors.INVALID_REPLICATION_FACTOR
