"""Divide the tests of a suite among clusters that run side by side."""

from collections.abc import Mapping, Sequence

from tests.conformance.results import Table

# What a test is taken for of which nobody knows how long it takes.
UNKNOWN_SECONDS = 10.0


def seconds_of(tests: Sequence[str], table: Table) -> Mapping[str, float]:
    """How long each took when it was last seen; a test with others below it, these together."""
    known: dict[str, float] = {}
    for name, row in table.items():
        for test in {name, name.partition("/")[0]}:
            known[test] = known.get(test, 0.0) + (row.seconds or row.kafka_seconds)
    return {test: known.get(test, UNKNOWN_SECONDS) for test in tests}


def divide(seconds: Mapping[str, float], shards: int) -> list[tuple[str, ...]]:
    """Longest first, each to the shard that has least to do; no shard is empty."""
    loads = [0.0] * max(1, min(shards, len(seconds)))
    divided: list[list[str]] = [[] for _ in loads]
    for test in sorted(seconds, key=lambda test: -seconds[test]):
        least = loads.index(min(loads))
        loads[least] += seconds[test]
        divided[least].append(test)
    return [tuple(tests) for tests in divided]
