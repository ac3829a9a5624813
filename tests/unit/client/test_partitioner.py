"""Choosing partitions; the hash itself is compared with Java's in the integration tests."""

from random import Random

from odradek.client.partitioner import RoundRobinPartitioner, StickyPartitioner, key_hash, murmur2


def test_known_hashes() -> None:
    # From the Java client: Utils.murmur2 of these bytes, as unsigned numbers.
    assert murmur2(b"21") == (-973932308) % 2**32
    assert murmur2(b"foobar") == (-790332482) % 2**32
    assert murmur2(b"a-little-bit-long-string") == (-985981536) % 2**32
    assert murmur2(b"abc") == 479470107


def test_a_key_always_goes_to_the_same_partition() -> None:
    partitioner = StickyPartitioner(Random(1))
    assert {partitioner.choose(b"key", 12, [0]) for _ in range(10)} == {key_hash(b"key") % 12}


def test_without_a_key_one_partition_is_kept_until_a_batch_is_full() -> None:
    partitioner = StickyPartitioner(Random(1))
    seen = set()
    for _ in range(50):
        first = partitioner.choose(None, 4, [0, 1, 2, 3])
        assert {partitioner.choose(None, 4, [0, 1, 2, 3]) for _ in range(5)} == {first}
        seen.add(first)
        assert not partitioner.batch_is_full(first + 1)
        assert partitioner.batch_is_full(first)
    assert seen == {0, 1, 2, 3}


def test_partitions_without_a_leader_are_left_out() -> None:
    partitioner = StickyPartitioner(Random(1))
    assert {partitioner.choose(None, 4, [2]) for _ in range(5)} == {2}
    assert partitioner.choose(None, 4, [1]) == 1


def test_round_robin_goes_round() -> None:
    partitioner = RoundRobinPartitioner(Random(1))
    assert [partitioner.choose(b"k", 3, [0, 2]) for _ in range(4)] == [0, 2, 0, 2]
    assert [partitioner.choose(None, 3, []) for _ in range(3)] == [1, 2, 0]
