"""Where the replicas of new partitions go: spread over brokers, and over racks when all have one.

Pure; the starting point is passed in, so that tests and simulations repeat.

Without racks: partition p's first replica goes to broker (start + p); each further one is a growing
step away, and the step grows by one each time p has gone round all brokers, so that two brokers
rarely share all their partitions. With racks, brokers are first dealt out alternately (one of each
rack in turn), and a replica skips a broker while another rack, or another broker, has none of the
partition yet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.protocol.errors import Errors, KafkaError


@dataclass(frozen=True, slots=True)
class Start:
    """`index` is the first partition's broker, `shift` the first step between replicas."""

    index: int
    shift: int


def place(
    racks: Mapping[int, str | None],
    *,
    partitions: range,
    replication_factor: int,
    start: Start,
) -> dict[int, tuple[int, ...]]:
    """Replicas of each partition; `racks` are the usable brokers and where they stand."""
    if replication_factor < 1:
        raise KafkaError(
            Errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(racks):
        raise KafkaError(
            Errors.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(racks)}.",
        )
    named = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(named) == len(racks):
        return _over_racks(named, partitions, replication_factor, start)
    return _over_brokers(sorted(racks), partitions, replication_factor, start)


def _over_brokers(
    brokers: Sequence[int], partitions: range, factor: int, start: Start
) -> dict[int, tuple[int, ...]]:
    count = len(brokers)
    shift = start.shift
    placed = {}
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start.index) % count
        others = (_other(first, shift, nth, count) for nth in range(factor - 1))
        placed[partition] = (brokers[first], *(brokers[index] for index in others))
    return placed


def _other(first: int, shift: int, nth: int, count: int) -> int:
    """The place of the nth further replica: never `first`, all different for n < count - 1."""
    return (first + 1 + (shift + nth) % (count - 1)) % count


def _over_racks(
    racks: Mapping[int, str], partitions: range, factor: int, start: Start
) -> dict[int, tuple[int, ...]]:
    brokers = alternate(racks)
    count = len(brokers)
    rack_count = len(set(racks.values()))
    shift = start.shift
    placed = {}
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start.index) % count
        chosen = [brokers[first]]
        step = 0
        while len(chosen) < factor:
            broker = brokers[(first + 1 + (shift * rack_count + step) % (count - 1)) % count]
            if _spreads(broker, chosen, racks, rack_count):
                chosen.append(broker)
            step += 1
        placed[partition] = tuple(chosen)
    return placed


def _spreads(broker: int, chosen: list[int], racks: Mapping[int, str], rack_count: int) -> bool:
    """Whether no other broker or rack has a better claim to the next replica."""
    used = {racks[other] for other in chosen}
    if racks[broker] in used and len(used) < rack_count:
        return False
    return broker not in chosen


def alternate(racks: Mapping[int, str]) -> list[int]:
    """Brokers dealt out rack by rack: 0,1,2 in a and 3,4 in b give 0,3,1,4,2."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]
