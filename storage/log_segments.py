"""The segments of one log in the order of their base offsets; the last one is active.

A log always has at least one segment. One owner: the log.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from odradek.storage.segment import Segment


class SegmentList:
    """`active` is the last one; while there is none, it has no value."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=_base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def floor(self, offset: int) -> Segment | None:
        """The segment that would hold `offset`: the last one whose base is not above it."""
        slot = bisect_right(self._bases, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        slot = bisect_right(self._bases, segment.base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def reaching(self, offset: int) -> list[Segment]:
        """The segment that would hold `offset` and all later ones; all, when none would."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def above(self, offset: int) -> list[Segment]:
        """The segments that begin above `offset`."""
        return self._segments[bisect_right(self._bases, offset) :]

    def add(self, segment: Segment) -> None:
        slot = bisect_right(self._bases, segment.base_offset)
        assert slot == 0 or self._bases[slot - 1] < segment.base_offset, "base offsets differ"
        self._segments.insert(slot, segment)
        self._bases.insert(slot, segment.base_offset)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        slot = self._segments.index(segment)
        del self._segments[slot], self._bases[slot]
        if self._segments:
            self.active = self._segments[-1]
        else:
            del self.active


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
