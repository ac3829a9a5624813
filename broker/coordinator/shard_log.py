"""The log below a coordinator's shard: one partition of an internal topic, for one leader epoch.

`ShardLog` is the seam. The broker's is in `partition_log`; `MemoryLog` is the twin for tests: its
high watermark and its failures are moved by hand.
"""

from collections.abc import Callable
from typing import Protocol

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import (
    read_header,
    write_base_offset_and_epoch,
)


class ShardLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_end(self) -> int:
        """The high watermark: below it nothing is ever lost."""
        ...

    def append(self, batch: bytes) -> int:
        """Append one batch; the offset behind it. KafkaError: nothing was appended."""
        ...

    def outcome(self, end: int) -> Errors | None:
        """What became of records that end at this offset; None while that is open."""
        ...

    def watch(self, end: int, look: Callable[[], None]) -> None:
        """Call `look` once, when the high watermark reaches `end` or the leader changes."""
        ...

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds `offset`; empty when there is nothing more."""
        ...


class MemoryLog:
    """`holds_back` keeps the high watermark where it is until `commit`."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.end_offset = 0
        self.committed_end = 0
        self.holds_back = False
        self.is_leader = True
        self.has_quorum = True
        self.refusal: Errors | None = None
        self._watching: list[tuple[int, Callable[[], None]]] = []

    def append(self, batch: bytes) -> int:
        if not self.is_leader:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        stamped = bytearray(batch)
        write_base_offset_and_epoch(stamped, 0, self.end_offset, 0)
        self.batches.append(bytes(stamped))
        self.end_offset = read_header(stamped).next_offset
        if not self.holds_back:
            self.commit()
        return self.end_offset

    def outcome(self, end: int) -> Errors | None:
        if not self.is_leader:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if self.committed_end < end:
            return None
        return Errors.NONE if self.has_quorum else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def watch(self, end: int, look: Callable[[], None]) -> None:
        self._watching.append((end, look))

    async def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.batches:
            if read_header(batch).last_offset < offset:
                continue
            if found and len(found) + len(batch) > max_bytes:
                break
            found += batch
        return found

    def commit(self, end: int | None = None) -> None:
        """Move the high watermark, to the log end by default."""
        self.committed_end = self.end_offset if end is None else end
        self._call(lambda reached: reached <= self.committed_end)

    def lose_leadership(self) -> None:
        self.is_leader = False
        self._call(lambda _: True)

    def _call(self, is_due: Callable[[int], bool]) -> None:
        due = [look for end, look in self._watching if is_due(end)]
        self._watching = [(end, look) for end, look in self._watching if not is_due(end)]
        for look in due:
            look()
