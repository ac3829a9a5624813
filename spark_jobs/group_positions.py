"""Where consumer groups are among the copies that `mirror` makes.

Every copy carries the offset of its original in a header. In a partition of copies these offsets
rise: one task copies a partition in its order, and what a repeated task wrote before is not
committed. So the place of a group is found by bisection in the copies themselves; there is no table
of offsets that could fall behind them. A group that is ahead of the copies gets their end, and
moves on later.

A group never moves back over there, and one that has members over there keeps its own position.
"""

import logging
import re
import sys
from bisect import bisect_left
from contextlib import ExitStack
from typing import Final, Self

from odradek.client.consumer import Consumer
from odradek.client.sync import SyncAdmin, SyncConsumer
from odradek.client.values import ConsumerRecord, OffsetAndMetadata
from odradek.protocol.clock import Clock, SystemClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.columns import HEADERS_TYPE
from odradek.spark_jobs.lookup import Lookup
from odradek.spark_jobs.offsets import OptionError
from pyspark.sql import Column
from pyspark.sql import functions as F

log = logging.getLogger(__name__)

ORIGIN: Final = "mirror.offset"
EVERY_S: Final = 10.0
POLL_S: Final = 1.0
# After the last copy, where the next one will be: behind every offset.
NOWHERE: Final = sys.maxsize
FIXED: Final = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}


def with_origin() -> Column:
    """The headers of a record of the source, and its offset as one more."""
    value = F.col("offset").cast("string").cast("binary")
    origin = F.struct(F.lit(ORIGIN).alias("key"), value.alias("value"))
    return F.concat(F.coalesce("headers", F.array().cast(HEADERS_TYPE)), F.array(origin))


def origin_of(record: ConsumerRecord) -> int:
    """The offset of the original; before all others for what is no copy."""
    offsets = [int(value) for name, value in record.headers if name == ORIGIN and value is not None]
    # A copy of a copy has one of each: the last is its own.
    return offsets[-1] if offsets else -1


class GroupPositions:
    def __init__(
        self,
        lookup: Lookup,
        source: str,
        target: str,
        prefix: str,
        groups: str,
        clock: Clock | None = None,
    ) -> None:
        """`lookup` says which partitions are copied now."""
        try:
            self._groups = re.compile(groups)
        except re.error as error:
            raise OptionError(f"--groups {groups!r} is no regular expression: {error}") from error
        self._lookup = lookup
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._due = self._clock.monotonic() + EVERY_S
        with ExitStack() as opened:
            self._source = opened.enter_context(SyncAdmin(bootstrap_servers=source))
            self._target = opened.enter_context(SyncAdmin(bootstrap_servers=target))
            self._copies = opened.enter_context(SyncConsumer(FIXED, bootstrap_servers=target))
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def carry_over_now_and_then(self) -> None:
        if self._clock.monotonic() >= self._due:
            self.carry_over()
            self._due = self._clock.monotonic() + EVERY_S

    def carry_over(self) -> None:
        """Move every group over there to where it is here. What fails now is tried next time."""
        try:
            copied = self._lookup.partitions()
            for group in self._source.run(lambda admin: admin.list_groups()):
                if self._groups.fullmatch(group.group_id):
                    self._move(group.group_id, copied)
        except KafkaError as error:
            log.warning("positions of groups were not carried over: %s", error)

    def _move(self, group_id: str, copied: set[TopicPartition]) -> None:
        here = self._source.run(lambda admin: admin.list_group_offsets(group_id))
        there = self._target.run(lambda admin: admin.list_group_offsets(group_id))
        moved: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in here.keys() & copied:
            copy = TopicPartition(f"{self._prefix}{partition.topic}", partition.partition)
            place = self._place(copy, here[partition].offset)
            if copy not in there or there[copy].offset < place:
                moved[copy] = OffsetAndMetadata(place, here[partition].metadata)
        if not moved:
            return
        try:
            self._target.run(lambda admin: admin.alter_group_offsets(group_id, moved))
        except KafkaError as error:
            if error.error is not Errors.UNKNOWN_MEMBER_ID:
                raise
            log.info("group %s has members over there", group_id)

    def _place(self, copy: TopicPartition, offset: int) -> int:
        """Where the first copy is whose original is at this offset or after it."""
        begin, end = self._copies.run(lambda consumer: _ends(consumer, copy))
        self._copies.assign([copy])
        places = range(begin, end)
        return begin + bisect_left(places, offset, key=lambda at: self._origin_at(copy, at, end))

    def _origin_at(self, copy: TopicPartition, at: int, end: int) -> int:
        """The origin of the first copy at this offset or after it: there are markers between."""
        self._copies.seek(copy, at)
        while self._copies.position(copy) < end:
            for record in self._copies.poll(POLL_S, 1):
                return origin_of(record)
        return NOWHERE


async def _ends(consumer: Consumer, copy: TopicPartition) -> tuple[int, int]:
    first = await consumer.beginning_offsets([copy])
    last = await consumer.end_offsets([copy])
    return first[copy], last[copy]
