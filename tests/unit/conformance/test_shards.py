"""How tests are divided among clusters."""

from tests.conformance.results import Row
from tests.conformance.shards import UNKNOWN_SECONDS, divide, seconds_of


def test_the_longest_come_first_and_go_where_least_is_to_do() -> None:
    seconds = {"a": 1.0, "b": 5.0, "c": 3.0, "d": 2.0}
    assert divide(seconds, 2) == [("b", "a"), ("c", "d")]
    assert divide(seconds, 1) == [("b", "c", "d", "a")]


def test_no_shard_is_empty() -> None:
    assert divide({"a": 1.0}, 3) == [("a",)]


def test_a_test_takes_as_long_as_those_below_it() -> None:
    table = {"A/x": Row(seconds=1.0), "A/y/z": Row(kafka_seconds=2.0), "B": Row(seconds=3.0)}
    assert seconds_of(["A", "B", "C"], table) == {"A": 3.0, "B": 3.0, "C": UNKNOWN_SECONDS}
