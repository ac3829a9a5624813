"""Offsets as Spark keeps them, and the decisions about them. Nothing here asks a broker.

A position in a stream is written as the official connector writes it, `{"topic": {"0": 17}}`, so
that checkpoints and option values read alike. Ends are exclusive everywhere.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from odradek.protocol.types import TopicPartition

Offsets = dict[TopicPartition, int]
Document = dict[str, dict[str, int]]

LATEST: Final = -1
EARLIEST: Final = -2


class OptionError(ValueError):
    """An option that cannot be followed; the sentence names it."""


class DataLoss(RuntimeError):
    """Records that the query should have read are gone."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Part of one partition, read by one task."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def to_document(offsets: Mapping[TopicPartition, int]) -> Document:
    """Sorted, because Spark compares positions by their text."""
    document: Document = {}
    for (topic, index), offset in sorted(offsets.items()):
        document.setdefault(topic, {})[str(index)] = offset
    return document


def from_document(document: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(index)): offset
        for topic, partitions in document.items()
        for index, offset in partitions.items()
    }


def parse_offsets(option: str, text: str) -> Offsets:
    """What an option of the form `{"topic": {"0": 17}}` says. Raises OptionError."""
    try:
        parsed = from_document(json.loads(text))
        if any(type(offset) is not int for offset in parsed.values()):
            raise ValueError("an offset is a whole number")
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            f'{option} must look like {{"topic": {{"0": 17}}}}, and {text!r} does not: {error}'
        ) from error
    return parsed


def parse_assignment(text: str) -> set[TopicPartition]:
    """What the option `assign` says, `{"topic": [0, 1]}`. Raises OptionError."""
    try:
        parsed = json.loads(text)
        chosen = {TopicPartition(t, index) for t, indexes in parsed.items() for index in indexes}
        if any(type(index) is not int for _, index in chosen):
            raise ValueError("a partition is a whole number")
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            f'assign must look like {{"topic": [0, 1]}}, and {text!r} does not: {error}'
        ) from error
    if not chosen:
        raise OptionError("assign names no partition")
    return chosen


def behind(start: Offsets, latest: Offsets) -> int:
    """How many offsets there are to read."""
    return sum(max(end - start.get(p, end), 0) for p, end in latest.items())


def limited(start: Offsets, latest: Offsets, most: int) -> Offsets:
    """How far to go from `start` towards `latest` with at most `most` offsets.

    Every partition gets its share of the limit by how far it is behind, and at least one offset
    while the limit lasts, so that no partition waits for ever beside a busy one.
    """
    behind = {p: max(end - start.get(p, end), 0) for p, end in latest.items()}
    total = sum(behind.values())
    if total <= most:
        return {p: max(end, start.get(p, end)) for p, end in latest.items()}
    reached = {p: start.get(p, end) for p, end in latest.items()}
    left = most
    for partition in sorted(behind, key=lambda p: (behind[p], p)):
        if behind[partition] and left:
            share = min(max(behind[partition] * most // total, 1), left)
            reached[partition] += share
            left -= share
    return reached


def planned(start: Offsets, end: Offsets) -> tuple[list[OffsetRange], list[str]]:
    """What to read between two positions, and a sentence for each loss that shows already.

    A partition that the start does not know is new: `start` has its beginning when the caller
    looked it up. One that the end does not know is gone, and so are records when the end lies
    before the start: the topic was made anew.
    """
    ranges: list[OffsetRange] = []
    losses = [
        f"{partition} is gone; it was read up to offset {start[partition]}"
        for partition in sorted(start.keys() - end.keys())
    ]
    for partition, stop in sorted(end.items()):
        begin = start.get(partition, 0)
        if stop < begin:
            losses.append(
                f"{partition} ends at offset {stop}, before {begin}, which was read already"
            )
        elif stop > begin:
            ranges.append(OffsetRange(partition, begin, stop))
    return ranges, losses


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """The ranges cut for tasks: into at least `min_partitions`, none above `max_records`.

    The same ranges are always cut alike, which the sink counts on when a batch is repeated.
    """
    pieces = list(ranges)
    if max_records is not None:
        pieces = [cut for piece in pieces for cut in _cut(piece, -(-piece.size // max_records))]
    total = sum(piece.size for piece in pieces)
    if min_partitions is None or len(pieces) >= min_partitions or not total:
        return pieces
    return [
        cut for piece in pieces for cut in _cut(piece, round(piece.size * min_partitions / total))
    ]


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(max(parts, 1), piece.size)
    bounds = [piece.start + piece.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(piece.partition, begin, end) for begin, end in pairwise(bounds)]
